"""Decoded frames as planes of luma and chroma. A worker thread decodes, and the owner of the context takes them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...cuda.compute.fence import CudaEvents
from ...cuda.context import CudaContext
from ...pixel_formats import BGR
from ...yuv import YuvPicture
from ..decode.decoder import VideoDecoder
from ..decode.nvdec import NvdecPictures, is_independent, mark_decoded, wait_for_decoded
from ..decode.pyav import load_av
from ..frame import Frame
from .dropping_queue import SLOTS, FrameQueue
from .frame_reader import FrameReader, Read

_FORMATS = {"bgr": (BGR, "yuv444p"), "yuyv": ("yuyv422", "yuv422p"), "nv12": ("nv12", "nv12")}
"""FFmpeg's format of frames, and the format to which swscale converts them, by the layout of a reader that does not
decode to planes.
"""


@dataclass
class PlanesSlot:
    """A place for one frame, which the decoding thread fills and the owner of the context empties."""

    frame: Any = None
    """The frame (av.VideoFrame), of a format that a YuvPicture has."""
    decoder: VideoDecoder | None = None
    """The decoder in whose surface the frame is; None if it is in the CPU's memory."""
    event: int | None = None
    """The CUevent that is recorded after the decoding; None if the context's stream waits for the decoding anyway."""
    context: CudaContext | None = None

    def put(self, frame: Any, decoder: VideoDecoder) -> None:
        """Fill it with a frame of a decoder."""
        if decoder.is_on_gpu:
            if self.event is not None and self.context is not None:
                mark_decoded(self.context, self.event)
            self.frame, self.decoder = frame, decoder
        else:
            self.frame, self.decoder = bindable(frame, decoder), None


class PlanesFeed:
    """Takes frames as planes, and returns surfaces to the decoder after the models that read them. Implements Feed."""

    def __init__(self, queue: FrameQueue[PlanesSlot], context: CudaContext | None, rotation: int) -> None:
        self._queue, self._context, self._rotation = queue, context, rotation
        self._events = CudaEvents(context) if context is not None and is_independent(context) else None
        self._slots = [PlanesSlot(event=self._new_event(), context=context) for _ in range(SLOTS)]
        self._surfaces: tuple[VideoDecoder, NvdecPictures] | None = None
        for number, slot in enumerate(self._slots):
            queue.give(number, slot)

    def _new_event(self) -> int | None:
        return None if self._events is None else self._events.make()

    def take(self, slot: int, *, mirror: bool) -> Frame:
        """The frame in a slot. It is valid as long as ``NvdecPictures`` says. Planes are not mirrored."""
        place = self._slots[slot]
        decoded, decoder = place.frame, place.decoder
        if self._surfaces is not None:
            self._surfaces[1].let_go()
        if decoder is None:
            frame = Frame(YuvPicture.from_frame(decoded), rotation=self._rotation)
        else:
            frame = self._on_gpu(decoded, decoder, place.event)
        place.frame = None
        self._queue.give(slot, place)
        return frame

    def _on_gpu(self, decoded: Any, decoder: VideoDecoder, event: int | None) -> Frame:
        assert self._context is not None
        if event is not None:
            wait_for_decoded(self._context, event)
        if self._surfaces is None or self._surfaces[0] is not decoder:  # each connection to a stream has its own
            self._close_surfaces()
            self._surfaces = decoder, NvdecPictures(decoder, self._context)
        return self._surfaces[1].frame(decoded)

    def _close_surfaces(self) -> None:
        if self._surfaces is not None:
            self._surfaces[1].close()
            self._surfaces = None

    def release(self) -> None:
        """Let no model read the planes any more: no thread may fill the slots from now on."""
        self._close_surfaces()
        for slot in self._slots:
            slot.frame = slot.decoder = None
            if self._events is not None and slot.event is not None:
                self._events.unused.append(slot.event)
                slot.event = None
        if self._events is not None:
            self._events.close()


def converted(reader: FrameReader) -> Read[PlanesSlot]:
    """A function that reads a frame of a reader that does not decode to planes (BGR, cameras), converts it by swscale,
    and puts it into a slot.
    """
    frames, view = load_av().VideoFrame, np.empty(reader.layout.shape, np.uint8)
    name, _, matrix = reader.layout.name.partition(" ")
    given, wanted = _FORMATS[name]

    def read(slot: PlanesSlot) -> bool:
        if not reader.read(view):
            return False
        frame = frames.from_ndarray(view, format=given)
        slot.frame = _as_hd(frame) if not matrix else _of_matrix(frame, wanted, matrix)
        return True

    return read


def converted_frames(reader: FrameReader) -> Iterator[Frame]:
    """The frames of a reader that does not decode to planes, read by the calling thread."""
    read, slot = converted(reader), PlanesSlot()
    while read(slot):
        yield Frame(YuvPicture.from_frame(slot.frame), time=reader.time, captured=time.perf_counter())


def bindable(frame: Any, decoder: VideoDecoder) -> Any:
    """A frame in the CPU's memory (av.VideoFrame) as luma and chroma. swscale converts RGB at full resolution."""
    return _as_hd(frame.reformat(*decoder.size)) if decoder.format is None else decoder.alike(frame)


def _as_hd(frame: Any) -> Any:
    """A frame of RGB in BT.709's luma and chroma, of limited range."""
    colours = load_av().video.reformatter
    return frame.reformat(
        format="yuv444p", dst_colorspace=colours.Colorspace.ITU709, dst_color_range=colours.ColorRange.MPEG
    )


def _of_matrix(frame: Any, wanted: str, matrix: str) -> Any:
    """A camera's frame in the format ``wanted``. Matrix and range (limited) stay those of the camera."""
    colours = load_av().video.reformatter
    number = colours.Colorspace.ITU709 if matrix == "bt709" else colours.Colorspace.ITU601
    frame.colorspace, frame.color_range = number, colours.ColorRange.MPEG
    return frame.reformat(format=wanted, src_colorspace=number, dst_colorspace=number)
