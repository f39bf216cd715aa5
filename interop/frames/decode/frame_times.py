"""Times of the frames of a file, and of its end: what containers say is not always what players need."""

from __future__ import annotations

import heapq
from typing import Any

from .pyav import load_av

_USUAL_RATE = 25
_LARGEST = 1 << 60
"""Ticks that no clock has: a damaged file may say any number, and sums of them have to fit into 64 bits."""
_DISORDER = 4
"""Frames by which times may be out of order without a clock that was set back."""
_ORDERLESS = "avi"
"""FFmpeg's name of the container whose packets have no time of presentation: FFmpeg numbers them as they lie in it."""


class RunningClock:
    """A clock that goes on where another one is set back, as in recordings that were put one after the other."""

    def __init__(self, tolerance: int) -> None:
        """``tolerance``: ticks by which a time may be before the last one, and the clock was not set back."""
        self._tolerance = tolerance
        self._last: int | None = None
        self._moved = 0

    def moved(self, ticks: int, step: int) -> int:
        """The ticks by which a time is moved; if the clock was set back, it comes ``step`` after the last one."""
        if self._last is not None and ticks + self._moved < self._last - self._tolerance:
            self._moved = self._last + step - ticks
        self._last = ticks + self._moved
        return self._moved


class FrameTimes:
    """Sets the times of decoded frames, so that each is later than the one before.

    Frames without a time (raw H.264) follow one another at the stream's rate. Those of .avi files get the times of
    their packets in order.
    """

    def __init__(self, container: Any, stream: Any) -> None:
        ticks = 1 / stream.time_base
        self._time_base, self._least = stream.time_base, max(round(ticks / 1000), 1)
        self._step = max(round(ticks / (stream.average_rate or stream.guessed_rate or _USUAL_RATE)), 1)
        self._clock = RunningClock(_DISORDER * self._step)
        self._is_orderless = container.format.name == _ORDERLESS
        self._waiting: list[int] = []
        """Times of packets whose frames did not come yet; the smallest one is the first (heapq)."""
        self._sent: int | None = None
        self._last: int | None = None

    def sent(self, packet: Any) -> None:
        """Note a packet that the decoder gets."""
        if self._is_orderless and packet.size and packet.pts is not None:
            heapq.heappush(self._waiting, packet.pts)
            self._sent = packet.pts

    def lost_last(self) -> None:
        """Note that the last packet could not be decoded, so that no frame has its time."""
        if self._sent in self._waiting:
            self._waiting.remove(self._sent)
            heapq.heapify(self._waiting)

    def set(self, frame: Any) -> None:
        """Set the time of the next frame (av.VideoFrame)."""
        known, last = heapq.heappop(self._waiting) if self._waiting else frame.pts, self._last
        if known is None or abs(known) > _LARGEST:
            time = 0 if last is None else last + self._step
        else:
            time = known + self._clock.moved(known, self._step)
            time = time if last is None else max(time, last + self._least)
        self._last = frame.pts = time
        frame.time_base = self._time_base


def end_of_packets(container: Any, after: float) -> float:
    """The second of the container's clock at which the last packet of any stream ends, ``after`` a second of it."""
    last = 0.0
    try:
        container.seek(int(after * 1_000_000), any_frame=False)
        for packet in container.demux():
            if packet.size and packet.pts is not None:
                last = max(last, float((packet.pts + (packet.duration or 0)) * packet.time_base))
    except (load_av().error.FFmpegError, OverflowError):  # it ends in the middle of a packet, or has absurd times
        pass
    return last
