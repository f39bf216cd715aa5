"""The rotation of a video: phones store frames as the sensor lies, and write beside them how to show them."""

from __future__ import annotations


def turn_of(angle: float) -> int:
    """Degrees clockwise by which frames are to be turned to be shown: 0, 90, 180 or 270.

    ``angle`` is that of the container's display matrix in degrees counterclockwise, as each frame of PyAV has it
    (``av.VideoFrame.rotation``).
    """
    return round(-angle / 90) % 4 * 90


def stored_rotation(turn: int) -> int:
    """Degrees clockwise from an upright frame to a stored one, which is turned by ``turn`` to be shown."""
    return -turn % 360
