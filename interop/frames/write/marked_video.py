"""Videos of decoded frames with marks painted on them: planes of luma and chroma, from the decoder to the encoder."""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ....kernels.colours import YuvColours
from ...dlpack import host_array, is_on_host
from ...errors import SourceError
from ...uncopied import Uncopied
from ...yuv import YuvPicture
from ..decode.planar import FrameColours
from ..decode.pyav import load_av
from ..decode.streams import masked_address
from ..decode.tags import VideoTags
from ..decode.thread_times import WorkTime
from ..paint.marks import Marks
from ..paint.painter import paint
from ..paint.planes import Plane, Planes
from .av_file import BY_SUFFIX, CODECS, AvFile
from .writer import Writer

Paint = Callable[[Planes], None]
"""Paints a frame."""
_MOST, _LEAST = 4, 2
"""Most frames between the decoder and the encoder, and those of any size."""
_MAX_BYTES = 256 << 20
"""Most bytes of more than these."""
_SUBSAMPLINGS = {(2, 2): 420, (2, 1): 422, (1, 1): 444, (1, 2): 440}
"""FFmpeg's names of formats by the columns and rows of luma of a pixel of chroma; 4:4:0 is 4:2:2 on its side."""


class MarkedVideo(Uncopied):
    """A video of decoded frames with lines, points, boxes and text over them. The CPU paints: no context is needed.

    The marks are painted on a copy of the planes that the decoder made, so that no pixel goes to a GPU or comes back
    from there, and outside of the marks the encoder gets the decoder's own numbers. The video has the matrix and the
    range of its first frame. One thread paints and another encodes; a few frames may wait for each. Use it as a context
    manager, or call ``close()``.

    Parameters
    ----------
    path : str or Path
        The video: .mp4, .mov, .mkv, .webm or .gif. See ``open_sink`` for how it takes its place, and for ``codec``,
        ``quality``, ``sound_of``, ``sound_part`` and ``tags``.
    fps : float
        Frames per second.
    rotation : {0, 90, 180, 270}
        The turn that makes frames upright: ``Source.rotation``. Marks are placed in the upright picture.

    Attributes
    ----------
    painting : WorkTime or None
        Time of the thread that copies and paints frames; None before the first frame.
    encoding : WorkTime or None
        Time of the thread that encodes, likewise.
    waited : float
        Seconds that ``put`` waited for these threads.

    Raises
    ------
    SourceError
        If the path's suffix is none of these.

    Examples
    --------
    >>> marks = fb.Marks()
    >>> with fb.open_source("clip.mp4", decoder="cpu") as source, fb.MarkedVideo("marked.mp4", fps=25) as video:
    ...     for picture in source.pictures():
    ...         marks.text(f"{source.time:.2f} s", 4, 4)
    ...         video.put(picture, marks, source.time)
    """

    painting: WorkTime | None = None
    encoding: WorkTime | None = None
    waited: float = 0.0
    suffixes: ClassVar = tuple(BY_SUFFIX)
    """The suffixes of the videos."""
    codecs: ClassVar = tuple(CODECS)
    """The names of their codecs."""

    def __init__(
        self,
        path: str | Path,
        *,
        fps: float,
        rotation: int = 0,
        codec: str | None = None,
        quality: int | None = None,
        sound_of: str | Path | None = None,
        sound_part: tuple[float, float | None] = (0.0, None),
        tags: VideoTags | None = None,
    ) -> None:
        self._path, self._fps, self._rotation = Path(path), fps, rotation
        if self._path.suffix.lower() not in BY_SUFFIX:
            raise SourceError(
                f"'{masked_address(path)}' ends in no format of marked videos: use one of {', '.join(BY_SUFFIX)}"
            )
        self._codec, self._quality, self._tags = codec, quality, tags
        self._sound_of, self._sound_part = None if sound_of is None else Path(sound_of), sound_part
        self._size = (0, 0)
        self._free: deque[int] = deque()
        self._writer: Writer[_Marked] | None = None

    def __repr__(self) -> str:
        return f"<MarkedVideo: '{self._path}', {self._fps:g} fps>"

    def put(self, picture: YuvPicture, marks: Marks, time: float | None = None, *, paint: Paint | None = None) -> None:
        """Take a frame, and the marks that were added since the last one.

        Parameters
        ----------
        picture : YuvPicture
            A frame in the memory of the CPU, as ``Source.pictures`` gives it with ``decoder="cpu"``. It is not changed.
        marks : Marks
            What to paint.
        time : float, optional
            Seconds from the video's first frame at which it is to be shown; by default 1 / fps after the one before.
        paint : callable, optional
            Paints below the marks: called with the frame's ``Planes``, later, on the thread that paints.

        Raises
        ------
        SourceError
            If it has another size than the first frame, is on a GPU, or if the file cannot be written.
        """
        size = _size_of(picture, self._path)
        writer = self._writer or self._open(picture, size)
        if size != self._size:
            raise SourceError(
                f"'{self._path}' takes frames of {self._size[0]}x{self._size[1]}, not {size[0]}x{size[1]}"
            )
        writer.put(self._slot(writer), _Marked(picture, marks.take(), paint), 1, time)

    def _open(self, picture: YuvPicture, size: tuple[int, int]) -> Writer[_Marked]:
        upright = (size[1], size[0]) if self._rotation % 180 else size
        file = _MarkedFile(
            AvFile(
                self._path, upright, self._fps, codec=self._codec, quality=self._quality, sound_of=self._sound_of,
                sound_part=self._sound_part, colours=FrameColours(picture.matrix, picture.range), tags=self._tags,
            ),
            self._rotation,
            self._path.name,
        )  # fmt: skip
        nbytes = sum(host_array(plane).nbytes for plane in picture.planes)
        self._size, self._free = size, deque(range(max(_LEAST, min(_MOST, _MAX_BYTES // nbytes))))
        self._writer = Writer(file, f"marks of {self._path.name}")
        self.painting, self.encoding = self._writer.work, file.encoding
        weakref.finalize(self, self._writer.collected)  # if nobody closes it, also at the end of the process
        return self._writer

    def _slot(self, writer: Writer[_Marked]) -> int:
        """The number of a frame that may wait. Waits if there are enough."""
        began = time.perf_counter()
        slot = _free_slot(self._free, writer)
        self.waited += time.perf_counter() - began
        return slot

    def end(self) -> None:
        """Take no more frames, and let the file be completed on its own thread. May be called more than once."""
        if self._writer is not None:
            self._writer.end()

    def close(self) -> None:
        """Write the frames that still wait, and put the file in its place; none if there was no frame.

        May be called more than once.

        Raises
        ------
        SourceError
            If the file is not complete. The one that was there before is then untouched.
        """
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def __enter__(self) -> MarkedVideo:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class _Marked(NamedTuple):
    picture: YuvPicture
    strokes: list[float]
    paint: Paint | None


class _MarkedFile:
    """Paints frames and hands them to the thread that encodes. Implements WrittenFile."""

    def __init__(self, file: AvFile, rotation: int, name: str) -> None:
        self._rotation, self._free = rotation, deque(range(_LEAST))
        self._writer: Writer[Any] = Writer(_PlanesFile(file), name)
        self.encoding = self._writer.work

    def write(self, marked: _Marked, at: float | None = None, /) -> None:
        picture = marked.picture
        frame, columns, rows = upright_frame(picture, self._rotation)
        colours = YuvColours(picture.matrix, picture.range, picture.layout.bits)
        planes = Planes(planes_of(frame), columns, rows, colours)
        if marked.paint is not None:
            marked.paint(planes)
        paint(planes, marked.strokes)
        self._writer.put(_free_slot(self._free, self._writer), frame, 1, at)

    def finish(self) -> None:
        self._writer.close()


class _PlanesFile(NamedTuple):
    """A file of frames in planes. Implements WrittenFile."""

    file: AvFile

    def write(self, frame: Any, at: float | None = None, /) -> None:
        self.file.write_planes(frame, at)

    def finish(self) -> None:
        self.file.finish()


def _free_slot(free: deque[int], writer: Writer[Any]) -> int:
    """Take the number of a frame that may wait for a writer. Waits if there are enough."""
    while writer.has_written:
        free.append(writer.written())
    if not free:
        free.append(writer.written())
    return free.popleft()


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
    colours = FrameColours(picture.matrix, picture.range)
    frame.colorspace, frame.color_range = colours.colorspace, colours.color_range
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
        raise SourceError(f"'{path}' takes frames in the CPU's memory: open the source with decoder='cpu'")
    height, width = host_array(picture.planes[0]).shape[:2]
    return picture.width or width, picture.height or height
