"""The files of one video's results: what is painted, and the rows of what was found."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import framebind as fb

from ..player.task import Task
from .work import Work


@contextlib.contextmanager
def open_outputs(
    work: Work, source: Path, place: Path, picture: fb.GlTexture, reader: fb.Source
) -> Iterator[Callable[[Task], None]]:
    """Open the outputs of a video. Yields the function that writes the frame that a task drew last to each."""
    files = dict(zip(work.save, work.outputs(place), strict=True))
    with contextlib.ExitStack() as stack:
        sink, rows = None, None
        if "video" in files:
            sink = stack.enter_context(_open_video(work, source, files["video"], picture, reader))
        if "jsonl" in files:
            rows = stack.enter_context(files["jsonl"].open("w", encoding="utf-8"))

        def put(task: Task) -> None:
            if sink is not None:
                # A source without a clock, by OpenCV: pictures follow one another.
                sink.put(picture, None if reader.time is None else reader.time - work.start)
            if rows is not None:
                found = task.results() if task.results else []
                rows.write(json.dumps({"source": str(source), "time": reader.time, "found": found}) + "\n")

        yield put


def _open_video(work: Work, source: Path, path: Path, picture: fb.GlTexture, reader: fb.Source) -> fb.Sink:
    return fb.open_sink(
        path, picture.context, picture.size, fps=(reader.fps or 25.0) / work.every,
        codec=work.codec, quality=work.quality, sound_of=source, sound_part=(work.start, work.end),
    )  # fmt: skip
