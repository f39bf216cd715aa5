"""The files of one video's results: what is painted, and the rows of what was found."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import framebind as fb

from .arrays import ArraysFile
from .rows import Row
from .tables import JsonLines, ParquetFile
from .times import Times
from .work import Work

Put = Callable[[Sequence[Row]], None]
"""Writes a frame: its rows, and the picture as it was drawn last."""


@contextlib.contextmanager
def open_outputs(
    work: Work, source: str, place: Path | None, picture: fb.GlTexture | None, reader: fb.Source, times: Times
) -> Iterator[Put]:
    """Open the outputs of a video, none if there is no place. Yields the function that writes a frame to each.

    Only a video needs a picture.
    """
    files = dict(zip(work.save, work.outputs(place), strict=True)) if place is not None else {}
    writers: list[Put] = []
    with contextlib.ExitStack() as stack:
        if "video" in files and picture is not None:
            sink = _open_video(work, source, files["video"], picture, reader)
            stack.callback(times.encoded, sink)
            stack.enter_context(sink)
            writers.append(_video_writer(sink, picture, reader, work.start if work.origin is None else work.origin))
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


def _video_writer(sink: fb.Sink, picture: fb.GlTexture, reader: fb.Source, start: float) -> Put:
    def put(_: Sequence[Row]) -> None:
        # A source without a clock, by OpenCV: pictures follow one another.
        sink.put(picture, None if reader.time is None else reader.time - start)

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
