"""The files of one video's results: what is painted, and the rows of what was found."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import framebind as fb

from ..player.report import RECORDING
from ..player.task import Mask
from .arrays import ArraysFile
from .masks import MASKS, MaskPictures, Pictures
from .rows import Row
from .tables import JsonLines, ParquetFile
from .times import Times
from .work import Work

Put = Callable[[Sequence[Row]], None]
"""Writes a frame: its rows, and the picture as it was drawn last."""


@contextlib.contextmanager
def open_outputs(
    work: Work,
    source: str,
    place: Path | None,
    picture: fb.GlTexture | None,
    reader: fb.Source,
    times: Times,
    mask: Mask | None = None,
) -> Iterator[Put]:
    """Open the outputs of a video, none if there is no place. Yields the function that writes a frame to each.

    Only a video and masks need a picture.
    """
    files = work.files(place) if place is not None else {}
    writers: list[Put] = []
    began = work.start if work.origin is None else work.origin
    with contextlib.ExitStack() as stack:
        if picture is not None and "video" in files and work.suffix == ".png":
            writers.append(Pictures(files["video"], picture, RECORDING).put)
        elif picture is not None and "video" in files:
            sink = _open_video(work, source, files["video"], picture, reader)
            stack.callback(times.encoded, sink)
            stack.enter_context(sink)
            writers.append(_video_writer(sink, lambda: picture, reader, began))
        if picture is not None and mask is not None and "masks" in files:
            if work.masks == "video":
                sink = stack.enter_context(_open_masks(work, files["masks"], picture, reader))
                writers.append(_video_writer(sink, mask.show, reader, began))
            else:
                writers.append(MaskPictures(files["masks"], mask).put)
        if "jsonl" in files:
            writers.append(stack.enter_context(JsonLines(files["jsonl"])).put)
        if "parquet" in files:
            writers.append(stack.enter_context(ParquetFile(files["parquet"])).put)
        if "npz" in files:
            arrays = stack.enter_context(ArraysFile(files["npz"]))
            writers.append(lambda rows: arrays.put(_arrays(rows)))

        def put(rows: Sequence[Row]) -> None:
            for write in writers:
                write(rows)

        yield put


def _video_writer(sink: fb.Sink, picture: Callable[[], fb.GlTexture], reader: fb.Source, start: float) -> Put:
    def put(_: Sequence[Row]) -> None:
        # A source without a clock, by OpenCV: pictures follow one another.
        sink.put(picture(), None if reader.time is None else reader.time - start)

    return put


def _arrays(rows: Sequence[Row]) -> dict[str, Any]:
    """The raw outputs of a frame, with its time (not a number if it has none) and its number."""
    (row,) = rows
    time = np.float64(np.nan if row["time"] is None else row["time"])
    outputs: dict[str, Any] = row.get("outputs", {})
    return {"time": time, "frame": np.int64(row["frame"]), **outputs}


def _open_video(work: Work, source: str, path: Path, picture: fb.GlTexture, reader: fb.Source) -> fb.Sink:
    return fb.open_sink(
        path, picture.context, picture.size, fps=(reader.fps or 25.0) / work.every,
        codec=work.codec, quality=work.quality,
        sound_of=source if work.origin is None else None, sound_part=(work.start, work.end),
    )  # fmt: skip


def _open_masks(work: Work, path: Path, picture: fb.GlTexture, reader: fb.Source) -> fb.Sink:
    return fb.open_sink(
        path, picture.context, picture.size, fps=(reader.fps or 25.0) / work.every, codec=work.codec,
        quality=work.quality, reason=MASKS,
    )  # fmt: skip


def take_place(made: Path, wanted: Path) -> None:
    """Put a finished file, or folder of PNG files, in its place, and replace one that is there.

    Raises SourceError for a folder that holds other files: they are not ours.
    """
    if wanted.is_dir():
        there = list(wanted.iterdir())
        if not made.is_dir() or any(not (each.stem.isdecimal() and each.suffix == ".png") for each in there):
            raise fb.SourceError(f"'{wanted}' is a folder that holds other files: move it away")
        for each in there:
            each.unlink()
        wanted.rmdir()
    made.replace(wanted)
