"""Seeking: the packets from which the frames behind a second can be decoded."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from .pyav import load_av

_EARLIER = (0.0, 5.0, 30.0)
"""Seconds before the one that is sought, as a search in a file without an index (MPEG-TS) ends behind a key frame."""
_SOUND_EARLIER = 2.0
"""Seconds by which sound may lie before the pictures of the same time."""


def packets_from(container: Any, stream: Any, began: float, start: float) -> Iterator[Any] | None:
    """The packets of a stream from a key frame on that is shown at second ``start`` or before.

    ``began`` is the second of the container's clock that is 0. None if no such frame was found: then the file is to be
    opened again, and read from its beginning.
    """
    for earlier in _EARLIER:
        if start <= earlier or not _sought(container, start - earlier + began):
            break
        packets = container.demux(stream)
        key = _next_key(packets)
        if key is not None and (key.pts is None or seconds_of(key) - began <= start):
            return itertools.chain([key], packets)
    return None


def seek_sound(container: Any, second: float) -> None:
    """Go to packets of sound and subtitles at a second of the container's clock, or before."""
    _sought(container, second - _SOUND_EARLIER)


def seconds_of(packet: Any) -> float:
    """The second at which a packet's frame is shown: computed as PyAV does for frames, so that the two are equal."""
    return float(packet.pts) * packet.time_base.numerator / packet.time_base.denominator


def _sought(container: Any, second: float) -> bool:
    """Go to the key frame before a second. Returns whether that worked: raw H.264 cannot be searched."""
    try:
        container.seek(round(second * 1_000_000), any_frame=False)
    except (load_av().error.FFmpegError, OverflowError):
        return False
    return True


def _next_key(packets: Iterator[Any]) -> Any:
    """The next packet of a key frame; None if there is none. Errors are those of whoever reads it again."""
    try:
        return next((packet for packet in packets if packet.is_keyframe), None)
    except (load_av().error.FFmpegError, IndexError):
        return None
