"""The files of one video's results: painted pictures and rows."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import framebind as fb

from ..copies import MASKS, RECORDING
from ..task import Mask
from ..times import Times
from ..work import Save, Work
from .arrays import ArraysFile
from .masks import MaskPictures, PictureFile, Pictures
from .rows import Row
from .tables import JsonLines, ParquetFile

UNFINISHED = ".framebind-unfinished-"
"""Prefix of the temporary folders in which outputs are written; the process's number follows."""

Put = Callable[[Sequence[Row]], None]
"""Writes a frame: its rows, and the picture as it was drawn last."""


class MarkedFrames(NamedTuple):
    """The frames of a video with marks on them, for a painted video without drawn pictures."""

    picture: Callable[[], fb.YuvPicture]
    """Gives the last frame."""
    marks: fb.video.Marks
    paint: Callable[[], Callable[[fb.video.Planes], None]] | None = None
    """``Finder.paint``."""


class Outputs(NamedTuple):
    """The open outputs of a video."""

    put: Put
    end: Callable[[], None]
    """Ends the taking of frames. The rest needs no context, and may be done on another thread."""


def open_outputs(
    stack: contextlib.ExitStack,
    work: Work,
    place: Path | None,
    picture: fb.GlTexture | MarkedFrames | None,
    reader: fb.video.Source,
    times: Times,
    mask: Mask | None = None,
) -> Outputs:
    """Open the outputs of a video, none if there is no place.

    Rows need no picture; a mask has textures if the picture is one, else arrays. When ``stack`` is closed, the files
    get their final names together; after an error none is left.
    """
    if place is None:
        return Outputs(lambda rows: None, lambda: None)
    unfinished = stack.enter_context(_placed(work, place))
    return stack.enter_context(_open(work, unfinished, picture, reader, times, mask))


def close_after_error(outputs: contextlib.ExitStack, *exception: Any) -> None:
    """Close the outputs, and remove their files, if there is an exception: a function for ``ExitStack.push``."""
    if exception[0] is not None:
        outputs.__exit__(*exception)


@contextlib.contextmanager
def _placed(work: Work, place: Path) -> Iterator[Path]:
    """Yield a path in a temporary folder; its files are moved to ``place`` if the block ends without an error.

    Raises SourceError if the disk does not take them.
    """
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{UNFINISHED}{os.getpid()}-", dir=place.parent) as folder:
            unfinished = Path(folder) / place.name
            try:
                yield unfinished
            except fb.SourceError as error:  # it is to name the file's place, not that of the unfinished one
                raise fb.SourceError(str(error).replace(folder, str(place.parent))) from error
            for made, wanted in zip(work.outputs(unfinished), work.outputs(place), strict=True):
                take_place(made, wanted)
    except OSError as error:
        raise fb.SourceError(f"the results '{place}' cannot be written: {error.strerror or error}") from error


@contextlib.contextmanager
def _open(
    work: Work,
    place: Path,
    picture: fb.GlTexture | MarkedFrames | None,
    reader: fb.video.Source,
    times: Times,
    mask: Mask | None,
) -> Iterator[Outputs]:
    files, began = work.files(place), work.start if work.origin is None else work.origin
    writers, ends = list[Put](), list[Callable[[], None]]()
    with contextlib.ExitStack() as stack:
        if work.is_photograph:
            writers += _photograph_writers(work, files, picture, mask)
        elif isinstance(picture, MarkedFrames) and "video" in files:
            video = _open_video(work, files["video"], reader)
            stack.callback(times.painted, video)
            stack.enter_context(video)
            ends.append(video.end)
            writers.append(_marks_writer(video, picture, began))
        elif isinstance(picture, fb.GlTexture) and "video" in files and work.suffix == ".png":
            writers.append(Pictures(files["video"], picture, RECORDING, alpha=work.is_transparent).put)
        elif isinstance(picture, fb.GlTexture) and "video" in files:
            sink = _open_video(work, files["video"], reader)
            stack.callback(times.encoded, sink)
            stack.enter_context(sink)
            ends.append(sink.end)
            writers.append(_video_writer(sink, lambda: picture, began))
        if mask is not None and "masks" in files and not work.is_photograph:
            if work.masks == "video":
                sink = _open_masks(work, files["masks"], reader)
                if not isinstance(picture, fb.GlTexture):
                    stack.callback(times.encoded, sink)
                stack.enter_context(sink)
                ends.append(sink.end)
                writers.append(_video_writer(sink, mask.show, began))
            else:
                writers.append(MaskPictures(files["masks"], mask).put)
        writers += _open_rows(files, stack)

        def put(rows: Sequence[Row]) -> None:
            for write in writers:
                write(rows)

        def end() -> None:
            for each in ends:
                each()

        yield Outputs(put, end)


def _photograph_writers(
    work: Work, files: Mapping[Save, Path], picture: fb.GlTexture | MarkedFrames | None, mask: Mask | None
) -> Iterator[Put]:
    """Writers of the one picture and the one mask of a photograph."""
    if isinstance(picture, fb.GlTexture) and "video" in files:
        yield PictureFile(files["video"], lambda: picture, RECORDING, alpha=work.is_transparent).put
    if mask is not None and "masks" in files:
        yield PictureFile(files["masks"], mask.show if work.masks == "video" else mask.values, MASKS).put


def _open_rows(files: Mapping[Save, Path], stack: contextlib.ExitStack) -> Iterator[Put]:
    """The open files of rows, until the stack is closed."""
    if "jsonl" in files:
        yield stack.enter_context(JsonLines(files["jsonl"])).put
    if "parquet" in files:
        yield stack.enter_context(ParquetFile(files["parquet"])).put
    if "npz" in files:
        arrays = stack.enter_context(ArraysFile(files["npz"]))
        yield lambda rows: arrays.put(_arrays(rows))


def _video_writer(sink: fb.video.VideoWriter, picture: Callable[[], Any], start: float) -> Put:
    def put(rows: Sequence[Row]) -> None:
        sink.put(picture(), time=_time_of(rows, start))

    return put


def _marks_writer(video: fb.video.VideoWriter, frames: MarkedFrames, start: float) -> Put:
    def put(rows: Sequence[Row]) -> None:
        paint = None if frames.paint is None else frames.paint()
        video.put(frames.picture(), frames.marks, _time_of(rows, start), paint=paint)

    return put


def _time_of(rows: Sequence[Row], start: float) -> float | None:
    """Seconds of a frame after ``start``, by its rows: the source may be one frame ahead.

    None for a source without a clock: its pictures follow one another.
    """
    time = rows[0]["time"]
    return None if time is None else time - start


def _arrays(rows: Sequence[Row]) -> dict[str, Any]:
    """The raw outputs of a frame, with its time (not a number if it has none) and its number."""
    (row,) = rows
    time = np.float64(np.nan if row["time"] is None else row["time"])
    outputs: dict[str, Any] = row.get("outputs", {})
    return {"time": time, "frame": np.int64(row["frame"]), **outputs}


def _open_video(work: Work, path: Path, reader: fb.video.Source) -> fb.video.VideoWriter:
    """The video of a whole source has its sound; that of a part, which is joined to others, has none."""
    return fb.video.VideoWriter(
        path, fps=_rate(work, reader), codec=work.codec, quality=work.quality, like=reader, sound=work.origin is None,
        alpha=work.is_transparent,
    )  # fmt: skip


def _open_masks(work: Work, path: Path, reader: fb.video.Source) -> fb.video.VideoWriter:
    return fb.video.VideoWriter(
        path, reader.size, _rate(work, reader), work.codec, work.quality,
        tags=fb.video.VideoTags(reader.tags.pixel_aspect), reason=MASKS,
    )  # fmt: skip


def _rate(work: Work, reader: fb.video.Source) -> float:
    """Frames per second of a video that has one frame of ``work.every``."""
    return (reader.fps or 25.0) / work.every


def take_place(made: Path, wanted: Path) -> None:
    """Move a finished file, or folder of PNG files, to its place, and replace an older one.

    Raises SourceError for a folder that also holds other files.
    """
    if wanted.is_dir():
        there = list(wanted.iterdir())
        if not made.is_dir() or any(not (each.stem.isdecimal() and each.suffix == ".png") for each in there):
            raise fb.SourceError(f"'{wanted}' is a folder that holds other files: move it away")
        for each in there:
            each.unlink()
        wanted.rmdir()
    made.replace(wanted)
