"""Live frames in H.264 and JPEG: each is encoded once, on a thread of its own, for all that look."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from av.error import FFmpegError
from av.video.frame import PictureType

from ...yuv import MATRIX_NUMBERS
from ..decode.thread_times import WorkTime
from .camera import FrameLayout
from .newest_frame import NewestFrame

log = logging.getLogger("framebind.cameras")

CLOCK = 90_000
"""Units of time per second in packets, as RTP has for video."""
_NAMES = ("h264_nvenc", "libx264")
OPTIONS = {
    "h264_nvenc": {"preset": "p1", "tune": "ull", "zerolatency": "1", "profile": "baseline", "forced-idr": "1"},
    "libx264": {"preset": "superfast", "tune": "zerolatency", "profile": "baseline", "sc_threshold": "0"},
}
"""Options for pictures that leave at once: none waits for a later one."""
_BITS_PER_PIXEL = 0.1
_KEY_SECONDS = 2.0
_WAIT_SECONDS = 0.2

Packets = Callable[[av.Packet], None]
"""A function that takes H.264 packets, with times in 1 / CLOCK seconds, on the encoder's thread. It must not wait."""
Jpegs = Callable[[bytes], None]


class LiveEncoder:
    """Encodes the newest NV12 frames for those that want them; frames that come while it encodes are left out.

    Packets of a new reader begin with a key frame, and one comes every two seconds.
    """

    def __init__(self, layout: FrameLayout, fps: float) -> None:
        self.frames, self.work = NewestFrame(layout), WorkTime()
        self._layout, self._fps = layout, fps
        self._changing = threading.Lock()
        self._packets, self._jpegs = list[Packets](), list[Jpegs]()
        self._wants_key = self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="framebind encodes a camera", daemon=True)
        self._thread.start()

    def add(self, packets: Packets) -> None:
        """Give H.264 packets to a function from the next frame on, which is a key frame."""
        with self._changing:
            self._packets.append(packets)
            self._wants_key = True

    def add_jpegs(self, jpegs: Jpegs) -> None:
        """Give JPEG pictures to a function from the next frame on."""
        with self._changing:
            self._jpegs.append(jpegs)

    def remove(self, reader: Packets | Jpegs) -> None:
        """Give nothing more to a function."""
        with self._changing:
            for readers in (self._packets, self._jpegs):
                if reader in readers:
                    readers.remove(reader)  # type: ignore[arg-type]

    def ask_for_key(self) -> None:
        """Make the next frame a key frame, for a reader that lost packets."""
        self._wants_key = True

    def close(self) -> None:
        """End the thread."""
        self._is_closed = True
        self.frames.close()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        number, video = 0, _H264(self._layout, self._fps)
        with self.work.measured():
            while not self._is_closed:
                with self.work.waiting():
                    taken = self.frames.read(number, _WAIT_SECONDS)
                if taken is None:
                    continue
                number = taken.number
                with self._changing:
                    packets, jpegs, is_key = list(self._packets), list(self._jpegs), self._wants_key
                    self._wants_key = self._wants_key and not packets
                try:
                    _give(packets, video.encode(taken.pixels, taken.captured, is_key=is_key) if packets else [])
                    _give(jpegs, [self._as_jpeg(taken.pixels)] if jpegs else [])
                except FFmpegError as error:
                    log.warning("a frame was not encoded: %s", error)

    def _as_jpeg(self, pixels: npt.NDArray[np.uint8]) -> bytes:
        """A frame as a JPEG file, whose colours are those of BT.601 in the full range (JFIF)."""
        own = MATRIX_NUMBERS[self._layout.colours.matrix].swscale
        jfif = MATRIX_NUMBERS["bt601"].swscale
        frame = _frame(pixels, self._layout).reformat(
            format="yuvj420p", src_colorspace=own, dst_colorspace=jfif, src_color_range=1, dst_color_range=2
        )
        encoder: Any = av.CodecContext.create("mjpeg", "w")
        encoder.width, encoder.height, encoder.pix_fmt = *self._layout.padded, "yuvj420p"
        encoder.time_base, encoder.options = Fraction(1, CLOCK), {"qmin": "3", "qmax": "5"}
        frame.pts = 0
        return b"".join(bytes(packet) for packet in encoder.encode(frame))


class _H264:
    """An encoder of H.264, made for its first frame."""

    def __init__(self, layout: FrameLayout, fps: float) -> None:
        self._layout, self._fps = layout, fps
        self._codec: Any = None
        self._start = 0.0
        self._last = -1

    def encode(self, pixels: npt.NDArray[np.uint8], captured: float, *, is_key: bool) -> list[av.Packet]:
        if self._codec is None:
            self._codec, self._start = self._open(), captured
        frame = _frame(pixels, self._layout)
        self._last = frame.pts = max(round((captured - self._start) * CLOCK), self._last + 1)
        frame.time_base = Fraction(1, CLOCK)
        if is_key:
            frame.pict_type = PictureType.I
        return self._codec.encode(frame)

    def _open(self) -> Any:
        """The first encoder that works: NVIDIA's, if there is one, else x264."""
        for name in _NAMES[:-1]:
            try:
                codec = self._made(name)
                codec.open()
            except (FFmpegError, ValueError):
                continue
            return codec
        return self._made(_NAMES[-1])

    def _made(self, name: str) -> Any:
        codec: Any = av.CodecContext.create(name, "w")
        width, height = self._layout.padded
        codec.width, codec.height, codec.pix_fmt = width, height, "nv12"
        codec.time_base, codec.framerate = Fraction(1, CLOCK), Fraction(self._fps).limit_denominator(1000)
        codec.bit_rate = round(width * height * self._fps * _BITS_PER_PIXEL)
        codec.gop_size, codec.max_b_frames = max(round(self._fps * _KEY_SECONDS), 1), 0
        codec.colorspace = MATRIX_NUMBERS[self._layout.colours.matrix].colorspaces[0]
        codec.color_range = 1
        codec.options = OPTIONS[name]
        return codec


def _frame(pixels: npt.NDArray[np.uint8], layout: FrameLayout) -> av.VideoFrame:
    width, height = layout.padded
    return av.VideoFrame.from_ndarray(pixels.reshape(height * 3 // 2, width), format="nv12")


def _give(readers: list[Any], values: list[Any]) -> None:
    for reader in readers:
        for value in values:
            reader(value)
