"""The rotation of a video: phones store frames as the sensor lies, and write beside them how to show them."""

from __future__ import annotations

from typing import Any


def turn_of(frame: Any) -> int:
    """Degrees clockwise by which frames are to be turned to be shown: 0, 90, 180 or 270.

    ``frame`` is the first one, of PyAV: it has the angle of the container's display matrix, counterclockwise.
    """
    return round(-float(frame.rotation) / 90) % 4 * 90


def stored_rotation(turn: int) -> int:
    """Degrees clockwise from an upright frame to a stored one, which is turned by ``turn`` to be shown."""
    return -turn % 360
