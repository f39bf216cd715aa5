"""Decoding of a video file or a stream to planes, by PyAV: times kept, damage skipped and counted, sizes bounded."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import SourceError
from .accelerated import accelerated
from .frame_times import FrameTimes, end_of_packets
from .kept import KeptDecoder, PacketDecoder
from .planar import BGR, PlanarFormat, nearest_format, planar_format
from .pyav import load_av
from .seeking import packets_from
from .streams import PROTOCOLS, StreamOptions, checked_scheme, shown
from .tags import read_tags

MAX_PIXELS = 16384 * 8704
"""Pixels per frame that are decoded: twice 8K. A damaged or hostile header may claim any size."""
OPEN_SECONDS, READ_SECONDS, LIVE_OPEN_SECONDS = 10.0, 10.0, 5.0
"""Seconds to wait for a connection, for the next packet of a file, and for a connection to a live stream."""
_ANALYZED = 200_000
"""Microseconds of a live stream that FFmpeg may read before its first frame: by itself it takes five seconds. What it
looks for, sizes and rates, frames tell as well."""
_FRUITLESS_SECONDS = 60.0
"""Seconds of packets of a live stream without a frame, until it is given up: key frames may be far apart."""
_TAKES_ANY_TEXT, _TEXT_ERRORS = 19, {"metadata_errors": "replace"}
"""The version of PyAV that takes titles that are no UTF-8, and the argument by which older ones do."""
PACKETS_ONLY = {"codec_whitelist": "none", "probesize": "32"}
"""FFmpeg's options that let it open a file without decoding some of its frames, which takes 9 ms of CPU time at 720p,
and 0.4 without (2 cores, 2026-11-22; means of 20 by a script that is not kept).
"""
MISSING = 0.02
"""Share of its duration that a video may lack: containers count roughly."""
_KEPT_ARRIVALS = 64
"""Packets whose time of arrival is kept: more than any decoder holds back."""
Plane = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class DecodedFrame:
    """A frame in CPU memory that belongs to the decoder: valid until the next one is asked for."""

    planes: tuple[Plane, ...]
    """Bytes of each plane without padding: (rows, bytes of a row); one plane (height, 3 width) of BGR pixels."""
    time: float
    """Seconds since the first frame of the stream's clock."""


class VideoDecoder:
    """A video's first video stream, decoded to frames of one size and format.

    Frames that change their size or format in the middle are converted to the first's by swscale.

    Attributes
    ----------
    name : str
        The file or address, in words.
    format : PlanarFormat or None
        Layout of the planes; None if frames are BGR.
    size : (int, int)
        Width and height of a frame as it is stored, in pixels.
    turn : int
        Degrees clockwise by which frames are to be turned to be shown: 0, 90, 180 or 270.
    tags : VideoTags
        The shape of its pixels when it is upright, and the light that its colours stand for.
    fps : float or None
        Average frames per second.
    length : int or None
        Number of frames, as the file says or as its duration lets expect.
    seconds : float or None
        Duration.
    damaged : int
        Packets so far that could not be decoded.
    is_segmented : bool
        Whether packets come in bursts, a piece of some seconds at a time (HLS, DASH).
    codec : str
        FFmpeg's name of the codec's decoder.
    is_on_gpu : bool
        Whether frames are in CUDA's memory, as an accelerator decoded them.
    """

    def __init__(
        self,
        source: str | Path,
        *,
        start: float = 0.0,
        end: float | None = None,
        stream: StreamOptions | None = None,
        live: bool = False,
        like: VideoDecoder | None = None,
        accelerator: Any = None,
        kept: KeptDecoder | None = None,
    ) -> None:
        """Open a file's path or an address.

        ``start`` and ``end``: seconds of the first frame, and of the first one that is left out. ``stream`` says which
        addresses are allowed. Of a ``live`` one no frame is kept back to decode several at once, and what comes before
        the first key frame is left out. Frames come in the size and format of ``like``. ``accelerator``
        (av.codec.hwaccel.HWAccel) decodes in place of the CPU. The decoder of a file is taken from ``kept`` if it fits,
        and kept there when the file is closed. Raises SourceError.
        """
        self.name = f"{'stream' if live else 'video'} '{shown(source)}'"
        self._source, self._start, self._end, self._live = source, start, end, live
        self._limits = (LIVE_OPEN_SECONDS, (stream or StreamOptions()).stall) if live else (OPEN_SECONDS, READ_SECONDS)
        self.damaged = 0
        self._arrivals: dict[int, float] = {}
        self._arrived = 0.0
        self._container = open_container(
            source, self.name, accelerator, stream=stream, limits=self._limits, analyzed=_ANALYZED if live else None
        )
        self.is_segmented = self._container.format.name in ("hls", "dash")
        try:
            self._stream: Any = video_stream(self._container, self.name)
            context: Any = self._stream.codec_context
            if accelerator is None:
                self._stream.thread_type = "SLICE" if live else "AUTO"  # as many threads as FFmpeg takes
            else:
                context = accelerated(context, accelerator, live=live)
            self.codec: str = context.name
            self._packets: Any = PacketDecoder(context, None if live else kept)
            del context  # or the traceback of an error would hold it
            self._times = FrameTimes(self._container, self._stream)
            self._began = float(self._stream.start_time * self._stream.time_base) if self._stream.start_time else 0.0
            self._pending = self._decode()
            self._first: Any = next(self._pending, None)
            if self._first is None:
                part = f" from second {start:g}" + (f" to {end:g}" if end is not None else "") if start or end else ""
                length = self._container.duration
                ask = f"it has {length / 1e6:.1f} seconds" if length and start else "is the file complete?"
                raise SourceError(f"{self.name} has no frame{part} that can be decoded: {ask}")
        except BaseException:
            self._container.close()
            self._pending, self._stream, self._packets = _nothing(), None, None
            raise
        self._describe(self._first)
        if like is not None:
            self.format, self._target, self.size, self.turn = like.format, like._target, like.size, like.turn

    def _describe(self, first: Any) -> None:
        self.size = (first.width, first.height)
        self.format: PlanarFormat | None = planar_format(first)
        self.is_on_gpu: bool = first.format.name == "cuda"
        self._target: str = first.format.name if self.format or self.is_on_gpu else nearest_format(first.format)
        if self.format is None and self._target != BGR and not self.is_on_gpu:
            self.format = planar_format(self._converted(first))
            self._target = self._target if self.format else BGR  # of a matrix that swscale alone knows
        self.turn = round(-first.rotation / 90) % 4 * 90
        self.tags = read_tags(self._stream, self._packets.context, self.turn if self.format else 0)
        rate: Fraction | None = self._stream.average_rate or self._stream.guessed_rate
        self.fps = float(rate) if rate else None
        duration = self._stream.duration and float(self._stream.duration * self._stream.time_base)
        self._is_duration_of_all = duration is None
        if duration is None and self._container.duration:
            duration = self._container.duration / 1e6
        self.seconds: float | None = duration
        self.length = self._stream.frames or (round(duration * self.fps) if duration and self.fps else None)

    def frames(self) -> Iterator[DecodedFrame]:
        """Frames from ``start`` to ``end`` in the order of their times. May be iterated once, as ``native_frames``."""
        for frame in self.native_frames():
            yield self.decoded(frame)

    def native_frames(self) -> Iterator[Any]:
        """The same frames as PyAV decoded them (av.VideoFrame), of whatever size and format each has."""
        if self._first is not None:
            yield self._take_first()  # no variable keeps it: surfaces must be gone before their CUDA context is
        yield from self._pending

    def _take_first(self) -> Any:
        first, self._first = self._first, None
        return first

    def close(self) -> None:
        """Close the file or stream. May be called more than once.

        The decoder goes with it, or is kept: NVDEC's must be gone before its CUDA context is. Frames that were given
        out stay.
        """
        self._first = None
        self._pending.close()
        self._container.close()
        if self._packets is not None:
            self._packets.close(is_damaged=self.damaged > 0)
        self._pending, self._stream, self._packets = _nothing(), None, None

    def _packets_from_start(self) -> Iterator[Any]:
        """The packets from which the frames from ``start`` on can be decoded; a file may be opened again for them."""
        packets = None
        if self._start > 0:
            packets = packets_from(self._container, self._stream, self._began, self._start)
            if packets is None:
                self._container.close()
                self._container = open_container(self._source, self.name, limits=self._limits)
                self._stream = video_stream(self._container, self.name)
        return packets or self._container.demux(self._stream)

    def _decode(self) -> Generator[Any]:
        """Decoded frames between ``start`` and ``end``; packets that cannot be decoded are counted."""
        av = load_av()
        packets = self._packets_from_start()
        waits_for_key, last = self._live, time.perf_counter()
        while True:
            frames, damaged = [], False
            try:
                packet = next(packets)
                self._note_arrival(packet)
                waits_for_key = waits_for_key and not packet.is_keyframe
                if not waits_for_key:
                    damaged = packet.is_corrupt
                    self._times.sent(packet)
                    frames = self._packets.decode(packet)
            except (StopIteration, av.error.EOFError):
                return
            except IndexError as error:  # PyAV's, of a damaged file
                raise SourceError(
                    f"{self.name} cannot be read on: another stream begins in the middle of it"
                ) from error
            except av.error.FFmpegError as error:
                if not isinstance(error, av.error.InvalidDataError):
                    raise SourceError(f"{self.name} cannot be read on: {self._why(error)}") from error
                self._times.lost_last()
                damaged = True
            self.damaged += damaged or any(frame.is_corrupt for frame in frames)
            if frames:
                last = self._arrived
            elif self._live and self._arrived - last > _FRUITLESS_SECONDS:
                missing = "key frame" if waits_for_key else "frame that can be decoded"
                raise SourceError(f"{self.name} has no {missing} in {_FRUITLESS_SECONDS:g} seconds")
            # In a try block, as close() of Python 3.12.3 leaves all variables of a generator that waits outside of one
            # (CPython's issue 118272): the decoder would outlive its CUDA context.
            try:
                for frame in frames:
                    if not self._live:
                        self._times.set(frame)
                    seconds = self.time_of(frame)
                    if self._end is not None and seconds >= self._end:
                        return
                    if seconds >= self._start:
                        yield frame
            finally:
                frames.clear()

    def _note_arrival(self, packet: Any) -> None:
        """Keep when a packet came until its frame comes out of the decoder, which may keep it for a while."""
        self._arrived = time.perf_counter()
        if packet.pts is not None:
            self._arrivals[packet.pts] = self._arrived
            if len(self._arrivals) > _KEPT_ARRIVALS:
                del self._arrivals[next(iter(self._arrivals))]

    def _why(self, error: Any) -> str:
        if isinstance(error, load_av().error.ExitError):  # of the time limit
            return f"no packet came for {self._limits[1]:g} seconds"
        return str(error.strerror)

    def arrival_of(self, frame: Any) -> float:
        """Time at which a frame's packet came, by time.perf_counter. To be asked once."""
        return self._arrivals.pop(frame.pts, self._arrived)

    def time_of(self, frame: Any) -> float:
        """Seconds of a frame since the first one of the stream's clock."""
        return float(frame.time) - self._began if frame.time is not None else 0.0

    def is_whole(self, time: float) -> bool:
        """Whether the file goes on to its end, though its video ends at ``time`` seconds: its sound may be longer."""
        if self.damaged or not self._is_duration_of_all or self.seconds is None:
            return False
        with open_container(self._source, self.name, limits=self._limits) as container:
            return end_of_packets(container, time + self._began) >= self.seconds * (1 - MISSING)

    def _converted(self, frame: Any) -> Any:
        """A frame in the format and size of the first one, by swscale. Raises SourceError."""
        try:
            return frame.reformat(width=self.size[0], height=self.size[1], format=self._target)
        except (load_av().error.FFmpegError, ValueError) as error:
            raise SourceError(
                f"{self.name} has frames of {frame.format.name} with the colour matrix {int(frame.colorspace)} "
                "(ITU-T H.273), which FFmpeg does not convert: encode it again with BT.709"
            ) from error

    def alike(self, frame: Any) -> Any:
        """A frame with the size and format of the first one, converted by swscale if it has others."""
        if (frame.width, frame.height) != self.size or frame.format.name != self._target:
            return self._converted(frame)
        return frame

    def decoded(self, frame: Any) -> DecodedFrame:
        """The planes of a native frame in CPU memory, in the format of the first one."""
        seconds, frame = self.time_of(frame), self.alike(frame)
        rows = self.format.rows if self.format else [(self.size[1], 3 * self.size[0])]
        planes = tuple(
            np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[:count, :nbytes]
            for plane, (count, nbytes) in zip(frame.planes, rows, strict=False)
        )
        return DecodedFrame(planes, seconds)

    def __enter__(self) -> VideoDecoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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
    av, text = load_av(), str(source)
    scheme = checked_scheme(source, name, stream or StreamOptions())
    options = {"protocol_whitelist": PROTOCOLS[scheme], "max_pixels": str(MAX_PIXELS)}
    if packets_only:
        options.update(PACKETS_ONLY)
    if scheme.startswith("rtsp"):
        options["rtsp_transport"] = "tcp"  # UDP loses packets of large frames
    if analyzed is not None:
        options["analyzeduration"] = str(analyzed)
    # An absolute path, so that FFmpeg takes no colon in a file's name for a protocol.
    place = text if scheme else str(Path(text).resolve())
    more = _TEXT_ERRORS if int(av.__version__.partition(".")[0]) < _TAKES_ANY_TEXT else {}
    try:
        try:
            return av.open(place, options=options, timeout=limits, hwaccel=accelerator, **more)
        except RuntimeError:  # PyAV: it takes none of the decoders that FFmpeg prefers. See accelerated.py
            return av.open(place, options=options, timeout=limits, **more)
    except (av.error.FFmpegError, OSError) as error:
        why = error.strerror or error
        if isinstance(error, av.error.ExitError):
            why = f"no answer within {limits[0]:g} seconds"
        if isinstance(error, av.error.ProtocolNotFoundError):
            raise SourceError(
                f"{name} cannot be opened: this build of PyAV has no {scheme}. Take a build whose FFmpeg has it, or "
                "let a program that has it pass the stream on, for instance as rtsp"
            ) from error
        ask = "Is the address right, and can it be reached from here?" if scheme else "Is the file complete?"
        raise SourceError(f"{name} cannot be opened: {why}. {ask}") from error


def _nothing() -> Generator[Any]:
    """No frames."""
    yield from ()


def shown_streams(container: Any) -> list[Any]:
    """The video streams that are no cover pictures."""
    cover = load_av().stream.Disposition.attached_pic
    return [each for each in container.streams.video if not each.disposition & cover]


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
