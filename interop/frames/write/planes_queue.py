"""Decoded frames on their way to the encoder: copied, turned upright, and painted by a thread of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ....kernels.colours import YuvColours, YuvMatrix, YuvRange
from ...dlpack import host_array, is_on_host
from ...errors import SourceError
from ...yuv import YuvPicture
from ..decode.pyav import load_av
from ..decode.tags import say_colours
from ..decode.thread_times import WorkTime
from ..paint.marks import Marks
from ..paint.marks_on_planes import paint
from ..paint.planes import Plane, Planes
from .writer import Slots, Writer

Paint = Callable[[Planes], None]
"""Paints a frame."""
_MOST, _LEAST = 4, 2
"""Most frames between the decoder and the painter, and the number that is allowed whatever their size."""
_MAX_BYTES = 256 << 20
"""Most bytes of these frames together, unless ``_LEAST`` of them need more."""
_SUBSAMPLINGS = {(2, 2): 420, (2, 1): 422, (1, 1): 444, (1, 2): 440}
"""FFmpeg's names of formats by the columns and rows of luma of a pixel of chroma; 4:4:0 is 4:2:2 on its side."""


class PlanesFile(Protocol):
    """A file or a camera that takes frames of planes."""

    def take_colours(self, matrix: YuvMatrix, range: YuvRange) -> None: ...
    def write_planes(self, frame: Any, time: float | None = None) -> None: ...
    def finish(self) -> None: ...


class _Marked(NamedTuple):
    picture: YuvPicture
    rotation: int
    strokes: list[float]
    paint: Paint | None


class PlanesQueue:
    """Takes planes in the CPU's memory: one thread copies and paints them, another one encodes. Implements Queue.

    Outside of what is painted the encoder gets the decoder's own numbers.
    """

    def __init__(self, path: Path, file: PlanesFile, first: YuvPicture) -> None:
        """``first`` is the first picture: the file takes its colours, and all others need its size."""
        self._path, self._size = path, _size_of(first, path)
        file.take_colours(first.matrix, first.range)
        encoder = Writer(file.write_planes, file.finish, path.name)
        self._writer = Writer(_Painter(encoder).paint, encoder.close, f"marks of {path.name}")
        nbytes = sum(host_array(plane).nbytes for plane in first.planes)
        self._slots = Slots(max(_LEAST, min(_MOST, _MAX_BYTES // nbytes)), self._writer)
        self.painting: WorkTime | None = self._writer.work
        self.encoding, self.end, self.close = encoder.work, self._writer.end, self._writer.close
        self.collected = self._writer.collected

    @property
    def waited(self) -> float:
        """Seconds that ``put`` waited."""
        return self._slots.waited

    def put(self, picture: Any, rotation: int, marks: Marks | None, time: float | None, paint: Paint | None) -> None:
        """Take a picture, which is not changed, and the marks of now."""
        if not isinstance(picture, YuvPicture):
            raise SourceError(f"'{self._path}' takes planes, as its first frame was, not a {type(picture).__name__}")
        size = _size_of(picture, self._path)
        if size != self._size:
            raise SourceError(
                f"'{self._path}' takes frames of {self._size[0]}x{self._size[1]}, not {size[0]}x{size[1]}"
            )
        strokes = [] if marks is None else marks.take()
        self._writer.put(self._slots.take(), _Marked(picture, rotation, strokes, paint), 1, time)


class _Painter:
    """The work of the painting thread, which hands each frame to the thread that encodes."""

    def __init__(self, encoder: Writer[Any]) -> None:
        self._encoder, self._slots = encoder, Slots(_LEAST, encoder)

    def paint(self, marked: _Marked, time: float | None) -> None:
        picture = marked.picture
        frame, columns, rows = upright_frame(picture, marked.rotation)
        colours = YuvColours(picture.matrix, picture.range, picture.layout.bits)
        planes = Planes(planes_of(frame), columns, rows, colours)
        if marked.paint is not None:
            marked.paint(planes)
        paint(planes, marked.strokes)
        self._encoder.put(self._slots.take(), frame, 1, time)


def upright_frame(picture: YuvPicture, rotation: int) -> tuple[Any, int, int]:
    """A picture as a frame (av.VideoFrame) of its own memory, and the columns and rows of luma of a pixel of chroma.

    It is upright, and has three planes with the picture's own numbers. An odd side is made even: encoders want that.
    """
    av, layout, quarter = load_av(), picture.layout, rotation % 180 == 90
    planes = [np.rot90(plane, rotation // 90) for plane in _stored_planes(picture)]
    columns, rows = (layout.rows, layout.columns) if quarter else (layout.columns, layout.rows)
    height, width = (side + side % 2 for side in planes[0].shape)
    depth = "10le" if layout.bits == 10 else ""
    frame = av.VideoFrame(width, height, f"yuv{_SUBSAMPLINGS[columns, rows]}p{depth}")
    for plane, made in zip(planes, planes_of(frame), strict=True):
        down, across = plane.shape
        made[:down, :across] = plane
        made[down:, :across] = plane[-1:]
        made[:, across:] = made[:, across - 1 : across]
    say_colours(frame, picture.matrix, picture.range)
    return frame, columns, rows


def planes_of(frame: Any) -> list[Plane]:
    """The planes of a frame (av.VideoFrame) of three planes, without padding. To write them is to write the frame."""
    dtype = np.dtype(np.uint16 if frame.format.components[0].bits > 8 else np.uint8)
    return [
        np.frombuffer(plane, dtype).reshape(-1, plane.line_size // dtype.itemsize)[: plane.height, : plane.width]
        for plane in frame.planes
    ]


def _stored_planes(picture: YuvPicture) -> Iterator[Plane]:
    """Luma and two planes of chroma as they are stored, with the numbers in the low bits."""
    layout = picture.layout
    arrays = [host_array(plane) for plane in picture.planes]
    width, height = picture.width or arrays[0].shape[1], picture.height or arrays[0].shape[0]
    yield _shifted(arrays[0][:height, :width], layout.shift)
    across, down = -(-width // layout.columns), -(-height // layout.rows)
    for array, channels in zip(arrays[1:], layout.chroma, strict=True):
        # Two chromas next to each other, as NV12 has them, or one.
        pairs = array[:down].reshape(min(down, len(array)), -1)[:, : across * channels]
        for channel in range(channels):
            yield _shifted(pairs[:, channel::channels], layout.shift)


def _shifted(plane: Plane, shift: int) -> Plane:
    return plane >> shift if shift else plane


def _size_of(picture: YuvPicture, path: Path) -> tuple[int, int]:
    """The width and height of a picture as it is stored. Raises SourceError if it is not in the CPU's memory."""
    if not all(map(is_on_host, picture.planes)):
        raise SourceError(
            f"'{path}' takes frames in the CPU's memory: source.frames('cpu') gives them, with decoder='cpu'"
        )
    height, width = host_array(picture.planes[0]).shape[:2]
    return picture.width or width, picture.height or height
