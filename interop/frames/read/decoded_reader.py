"""The base of the readers of videos that PyAV decodes: files and live streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ...cuda.context import CudaContext
from ...errors import SourceError
from ..decode.decoder import DecodedFrame, VideoDecoder
from ..decode.tags import VideoTags
from .pictures import PictureSlot
from .pixel_layouts import Layout, layout_of
from .planar_layout import planar_layout
from .readers import Pixels


class DecodedReader(ABC):
    """A video that PyAV decodes. With ``context`` NVDEC decodes it to the memory of that context's GPU:
    ``read_picture`` gives frames then, and ``read`` does not. ``is_named``: NVDEC was asked for by name.
    """

    name: str
    turn: int
    _decoder: VideoDecoder

    def __init__(self, context: CudaContext | None, *, is_named: bool) -> None:
        self.context, self._is_named = context, is_named

    @property
    def decoder(self) -> str:
        """The decoder: "nvdec" or "cpu"."""
        return "cpu" if self.context is None else "nvdec"

    @property
    def rotation(self) -> int:
        """Degrees clockwise from an upright frame to its planes."""
        return self._decoder.rotation

    @property
    def tags(self) -> VideoTags:
        """The shape of the video's pixels, and the light that its colours stand for."""
        return self._decoder.tags

    def read(self, view: Pixels) -> bool:
        """Write the planes of the next frame into ``view``; False if there is none. Raises SourceError."""
        frame = self._next()
        if frame is not None:
            _pack_planes(self._decoder.decoded(frame), view)
        return frame is not None

    def read_picture(self, slot: PictureSlot) -> bool:
        """Put the next frame into ``slot`` as it was decoded, not turned; False if there is none."""
        frame = self._next()
        if frame is not None:
            slot.put(frame, self._decoder)
        return frame is not None

    def leave_gpu(self) -> None:
        """Let the CPU decode, from the beginning, or on a new connection.

        Raises SourceError if NVDEC was asked for by name.
        """
        if self.context is None:
            return
        if self._is_named:
            raise SourceError(
                f"{self.name} has frames on the GPU only, as decoder='nvdec' says: leave it out, or take 'cpu'"
            )
        self._decoder.close()
        self.context = None
        self._open()

    @abstractmethod
    def _next(self) -> Any:
        """The next frame (av.VideoFrame); None if there is none."""

    @abstractmethod
    def _open(self) -> None:
        """Begin to decode by what ``context`` says."""


def decoder_layout(decoder: VideoDecoder) -> tuple[tuple[int, int], Layout]:
    """The size of a decoder's frames as they are shown, and the layout in which ``DecodedReader.read`` writes them."""
    width, height = decoder.size
    turn = decoder.turn if decoder.format else 0
    size = (height, width) if turn % 180 else (width, height)
    return size, layout_of("bgr", *size) if decoder.format is None else planar_layout(decoder.format, turn)


def _pack_planes(frame: DecodedFrame, view: Pixels) -> None:
    """Copy planes one after the other into upload memory."""
    flat, at = view.reshape(-1), 0
    for plane in frame.planes:
        np.copyto(flat[at : at + plane.size].reshape(plane.shape), plane)
        at += plane.size
