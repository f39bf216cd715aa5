"""The reader of live network streams by PyAV: it connects again when a stream is lost, and keeps one clock."""

from __future__ import annotations

import logging
import math
import time
from typing import Any

from ...cuda.context import CudaContext
from ...errors import SourceError
from ..decode.addresses import StreamOptions, scheme_of
from ..decode.containers import LIVE_OPEN_SECONDS
from ..decode.decoder import VideoDecoder
from ..decode.nvdec import open_nvdec
from .video_files import AvReader, DecodedReader
from .worker import Waits

log = logging.getLogger("framebind.streams")

_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 10.0)
"""Seconds before each attempt to connect again; the last one from then on."""
_JUMP = 5.0
"""Seconds by which a stream's clock differs from ours between two frames, from which on it counts as set anew."""
_LATE = 1.0
"""Seconds by which a frame of a burst is late, from which on the clock by which frames are shown is set anew."""


def open_stream(
    address: str, options: StreamOptions, *, context: CudaContext | None = None, is_named: bool = False
) -> AvReader | StreamReader:
    """Open an address: a file of known duration behind http waits to be read, all else is live.

    With ``context`` NVDEC decodes, as for AvReader. Raises SourceError.
    """
    decoder = _connect(address, options, context)
    if not _is_recording(address, decoder):
        return StreamReader(address, options, decoder, context=context, is_named=is_named)
    decoder.close()
    return AvReader(address, stream=options, context=context, is_named=is_named)


def _connect(
    address: str, options: StreamOptions, context: CudaContext | None, like: VideoDecoder | None = None
) -> VideoDecoder:
    if context is None:
        return VideoDecoder(address, stream=options, live=True, like=like)
    return open_nvdec(address, context, stream=options, live=True, like=like)


def _is_recording(address: str, decoder: VideoDecoder) -> bool:
    return scheme_of(address) in ("http", "https") and decoder.seconds is not None


class StreamReader(DecodedReader):
    """A live stream. Implements FrameReader: ``read`` gives the next frame, False once the connection is lost.

    With ``context`` NVDEC decodes: ``read_picture`` gives frames then, and ``read`` does not.
    """

    length = None

    def __init__(
        self,
        address: str,
        options: StreamOptions,
        decoder: VideoDecoder,
        *,
        context: CudaContext | None = None,
        is_named: bool = False,
    ) -> None:
        self._address, self._options, self._decoder = address, options, decoder
        super().__init__(context, is_named=is_named)
        self._frames, self._clock = decoder.frames(), _Clock()
        self.live = True
        self._describe(decoder)
        self.captured: float | None = None
        self.time: float | None = None
        self.status, self._damaged = "", 0
        self._lost_at, self._attempts = 0.0, 0
        # This reader itself says when it gives up; opening and reading end by their own limits.
        self.waits = Waits(first_frame=math.inf, lost=math.inf, end=2 * LIVE_OPEN_SECONDS + options.stall + 2)

    @property
    def damaged(self) -> int:
        """Packets so far, of all connections, that could not be decoded."""
        return self._damaged + self._decoder.damaged

    @property
    def retry(self) -> float:
        """Seconds until the next attempt to connect."""
        return _PAUSES[min(self._attempts, len(_PAUSES) - 1)]

    def _next(self) -> Any:
        """The next frame (av.VideoFrame); None once the connection is lost."""
        frame, why = None, "the server ended it"
        try:
            frame = next(self._frames, None)
        except SourceError as error:
            why = str(error).removeprefix(f"{self.name} cannot be read on: ")
        if frame is None:
            if not self.status:
                self._lost_at = time.perf_counter()
                self._say(f"{self.name} is lost: {why}")
            return None
        arrived = self._decoder.packets.arrival_of(frame)
        self.captured, self.time = arrived, self._clock.time(self._decoder.time_of(frame), arrived)
        if self._decoder.is_segmented:
            self.captured = self._clock.wait_until_due(self.time)
        self.status, self._attempts = "", 0
        return frame

    def _open(self) -> None:
        self._decoder = _connect(self._address, self._options, self.context)
        self._frames = self._decoder.frames()

    def reopen(self) -> bool:
        """Try once to connect again. Raises SourceError once the options' limit is reached."""
        self._attempts += 1
        lost = self._decoder
        lost.close()
        try:
            self._decoder = _connect(self._address, self._options, self.context, lost)
        except SourceError as error:
            self._give_up_after_limit(error)
            return False
        self._damaged += lost.damaged
        if _is_recording(self._address, self._decoder):  # a live playlist that was completed
            self._decoder.close()
            self.live = False
            return False
        self._frames = self._decoder.frames()
        self._clock.begin_anew()
        log.warning("%s is back after %.1f s, attempt %d", self.name, self._seconds_lost(), self._attempts)
        return True

    def close(self) -> None:
        self._decoder.close()

    def _seconds_lost(self) -> float:
        return time.perf_counter() - self._lost_at

    def _give_up_after_limit(self, error: SourceError) -> None:
        options, lost = self._options, self._seconds_lost()
        if (options.attempts is not None and self._attempts >= options.attempts) or (
            options.seconds is not None and lost >= options.seconds
        ):
            raise SourceError(
                f"{self.name} is lost for {lost:.0f} seconds, and {self._attempts} attempts to connect failed: {error}"
            ) from error
        self._say(f"{self.name} is lost for {lost:.0f} s: attempt {self._attempts} failed")

    def _say(self, what: str) -> None:
        self.status = f"{what}; the next attempt is in {self.retry:g} s"
        log.warning(self.status)


class _Clock:
    """Seconds since a stream's first frame: by its own clock as long as that runs as ours does."""

    def __init__(self) -> None:
        self._zero: float | None = None
        self._last: tuple[float, float] | None = None
        self._offset = 0.0
        self._shown_from = -math.inf

    def begin_anew(self) -> None:
        """Forget the stream's clock: that of the next connection may be another one."""
        self._last = None

    def time(self, seconds: float, arrived: float) -> float:
        """The time of a frame with the stamp ``seconds`` on the stream's clock. After a gap or a jump of that clock it
        is the time of arrival.
        """
        if self._zero is None:
            self._zero = arrived
        if self._last is None or not self._runs(seconds, arrived, *self._last):
            self._offset = arrived - self._zero - seconds
        self._last = seconds, arrived
        return seconds + self._offset

    def wait_until_due(self, seconds: float) -> float:
        """Wait until a frame of that time is due, because frames come in bursts. Returns the time on our clock.

        Frames are spaced as the stream says, counted from the first frame, or from one that was late or far ahead.
        """
        now = time.perf_counter()
        if not -_LATE < self._shown_from + seconds - now < _JUMP:
            self._shown_from = now - seconds
        due = self._shown_from + seconds
        time.sleep(max(due - now, 0.0))
        return max(due, now)

    @staticmethod
    def _runs(seconds: float, arrived: float, last_seconds: float, last_arrived: float) -> bool:
        passed = seconds - last_seconds
        return passed > 0 and abs(passed - (arrived - last_arrived)) < _JUMP
