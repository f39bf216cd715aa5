"""NVDEC, the video decoder of NVIDIA's GPUs, by PyAV: pictures stay in CUDA's memory, where models read them."""

from __future__ import annotations

import ctypes
import time
import weakref
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...cuda.api import check, driver
from ...cuda.arrays import CudaArray
from ...cuda.compute.fence import CudaEvents, CudaFence
from ...cuda.context import BLOCKING, NON_BLOCKING, CudaContext
from ...cuda.objects import Lent
from ...dlpack import LEGACY_STREAM
from ...errors import BindingError, SourceError
from ...yuv import YuvPicture
from ..frame import Frame
from .addresses import StreamOptions, masked_address
from .containers import open_container
from .decoder import VideoDecoder
from .pyav import load_av
from .reused_decoder import KeptDecoder

AHEAD = 3
"""Pictures whose models may still run when another one is decoded."""
_MOST_SURFACES = 64
"""Surfaces that are remembered: a decoder has about 20, which come again and again."""
_CENTRED = {"mjpeg"}
"""Codecs with chroma between the pixels of luma, which a frame on the GPU does not tell by its format."""
_CURRENT_CONTEXT: dict[str, object] = {"primary_ctx": "0", "current_ctx": "1"}
"""FFmpeg's options: it would make the GPU's primary context with flags of its own, and refuse one that has others."""


def open_nvdec(
    path: str | Path,
    context: CudaContext,
    *,
    start: float = 0.0,
    end: float | None = None,
    stream: StreamOptions | None = None,
    live: bool = False,
    like: VideoDecoder | None = None,
) -> VideoDecoder:
    """A decoder whose frames are in the memory of a context's GPU. Parameters are those of VideoDecoder.

    Raises SourceError if NVDEC does not decode it.
    """
    load_av()
    from av.codec.hwaccel import HWAccel  # pyright: ignore[reportMissingImports]

    accelerator = HWAccel(
        "cuda", str(context.device), allow_software_fallback=False, options=_CURRENT_CONTEXT, is_hw_owned=True
    )
    reason = "its frames are of no format that is known"
    try:
        with context.entered():
            decoder = VideoDecoder(
                path, start=start, end=end, stream=stream, live=live, like=like, accelerator=accelerator,
                kept=_kept_in(context),
            )  # fmt: skip
    # RuntimeError: there is no decoder of the GPU for the codec.
    except (SourceError, RuntimeError, OSError, ValueError) as error:
        reason = masked_address(str(error))
    else:
        if decoder.format is not None and decoder.is_on_gpu:
            return decoder
        decoder.close()
    if live:  # its server is not asked again
        raise SourceError(f"stream '{masked_address(path)}' is not decoded by NVDEC: {reason}")
    # An error of the file itself comes first, and is the same as without NVDEC.
    raise SourceError(f"video '{masked_address(path)}', {_kind(path, stream)}, is not decoded by NVDEC: {reason}")


_kept: weakref.WeakKeyDictionary[CudaContext, KeptDecoder] = weakref.WeakKeyDictionary()


def _kept_in(context: CudaContext) -> KeptDecoder:
    """The decoder that a context keeps until it is closed."""
    if context not in _kept:
        _kept[context] = KeptDecoder()
        context.closing.append(_kept[context].close)
    return _kept[context]


def _kind(path: str | Path, options: StreamOptions | None) -> str:
    """The codec, format and size of a video in words. Raises SourceError if it cannot be opened."""
    with open_container(path, f"video '{masked_address(path)}'", stream=options) as container:
        for stream in container.streams.video:
            if stream.codec_context is not None:
                return f"{stream.codec_context.name} of {stream.pix_fmt}, {stream.width}x{stream.height}"
    raise SourceError(f"video '{masked_address(path)}' has no video that PyAV can decode")


class NvdecPictures:
    """The pictures of NVDEC's surfaces, which are valid until ``close``, or until the decoder takes them again.

    It gets a surface back AHEAD pictures later, behind the work that was submitted to the stream of the context until
    the next but one was asked for. ``frame`` and ``let_go`` are for frames that another thread decodes.
    """

    def __init__(self, decoder: VideoDecoder, context: CudaContext) -> None:
        self._decoder, self._context = decoder, context
        self._surfaces, self._held = _Surfaces(context, decoder), deque[tuple[CudaFence, Any]]()
        self._events = CudaEvents(context, flags=BLOCKING)
        self._decoded = self._events.make() if is_independent(context) else None
        """The event by which the stream waits for the decoder; None if streams wait for one another by themselves."""
        self._last: list[Any] = []
        """The last two frames."""

    def __iter__(self) -> Iterator[Frame]:
        """The frames, once."""
        context, decoder = self._context, self._decoder
        for decoded in decoder.frames():
            if self._decoded is not None:
                _wait_for_decoder(context, self._decoded)
            frame = self.frame(decoded)
            frame.captured, frame.time = time.perf_counter(), decoder.time_of(decoded)
            del decoded  # ``close`` lets it go, also if nobody ends this loop
            yield frame
            self.let_go()

    def frame(self, decoded: Any) -> Frame:
        """The frame in the surface of the next one (av.VideoFrame) that was decoded; its times are to be set."""
        self._last.append(decoded)
        return self._surfaces.frame(decoded)

    def let_go(self) -> None:
        """Note that all models that read the last picture were submitted; before the next one is asked for."""
        held = self._held
        held.append((CudaFence(self._events), self._last.pop(0) if len(self._last) > 1 else None))
        if len(held) > AHEAD:
            fence = held.popleft()[0]
            if not fence.done:  # which keeps Python's lock
                fence.wait()
            del fence

    def close(self) -> None:
        """Let no model read the surfaces any more, and give them back. May be called more than once."""
        if not self._context.closed:
            self._context.finish()
        self._surfaces.release()
        self._held.clear()
        self._last.clear()
        if self._decoded is not None:
            self._events.unused.append(self._decoded)
            self._decoded = None
        self._events.close()


def _wait_for_decoder(context: CudaContext, event: int) -> None:
    """Let what is submitted to the context's stream from now on begin after what FFmpeg has submitted."""
    status = context.call(_order, event, context.stream)  # which enters the context once
    if status:
        check(status, f"letting {context} wait for the decoder")


def _order(event: int, stream: int) -> int:
    """Let a stream wait for the legacy default stream of the current context. Returns CUDA's status."""
    cuda = driver()
    return cuda.cuEventRecord(event, LEGACY_STREAM) or cuda.cuStreamWaitEvent(stream, event, 0)


def mark_decoded(context: CudaContext, event: int) -> None:
    """Record the event behind what FFmpeg has submitted. Any thread may do that."""
    check(context.call(driver().cuEventRecord, event, LEGACY_STREAM), f"marking a decoded picture in {context}")


def wait_for_decoded(context: CudaContext, event: int) -> None:
    """Let what is submitted to the context's stream from now on begin after what was marked."""
    check(context.call(driver().cuStreamWaitEvent, context.stream, event, 0), f"letting {context} wait for the decoder")


def is_independent(context: CudaContext) -> bool:
    """Whether the stream of a context and the legacy default stream, on which FFmpeg works, run side by side."""
    flags = ctypes.c_uint()
    with context.entered():
        check(driver().cuStreamGetFlags(context.stream, ctypes.byref(flags)), f"looking at the stream of {context}")
    return bool(flags.value & NON_BLOCKING)


class _Surfaces:
    """The frames in a decoder's surfaces, each described when it comes for the first time."""

    def __init__(self, context: CudaContext, decoder: VideoDecoder) -> None:
        self._context, self._decoder = context, decoder
        self._known: dict[tuple[int, ...], Frame] = {}

    def frame(self, decoded: Any) -> Frame:
        """The frame of what was decoded (av.VideoFrame): the same object whenever the same surface comes again."""
        planes = decoded.planes
        place = (planes[0].buffer_ptr, planes[0].line_size, decoded.width, decoded.height)
        found = self._known.get(place)
        if found is None:
            if len(self._known) == _MOST_SURFACES:
                self._known.clear()
            found = self._known[place] = Frame(self._described(decoded, planes), rotation=self._decoder.rotation)
        return found

    def _described(self, frame: Any, planes: Any) -> YuvPicture:
        try:
            picture = YuvPicture.from_frame(frame)
        except BindingError as error:
            raise SourceError(f"{self._decoder.name} has other frames in the middle: {error}") from error
        arrays = [self._array(picture, number, plane, frame) for number, plane in enumerate(planes)]
        return YuvPicture(
            arrays, format=picture.format, matrix=picture.matrix, range=picture.range,
            siting="center" if self._decoder.codec in _CENTRED else picture.siting,
            width=frame.width, height=frame.height,
        )  # fmt: skip

    def _array(self, picture: YuvPicture, number: int, plane: Any, frame: Any) -> CudaArray:
        """A plane in place, with chroma's size rounded up, which PyAV's DLPack rounds down."""
        layout = picture.layout
        lanes, columns, rows = (layout.chroma[number - 1], layout.columns, layout.rows) if number else (1, 1, 1)
        shape, size = (-(-frame.height // rows), -(-frame.width // columns), lanes), np.dtype(layout.dtype).itemsize
        return CudaArray(
            plane.buffer_ptr, shape, layout.dtype, device=self._context.device,
            strides=(plane.line_size, lanes * size, size), keep=Lent(plane.buffer_ptr, self._decoder),
            label=f"plane {number} of a picture of {self._decoder.name}",
        )  # fmt: skip

    def release(self) -> None:
        """Let no model read the surfaces any more."""
        for frame in self._known.values():
            for plane in frame.planes.planes:
                plane.release()
        self._known.clear()
