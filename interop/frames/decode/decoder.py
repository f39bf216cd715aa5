"""Decoding of a video file or a stream to planes, by PyAV: times kept, damage skipped and counted, sizes bounded."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import BindingError, SourceError
from ...pixel_formats import BGR, PlanarFormat, nearest_format
from ...yuv import YuvPicture
from .addresses import StreamOptions, masked_address
from .containers import VideoPackets
from .frame_times import FrameTimes, end_of_packets
from .nvdec_codecs import accelerated
from .pyav import load_av
from .reused_decoder import KeptDecoder, PacketDecoder
from .rotation import stored_rotation, turn_of
from .tags import VideoTags, read_tags

_FRUITLESS_SECONDS = 60.0
"""Seconds of packets of a live stream without a frame, until it is given up: key frames may be far apart."""
MISSING = 0.02
"""Share of its duration that a video may lack: containers count roughly."""
Plane = npt.NDArray[np.uint8]


class _Decoding:
    """The way from packets to frames between two seconds: it skips and counts damage, and loses no last frame.

    Attributes
    ----------
    packets : VideoPackets
        The packets of the open file or stream.
    codec : str
        FFmpeg's name of the codec's decoder.
    damaged : int
        Packets so far that could not be decoded.
    """

    def __init__(
        self,
        source: str | Path,
        name: str,
        *,
        start: float,
        end: float | None,
        stream: StreamOptions | None = None,
        live: bool = False,
        accelerator: Any = None,
        kept: KeptDecoder | None = None,
        one_thread: bool = False,
    ) -> None:
        """Open a file or a stream. Messages have its ``name``; all else is as for VideoDecoder. Raises SourceError."""
        self._start, self._end, self._live = start, end, live
        self._waits_for_key = live
        self._is_threaded = accelerator is None and kept is None and not live and not one_thread
        """True if several frames are decoded at once."""
        self.damaged = 0
        self._due, self._last_sent, self._last_out = 0, -1, -1
        """The packets that have given neither a frame nor an error, and the latest time of a packet and of a frame."""
        self._context: Any = None
        self._reused: PacketDecoder | None = None
        self.packets = VideoPackets(source, name, accelerator, options=stream, live=live)
        try:
            self._context = self._codec_context(accelerator, one_thread=one_thread)
            self.codec: str = self._context.name
            self._reused = None if live or kept is None else PacketDecoder(self._context, kept)
            self._times = FrameTimes(self.packets.container, self.packets.stream)
        except BaseException:
            self.abandon()
            raise

    def _codec_context(self, accelerator: Any, *, one_thread: bool) -> Any:
        """The decoder, with as many threads as FFmpeg takes if the CPU decodes."""
        stream = self.packets.stream
        if accelerator is not None:
            return accelerated(stream.codec_context, accelerator, live=self._live)
        stream.thread_type = "AUTO" if self._is_threaded else "SLICE"
        if one_thread:
            stream.codec_context.thread_count = 1
        return stream.codec_context

    @property
    def context(self) -> Any:
        """The decoder that is at work (av.CodecContext)."""
        return self._context if self._reused is None else self._reused.context

    def frames(self) -> Generator[Any]:
        """The decoded frames (av.VideoFrame) from ``start`` to ``end``, in the order of their times, once."""
        errors, source = load_av().error, self.packets
        packets, last = source.from_second(self._start), source.arrived
        while (frames := self._after_next(packets, errors)) is not None:
            self._due -= len(frames)
            if frames:
                last = source.arrived
            elif self._live and source.arrived - last > _FRUITLESS_SECONDS:
                missing = "key frame" if self._waits_for_key else "frame that can be decoded"
                raise SourceError(f"{source.name} has no {missing} in {_FRUITLESS_SECONDS:g} seconds")
            # In a try block, as close() of Python 3.12.3 leaves all variables of a generator that waits outside of one
            # (CPython's issue 118272): the decoder would outlive its CUDA context.
            try:
                for frame in frames:
                    self._last_out = max(self._last_out, frame.pts or 0)
                    if not self._live:
                        self._times.set(frame)
                    seconds = source.time_of(frame)
                    if self._end is not None and seconds >= self._end:
                        return
                    if seconds >= self._start:
                        yield frame
            finally:
                frames.clear()
        yield from self._rest()

    def _after_next(self, packets: Iterator[Any], errors: Any) -> list[Any] | None:
        """The frames that come out after the next packet; None at the end. ``errors``: av.error.

        A packet that cannot be decoded is counted. One without bytes is the end; one to discard, which only others
        need, gives no frame. Only a live stream needs times of arrival, and only a file sets the times of its frames.
        """
        frames = list[Any]()
        try:
            packet = next(packets)
            if self._live:
                self.packets.note_arrival(packet)
                self._waits_for_key = self._waits_for_key and not packet.is_keyframe
                if self._waits_for_key:
                    return frames
            else:
                self._times.sent(packet)
            if packet.size and not packet.is_discard:
                self._due += 1
                self._last_sent = max(self._last_sent, packet.pts or 0)
            damaged = packet.is_corrupt
            frames = (self._reused or self._context).decode(packet)
        except (StopIteration, errors.EOFError):
            return None
        except IndexError as error:  # PyAV's, of a damaged file
            raise SourceError(
                f"{self.packets.name} cannot be read on: another stream begins in the middle of it"
            ) from error
        except errors.FFmpegError as error:
            if not isinstance(error, errors.InvalidDataError):
                raise SourceError(f"{self.packets.name} cannot be read on: {self.packets.why(error)}") from None
            self._times.lost_last()
            self._due -= 1
            damaged = True
        self.damaged += damaged or any(frame.is_corrupt for frame in frames)
        return frames

    def _rest(self) -> Iterator[Any]:
        """The last frames, if the decoder has left them out: at the end of a file, with several threads, it stops
        without an error at the first packet that is damaged (FFmpeg 7 and 8). One thread decodes them again.
        """
        if not self._is_threaded or self._due <= 0 or self._last_sent <= self._last_out:
            return
        packets, found, is_damaged = self.packets, False, True
        start = max(self._start, float(self._last_out * packets.stream.time_base) - packets.began)
        with contextlib.suppress(SourceError):
            again = _Decoding(
                packets.source, packets.name, start=start, end=self._end, stream=packets.options, one_thread=True
            )
            with contextlib.closing(again), contextlib.closing(again.frames()) as frames:
                for frame in frames:
                    found = True
                    if frame.pts > self._last_out:
                        self._due -= 1
                        yield frame
                is_damaged = again.damaged > 0 or not found  # some packets of a whole file give no frame
        self.damaged += self._due if is_damaged else 0

    def close(self) -> None:
        """Close the file or stream, and keep the decoder if it may be kept. May be called more than once."""
        self.packets.container.close()
        if self._reused is not None:
            self._reused.close(is_damaged=self.damaged > 0)
        self.abandon()

    def abandon(self) -> None:
        """Close the file or stream, and hold nothing of FFmpeg any more."""
        self.packets.close()
        self._context = self._reused = None


class VideoDecoder:
    """A video's first video stream, decoded to frames of one size and format.

    Frames that change their size or format in the middle are converted to the first's by swscale.

    Attributes
    ----------
    format : PlanarFormat or None
        Layout of the planes; None if frames are BGR.
    size : (int, int)
        Width and height of a frame as it is stored, in pixels.
    fps : float or None
        Average frames per second.
    length : int or None
        Number of frames, as the file says or as its duration lets expect.
    seconds : float or None
        Duration.
    packets : VideoPackets
        The packets of the open file or stream, with the times at which they came.
    is_segmented : bool
        Whether packets come in bursts, a piece of some seconds at a time (HLS, DASH).
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
        one_thread: bool = False,
    ) -> None:
        """Open a file's path or an address.

        ``start`` and ``end``: seconds of the first frame, and of the first one that is left out. ``stream`` says which
        addresses are allowed. Of a ``live`` one no frame is kept back to decode several at once, and what comes before
        the first key frame is left out. Frames come in the size and format of ``like``. ``accelerator``
        (av.codec.hwaccel.HWAccel) decodes in place of the CPU. The decoder of a file is taken from ``kept`` if it fits,
        and kept there when the file is closed. ``one_thread`` decodes alone, if the CPU decodes. Raises SourceError.
        """
        shown = masked_address(source) if ":/" in str(source) else source
        name = f"{'stream' if live else 'video'} '{shown}'"
        self._decoding = _Decoding(
            source, name, start=start, end=end, stream=stream, live=live, accelerator=accelerator, kept=kept,
            one_thread=one_thread,
        )  # fmt: skip
        self.packets = self._decoding.packets
        self.is_segmented = self.packets.container.format.name in ("hls", "dash")
        self._pending = self._decoding.frames()
        self._first: Any = None
        try:
            self._first = next(self._pending, None)
            if self._first is None:
                raise SourceError(self._why_nothing(start, end))
            self._describe(self._first)
        except BaseException:
            self._first = None
            self._pending.close()
            self._decoding.abandon()
            raise
        if like is not None:
            self.format, self._target, self.size, self._angle = like.format, like._target, like.size, like._angle

    def _why_nothing(self, start: float, end: float | None) -> str:
        """The message for a file without a frame between ``start`` and ``end``."""
        length = self.packets.container.duration
        part = f" from second {start:g}" + (f" to {end:g}" if end is not None else "") if start or end else ""
        ask = f"it has {length / 1e6:.1f} seconds" if length and start else "is the file complete?"
        return f"{self.name} has no frame{part} that can be decoded: {ask}"

    def _describe(self, first: Any) -> None:
        self.size = (first.width, first.height)
        self.format: PlanarFormat | None = _planar_format(first)
        self.is_on_gpu: bool = first.format.name == "cuda"
        self._target: str = first.format.name if self.format or self.is_on_gpu else nearest_format(first.format)
        if self.format is None and self._target != BGR and not self.is_on_gpu:
            self.format = _planar_format(self._converted(first))
            self._target = self._target if self.format else BGR  # of a matrix that swscale alone knows
        self._angle = float(first.rotation)
        container, stream, context = self.packets.container, self.packets.stream, self._decoding.context
        self._tags = (
            stream.sample_aspect_ratio or context.sample_aspect_ratio,
            int(context.color_primaries), int(context.color_trc),
        )  # fmt: skip
        rate: Fraction | None = stream.average_rate or stream.guessed_rate
        self.fps = float(rate) if rate else None
        duration = stream.duration and float(stream.duration * stream.time_base)
        self._is_duration_of_all = duration is None
        if duration is None and container.duration:
            duration = container.duration / 1e6
        self.seconds: float | None = duration
        self.length = stream.frames or (round(duration * self.fps) if duration and self.fps else None)

    @property
    def name(self) -> str:
        """The file or address, in words."""
        return self.packets.name

    @property
    def codec(self) -> str:
        """FFmpeg's name of the codec's decoder."""
        return self._decoding.codec

    @property
    def damaged(self) -> int:
        """Packets so far that could not be decoded."""
        return self._decoding.damaged

    @property
    def turn(self) -> int:
        """Degrees clockwise by which frames are to be turned to be shown: 0, 90, 180 or 270."""
        return turn_of(self._angle)

    @property
    def rotation(self) -> int:
        """Degrees clockwise from an upright frame to a stored one, if frames stay in planes."""
        return stored_rotation(self.turn) if self.format else 0

    @property
    def tags(self) -> VideoTags:
        """The shape of its pixels when it is upright, and the light that its colours stand for."""
        return read_tags(*self._tags, self.turn if self.format else 0)

    def frames(self) -> Iterator[Any]:
        """Frames from ``start`` to ``end`` in the order of their times, once.

        They are as PyAV decoded them (av.VideoFrame), of whatever size and format each has.
        """
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
        self._decoding.close()

    def time_of(self, frame: Any) -> float:
        """Seconds of a frame since the first one of the stream's clock."""
        return self.packets.time_of(frame)

    def is_whole(self, time: float) -> bool:
        """Whether the file goes on to its end, though its video ends at ``time`` seconds: its sound may be longer."""
        if self.damaged or not self._is_duration_of_all or self.seconds is None:
            return False
        with self.packets.opened() as container:
            return end_of_packets(container, time + self.packets.began) >= self.seconds * (1 - MISSING)

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

    def planes(self, frame: Any) -> list[Plane]:
        """The planes of a frame in the CPU's memory, in the format of the first one.

        Bytes without padding, (rows, bytes of a row); one plane (height, 3 width) of BGR pixels. They are valid as long
        as the frame, if it has that format.
        """
        frame = self.alike(frame)
        rows = self.format.rows if self.format else [(self.size[1], 3 * self.size[0])]
        return [
            np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[:count, :nbytes]
            for plane, (count, nbytes) in zip(frame.planes, rows, strict=False)
        ]

    def __enter__(self) -> VideoDecoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _planar_format(frame: Any) -> PlanarFormat | None:
    """The format of a decoded frame (av.VideoFrame); None for formats and matrices that must be converted first."""
    try:
        return YuvPicture.from_frame(frame).described
    except BindingError:
        return None
