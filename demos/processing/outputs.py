"""The files of one video's results: what is painted, and the rows of what was found."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import framebind as fb

from .rows import Row
from .work import Work

Put = Callable[[Sequence[Row]], None]
"""Writes a frame: its rows, and the picture as it was drawn last."""


@contextlib.contextmanager
def open_outputs(
    work: Work, source: str, place: Path | None, picture: fb.GlTexture, reader: fb.Source
) -> Iterator[Put]:
    """Open the outputs of a video, none if there is no place. Yields the function that writes a frame to each."""
    files = dict(zip(work.save, work.outputs(place), strict=True)) if place is not None else {}
    with contextlib.ExitStack() as stack:
        sink, lines, began = None, None, work.start if work.origin is None else work.origin
        if "video" in files:
            sink = stack.enter_context(_open_video(work, source, files["video"], picture, reader))
        if "jsonl" in files:
            lines = stack.enter_context(files["jsonl"].open("w", encoding="utf-8"))

        def put(rows: Sequence[Row]) -> None:
            if sink is not None:
                # A source without a clock, by OpenCV: pictures follow one another.
                sink.put(picture, None if reader.time is None else reader.time - began)
            if lines is not None:
                lines.writelines(json.dumps(row) + "\n" for row in rows)

        yield put


def _open_video(work: Work, source: str, path: Path, picture: fb.GlTexture, reader: fb.Source) -> fb.Sink:
    return fb.open_sink(
        path, picture.context, picture.size, fps=(reader.fps or 25.0) / work.every,
        codec=work.codec, quality=work.quality,
        sound_of=source if work.origin is None else None, sound_part=(work.start, work.end),
    )  # fmt: skip
