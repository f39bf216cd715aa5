"""A video file: encoded by PyAV with the sound of its source, read again when done, and only then put in its place."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....kernels.colours import YuvMatrix, YuvRange
from ...errors import SourceError
from ..decode.containers import PACKETS_ONLY
from ..decode.pyav import load_av
from ..decode.tags import VideoTags, say_colours, says_colours, wanted_colours, write_tags
from ..read.frame_reader import Pixels
from .codecs import NVENC, WITHOUT_QUALITY, chosen_codec, encoder_of, open_nvenc, pixel_format_of
from .copied_streams import CopiedStreams
from .replacement import Replacement

_TICKS = 90_000
"""Ticks per second of the times of frames: what MPEG counts in, so that every usual rate is whole."""
_GIF_TICKS = 100
_LARGEST = 1e9
"""Seconds that a damaged file may claim and no video has: 30 years."""
_LEAST_RATE = Fraction(1, 1001)
_CONSTANT_RATE = "avi"
"""FFmpeg's name of the container without times: each frame is shown for 1 / fps."""
_HD_HEIGHT = 720
_UNTIMED = 2
"""Videos of so few frames get any times of decoding from x265: it computes them when the third frame comes."""
_UNTAGGED = VideoTags()


class Sound(NamedTuple):
    """The sound, subtitles and metadata of a video, from one second to another: to be copied."""

    path: Path
    start: float = 0.0
    end: float | None = None


@dataclass(frozen=True)
class VideoSettings:
    """Settings of a video that is written: frames per second, and the options of ``VideoWriter``."""

    fps: float
    codec: str | None = None
    quality: int | None = None
    sound: Sound | None = None
    tags: VideoTags = _UNTAGGED
    live: bool = False
    """Frames come at any times. The video then has none that refers to later ones (B-frames): with them the length that
    an MP4 file says is wrong by as much as frames at its end are longer than those at its beginning.
    """
    alpha: bool = False
    """The alpha of textures and arrays is kept."""


class AvFile:
    """A video of ``size`` (width, height), whose format the path's suffix or the settings' codec names.

    Its colours are limited BT.709 from 720 rows on, else BT.601, unless ``take_colours`` says others before the first
    frame. Raises SourceError if it cannot be written.
    """

    def __init__(self, path: Path, size: tuple[int, int], settings: VideoSettings) -> None:
        av = load_av()
        self._matrix: YuvMatrix = "bt709" if size[1] >= _HD_HEIGHT else "bt601"
        self._range: YuvRange = "limited"
        self._settings, self._fps = settings, settings.fps
        self._replacement, self._size = Replacement(path, "video"), size
        self._frames, self._finished = 0, False
        self._last_time, self._last_tick, self._has_failed = float("-inf"), -(1 << 62), False
        self._converter = av.video.reformatter.VideoReformatter()
        try:
            name = chosen_codec(settings.codec, path.suffix, alpha=settings.alpha)
            self._container = av.open(str(self._replacement.unfinished), "w")
            self._stream = self._add_stream(name, settings.quality)
            if settings.live and name not in WITHOUT_QUALITY:
                self._stream.codec_context.max_b_frames = 0
            self._sound = CopiedStreams(self._container, *settings.sound) if settings.sound else None
        except SourceError as error:
            self._replacement.discard()
            raise self._replacement.error(str(error)) from error
        except (av.error.FFmpegError, ValueError) as error:
            self._replacement.discard()
            raise self._replacement.error(f"{error}; a file that ends in .mkv takes every codec") from error

    def _add_stream(self, name: str, quality: int | None) -> Any:
        encoder, options = encoder_of(name, quality, alpha=self._settings.alpha)
        rate = max(Fraction(self._fps).limit_denominator(1001), _LEAST_RATE)
        stream = self._container.add_stream(encoder, rate=rate, options=options)
        # Chroma of 4:2:0 has half the size: an odd side gets one more row or column.
        stream.width, stream.height = (side + side % 2 for side in self._size)
        stream.pix_fmt = pixel_format_of(name, alpha=self._settings.alpha)
        self._ticks = Fraction(_GIF_TICKS if name == "gif" else _TICKS)
        if self._container.format.name == _CONSTANT_RATE:
            self._ticks = rate
        stream.codec_context.time_base = 1 / self._ticks
        if name.startswith("hevc") and self._container.format.name in ("mp4", "mov"):
            stream.codec_context.codec_tag = "hvc1"  # Apple's players take no other one
        if name == "mjpeg":
            self._range = "full"  # as all JPEG
        if name != "gif":
            say_colours(stream.codec_context, self._matrix, self._range)
            write_tags(self._settings.tags, stream.codec_context)
        if name.endswith(NVENC):
            open_nvenc(stream.codec_context, name)
        return stream

    def take_colours(self, matrix: YuvMatrix, range: YuvRange) -> None:
        """Let the video have this matrix and range if its encoder is not open yet; else frames are converted."""
        if not self._stream.codec_context.is_open and self._stream.pix_fmt not in ("rgb8", "yuvj420p"):
            self._matrix, self._range = matrix, range
            say_colours(self._stream.codec_context, matrix, range)

    def write(self, rgba: Pixels, time: float | None = None) -> None:
        """Add a frame, RGBA of shape (height, width, 4), at ``time`` seconds, or 1 / fps after the one before.

        Raises SourceError if it cannot be encoded.
        """
        av = load_av()
        time = self._frames / self._fps if time is None else time
        if rgba.shape[0] % 2 or rgba.shape[1] % 2:
            rgba = np.pad(rgba, ((0, rgba.shape[0] % 2), (0, rgba.shape[1] % 2), (0, 0)), "edge")
        # The pixels are converted where they are; a converter for each frame would take half of the conversion's time.
        self._encode(av.VideoFrame.from_numpy_buffer(np.ascontiguousarray(rgba), format="rgba"), time)

    def write_planes(self, frame: Any, time: float | None = None) -> None:
        """Add a frame of luma and chroma (av.VideoFrame) that says its colours. The encoder may keep it.

        It has the file's size, with an odd side made even. Raises SourceError if it cannot be encoded.
        """
        self._encode(frame, self._frames / self._fps if time is None else time)

    def _encode(self, frame: Any, time: float) -> None:
        av, self._has_failed = load_av(), True
        if frame.format.name != self._stream.pix_fmt or not says_colours(frame, self._matrix, self._range):
            to = {} if self._stream.pix_fmt == "rgb8" else wanted_colours(self._matrix, self._range)
            frame = self._converter.reformat(frame, format=self._stream.pix_fmt, **to)
        if time <= self._last_time:
            raise self._replacement.error(f"a frame at {time:g} seconds comes after one at {self._last_time:g} seconds")
        if time > _LARGEST:
            raise self._replacement.error(f"a frame at {time:g} seconds comes after the end of all clocks")
        self._last_time, self._last_tick = time, max(round(time * self._ticks), self._last_tick + 1)
        frame.pts, frame.time_base = self._last_tick, 1 / self._ticks
        try:
            self._container.mux(self._stream.encode(frame))
            if self._sound is not None:
                self._sound.write_until(time)
        except av.error.FFmpegError as error:
            raise self._replacement.error(str(error.strerror or error)) from error
        self._frames, self._has_failed = self._frames + 1, False

    def finish(self) -> None:
        """Put the file in its place if it has all of its frames; remove it if it has none, or after an error.

        May be called again.

        Raises SourceError if frames are missing. The file that was there before is then untouched.
        """
        if self._finished:
            return
        self._finished = True
        why = self._end()
        if not self._frames or self._has_failed:
            self._replacement.discard()
        elif not why and frames_in(self._replacement.unfinished) == self._frames:
            self._replacement.complete()
        else:
            free = shutil.disk_usage(self._replacement.unfinished.parent).free
            self._replacement.discard()
            raise self._replacement.error(
                f"not all of its {self._frames} frames reached the disk, which has {free:,} bytes left{why}"
            )

    def _end(self) -> str:
        """Encode what waits, copy the rest of the sound, and close. Returns why that failed, or ""."""
        av = load_av()
        try:
            if self._frames:
                packets = self._stream.encode()
                for packet in packets if self._frames <= _UNTIMED else ():
                    packet.dts = packet.pts
                self._container.mux(packets)
                if self._sound is not None:
                    self._sound.write_until(float("inf"))
            self._container.close()
        except av.error.FFmpegError as error:
            return f": {error.strerror or error}"
        finally:
            if self._sound is not None:
                self._sound.close()
        return ""


def frames_in(path: Path) -> int:
    """The number of packets of the first video stream; 0 if it cannot be read."""
    av = load_av()
    try:
        with av.open(str(path), options=PACKETS_ONLY) as container:
            return sum(packet.size > 0 for packet in container.demux(container.streams.video[0]))
    except (av.error.FFmpegError, SourceError):
        return 0
