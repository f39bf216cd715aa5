"""Video files and streams, opened by PyAV: allowed protocols, limits, the streams to show, and their packets."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import SourceError
from .addresses import PROTOCOLS, StreamOptions, checked_scheme, masked_address, plain_address
from .certificates import tls_options, why_untrusted
from .pyav import load_av
from .seeking import packets_from

MAX_PIXELS = 16384 * 8704
"""Pixels per frame that are decoded: twice 8K. A damaged or hostile header may claim any size."""
OPEN_SECONDS, READ_SECONDS, LIVE_OPEN_SECONDS = 10.0, 10.0, 5.0
"""Seconds to wait for a connection, for the next packet of a file, and for a connection to a live stream."""
_ANALYZED = 200_000
"""Microseconds of a live stream that FFmpeg may read before its first frame: by itself it takes five seconds. What it
looks for, sizes and rates, frames tell as well."""
_KEPT_ARRIVALS = 64
"""Packets whose time of arrival is kept: more than any decoder holds back."""
_TAKES_ANY_TEXT, _TEXT_ERRORS = 19, {"metadata_errors": "replace"}
"""The version of PyAV that takes titles that are no UTF-8, and the argument by which older ones do."""
_PICTURE_CODECS = ("mjpeg", "png")
"""Codecs of covers. Cameras write videos of MJPEG, too."""
PACKETS_ONLY = {"codec_whitelist": "none", "probesize": "32"}
"""FFmpeg's options that let it open a file without decoding some of its frames, which takes most of an opening."""


def open_container(
    source: str | Path,
    name: str,
    accelerator: Any = None,
    *,
    stream: StreamOptions | None = None,
    limits: tuple[float, float] = (OPEN_SECONDS, READ_SECONDS),
    analyzed: int | None = None,
    packets_only: bool = False,
) -> Any:
    """The container behind a path or an address, which may open what PROTOCOLS allows only.

    ``accelerator`` is PyAV's HWAccel for its video. ``limits``: seconds to wait for a connection, and for a packet.
    ``analyzed``: microseconds of a live stream that may be read before its first frame. ``packets_only``: nothing is to
    be decoded. Raises SourceError.
    """
    av, text, scheme = load_av(), str(source), ""
    if "://" in text:
        text, scheme = plain_address(source), checked_scheme(source, name, stream or StreamOptions())
    options = {"protocol_whitelist": PROTOCOLS[scheme], "max_pixels": str(MAX_PIXELS)}
    if scheme:
        options.update(tls_options(scheme))
    if packets_only:
        options.update(PACKETS_ONLY)
    if scheme.startswith("rtsp"):
        options["rtsp_transport"] = "tcp"  # UDP loses packets of large frames
    if analyzed is not None:
        options["analyzeduration"] = str(analyzed)
    # An absolute path, so that FFmpeg takes no colon in a file's name for a protocol.
    place = text if scheme else str(Path(text).resolve())
    more = _TEXT_ERRORS if int(av.__version__.partition(".")[0]) < _TAKES_ANY_TEXT else {}
    began = time.monotonic()
    try:
        try:
            return av.open(place, options=options, timeout=limits, hwaccel=accelerator, **more)
        except RuntimeError:  # PyAV: it takes none of the decoders that FFmpeg prefers. See nvdec_codecs.py
            return av.open(place, options=options, timeout=limits, **more)
    except (av.error.FFmpegError, OSError) as error:
        if isinstance(error, av.error.ProtocolNotFoundError):
            raise SourceError(
                f"{name} cannot be opened: this build of PyAV has no {scheme}. Take a build whose FFmpeg has it, or "
                "let a program that has it pass the stream on, for instance as rtsp"
            ) from None  # that error has the address
        why = _why_not_opened(error, text, scheme, limits[0], time.monotonic() - began)
        raise SourceError(f"{name} cannot be opened: {why}") from None


def _why_not_opened(error: Any, address: str, scheme: str, limit: float, seconds: float) -> str:
    """The reason of an error after so many seconds, in words, with what to do."""
    if seconds >= limit:  # whatever FFmpeg makes of that
        return f"no answer within {limit:g} seconds. Is the address right, and can it be reached from here?"
    if scheme and (why := why_untrusted(address, limit)):
        return why
    ask = "Is the address right, and can it be reached from here?" if scheme else "Is the file complete?"
    return f"{error.strerror or masked_address(str(error))}. {ask}"


def shown_streams(container: Any) -> list[Any]:
    """The video streams that are no cover pictures.

    FFmpeg writes a cover into Matroska as a track without a mark. So a track of pictures beside another video is one.
    """
    cover = load_av().stream.Disposition.attached_pic
    streams = [each for each in container.streams.video if not each.disposition & cover]
    return [each for each in streams if not _is_of_pictures(each)] or streams


def _is_of_pictures(stream: Any) -> bool:
    return stream.codec_context is not None and stream.codec_context.name in _PICTURE_CODECS


def video_stream(container: Any, name: str) -> Any:
    """The first video stream that is not a cover picture."""
    streams = shown_streams(container)
    if not streams:
        raise SourceError(f"{name} has no video, only streams of other kinds ({len(container.streams)})")
    stream = streams[0]
    if stream.codec_context is None:
        raise SourceError(f"{name} has video of a codec that PyAV cannot decode")
    if stream.width * stream.height > MAX_PIXELS:
        raise SourceError(f"{name} claims frames of {stream.width}x{stream.height}: at most {MAX_PIXELS} pixels")
    return stream


class VideoPackets:
    """The packets of the first video stream of an open file or live stream.

    Attributes
    ----------
    source : str or Path
        The file or address.
    name : str
        The file or address in words.
    options : StreamOptions or None
        Which addresses are allowed, and how long a stream is waited for.
    container, stream : av.container.InputContainer, av.VideoStream
        What is open. After ``close`` the stream is None.
    began : float
        The second of the container's clock that is 0.
    arrived : float
        The time at which the last packet was noted, at first that of the opening, by time.perf_counter.
    """

    def __init__(
        self, source: str | Path, name: str, accelerator: Any, *, options: StreamOptions | None, live: bool
    ) -> None:
        """Open a file's path or an address. Parameters are those of ``open_container``. Raises SourceError."""
        self.source, self.name, self.options = source, name, options
        self._limits = (OPEN_SECONDS, READ_SECONDS)
        if live:
            self._limits = (LIVE_OPEN_SECONDS, (options or StreamOptions()).stall)
        self.container: Any = self.opened(accelerator, analyzed=_ANALYZED if live else None)
        try:
            self.stream: Any = video_stream(self.container, name)
        except BaseException:
            self.container.close()
            raise
        start = self.stream.start_time
        self.began = float(start * self.stream.time_base) if start else 0.0
        self._arrivals: dict[int, float] = {}
        self.arrived = time.perf_counter()

    def opened(self, accelerator: Any = None, analyzed: int | None = None) -> Any:
        """Another container of the same file or stream (av.container.InputContainer). Raises SourceError."""
        return open_container(
            self.source, self.name, accelerator, stream=self.options, limits=self._limits, analyzed=analyzed
        )

    def from_second(self, start: float) -> Iterator[Any]:
        """The packets from which the frames from ``start`` on can be decoded; a file may be opened again for them."""
        packets = None
        if start > 0:
            packets = packets_from(self.container, self.stream, self.began, start)
            if packets is None:
                self.container.close()
                self.container = self.opened()
                self.stream = video_stream(self.container, self.name)
        return packets or self.container.demux(self.stream)

    def note_arrival(self, packet: Any) -> None:
        """Keep when a packet came until its frame comes out of the decoder, which may keep it for a while."""
        self.arrived = time.perf_counter()
        if packet.pts is not None:
            self._arrivals[packet.pts] = self.arrived
            if len(self._arrivals) > _KEPT_ARRIVALS:
                del self._arrivals[next(iter(self._arrivals))]

    def arrival_of(self, frame: Any) -> float:
        """Time at which a frame's packet was noted, by time.perf_counter. To be asked once."""
        return self._arrivals.pop(frame.pts, self.arrived)

    def time_of(self, frame: Any) -> float:
        """Seconds of a frame (av.VideoFrame) since the first one of the stream's clock."""
        return float(frame.time) - self.began if frame.time is not None else 0.0

    def why(self, error: Any) -> str:
        """The reason of FFmpeg's error, in words."""
        if isinstance(error, load_av().error.ExitError):  # of the time limit
            return f"no packet came for {self._limits[1]:g} seconds"
        if error.errno == errno.EIO and "mp4" in self.container.format.name and "://" in str(self.source):
            return (
                f"{error.strerror}. A video whose index is at its end needs a server that sends parts of files (byte "
                "ranges): download it, or write it with '-movflags faststart'"
            )
        return str(error.strerror)

    def close(self) -> None:
        """Close the file or stream, and hold nothing of its stream. May be called more than once."""
        self.container.close()
        self.stream = None


def video_seconds(source: str | Path) -> float | None:
    """Read how long a video is, by its header.

    Parameters
    ----------
    source : str or Path
        A video file.

    Returns
    -------
    float or None
        Seconds; None if the header does not say.

    Raises
    ------
    SourceError
        If it cannot be read.

    Examples
    --------
    >>> fb.video.video_seconds("clip.mp4")
    0.4
    """
    name = f"video '{masked_address(source)}'"
    container = open_container(source, name, packets_only=True)
    try:
        stream = video_stream(container, name)
        if stream.duration:
            return float(stream.duration * stream.time_base)
        return container.duration / 1e6 if container.duration else None
    finally:
        container.close()
