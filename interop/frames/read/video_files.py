"""Readers of videos that PyAV decodes: their base, and the reader of files."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...cuda.context import CudaContext
from ...errors import SourceError
from ...yuv import YuvPicture
from ..decode.addresses import StreamOptions
from ..decode.decoder import MISSING, VideoDecoder
from ..decode.nvdec import NvdecPictures, open_nvdec
from ..decode.tags import VideoTags
from ..frame import Frame
from .frame_reader import Pixels
from .planes import PlanesSlot, bindable
from .yuv_to_rgb import Layout, layout_of, planar_layout


class DecodedReader(ABC):
    """A video that PyAV decodes. With ``context`` NVDEC decodes it to the memory of that context's GPU:
    ``read_picture`` gives frames then, and ``read`` does not. ``is_named``: NVDEC was asked for by name.
    """

    name: str
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
    def turn(self) -> int:
        """Degrees clockwise by which the layout's frames are turned to be shown; BGR's are not."""
        return self._decoder.turn if self._decoder.format else 0

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of an upright frame in pixels."""
        width, height = self._decoder.size
        return (height, width) if self.turn % 180 else (width, height)

    @property
    def tags(self) -> VideoTags:
        """The shape of the video's pixels, and the light that its colours stand for."""
        return self._decoder.tags

    @property
    def layout(self) -> Layout:
        """The layout in which ``read`` writes frames; the GPU converts it to upright textures."""
        format = self._decoder.format
        return layout_of("bgr", *self.size) if format is None else planar_layout(format, self.turn)

    def _describe(self, decoder: VideoDecoder) -> None:
        """Take over what a decoder says of its video."""
        self.name, self.fps = decoder.name, decoder.fps

    def read(self, view: Pixels) -> bool:
        """Write the planes of the next frame into ``view``; False if there is none. Raises SourceError."""
        frame = self._next()
        if frame is not None:
            flat, at = view.reshape(-1), 0
            for plane in self._decoder.planes(frame):
                np.copyto(flat[at : at + plane.size].reshape(plane.shape), plane)
                at += plane.size
        return frame is not None

    def read_picture(self, slot: PlanesSlot) -> bool:
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


class AvReader(DecodedReader):
    """A video file whose frames wait to be read. Implements FrameReader.

    With ``context`` NVDEC decodes it to the memory of that context's GPU: ``frames`` and ``read_picture`` give frames
    then, and ``read`` does not. ``is_named``: NVDEC was asked for by name. Raises SourceError.
    """

    live, captured, retry, status = False, None, None, ""
    time: float | None = None

    def __init__(
        self,
        path: str | Path,
        *,
        start: float = 0.0,
        end: float | None = None,
        context: CudaContext | None = None,
        is_named: bool = False,
        stream: StreamOptions | None = None,
    ) -> None:
        self._source, self._stream, self.part = path, stream, (start, end)
        self.path = Path(path) if stream is None else None
        """The file; None if it is behind an address."""
        super().__init__(context, is_named=is_named)
        self._on_gpu: NvdecPictures | None = None
        self._open()
        self._describe(self._decoder)
        self.length = self._decoder.length
        seconds = self._decoder.seconds
        if (start or end is not None) and self.fps and seconds is not None:
            self.length = max(round((min(end or seconds, seconds) - start) * self.fps), 1)

    def _open(self) -> None:
        start, end = self.part
        if self.context is None:
            self._decoder = VideoDecoder(self._source, start=start, end=end, stream=self._stream)
        else:
            self._decoder = open_nvdec(self._source, self.context, start=start, end=end, stream=self._stream)
        self._frames, self._number = self._decoder.frames(), 0

    @property
    def damaged(self) -> int:
        """Packets so far that could not be decoded."""
        return self._decoder.damaged

    def frames(self) -> Iterator[Frame]:
        """The frames where the decoder has them, decoded by the calling thread, once. Raises SourceError."""
        if self.context is not None:
            found = self._on_gpu = NvdecPictures(self._decoder, self.context)
        else:
            found = map(partial(self._on_cpu, rotation=self._decoder.rotation), self._frames)
        for frame in found:
            self.time = frame.time
            self._number += 1
            yield frame
        self._check_all_were_there()

    def _on_cpu(self, decoded: Any, *, rotation: int) -> Frame:
        """A frame in planes (av.VideoFrame)."""
        decoder, now = self._decoder, time.perf_counter()
        picture = YuvPicture.from_frame(bindable(decoded, decoder))
        return Frame(picture, rotation=rotation, time=decoder.time_of(decoded), captured=now)

    def skip(self, view: object) -> bool:
        """Decode the next frame, and leave ``view`` as it is. Returns False at the end."""
        return self._next() is not None

    def _next(self) -> Any:
        """The next frame (av.VideoFrame); None at the end."""
        frame = next(self._frames, None)
        if frame is None:
            self._check_all_were_there()
        else:
            self.time = self._decoder.time_of(frame)
            self._number += 1
        return frame

    def _check_all_were_there(self) -> None:
        seconds, per_frame, last = self._decoder.seconds, 1 / (self.fps or 25), self.time or 0.0
        if seconds is not None and self.part[1] is not None:
            seconds = min(seconds, self.part[1])
        is_short = seconds is not None and last + 3 * per_frame < seconds * (1 - MISSING)
        if is_short and not self._decoder.is_whole(last):
            raise SourceError(
                f"{self.name} is damaged: {self._number} frames could be decoded, and these were shown; they end "
                f"after {last:.1f} of {seconds:.1f} seconds. Get the file again, or repair it with "
                "'ffmpeg -i FILE -c copy REPAIRED'"
            )

    def reopen(self) -> bool:
        self.close()
        self._open()
        return True

    def close(self) -> None:
        if self._on_gpu is not None:
            self._on_gpu.close()  # models must not read what the decoder frees
        self._decoder.close()
