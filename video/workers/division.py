"""Long videos: divided into parts at key frames, and the results of the parts joined."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import framebind as fb

from ..results.outputs import UNFINISHED
from ..results.rows import Row
from ..results.tables import JsonLines, ParquetFile, load_pyarrow
from ..work import Work, is_photograph
from .jobs import Job

TABLES: dict[str, type[JsonLines] | type[ParquetFile]] = {"jsonl": JsonLines, "parquet": ParquetFile}
"""Kinds of files of rows, which can be joined."""
PART_SECONDS = 300.0
"""Seconds of video of a part, about: not measured. A part costs a seek, and a start of the encoder."""
TICKS = 90_000
"""Ticks per second of the times in saved videos. Parts begin at whole ones, so that joined times are exact."""


def parts_folder(place: Path) -> Path:
    """The folder of the results of a video's parts."""
    return place.with_name(f"{UNFINISHED}parts-{place.name}")


def divide(job: Job, work: Work) -> tuple[Job, ...]:
    """The parts of a job; none if it is to be processed as one.

    Only what can be joined to the same as without parts: work that remembers nothing of the frame before, rows,
    and videos whose packets can be joined.
    """
    if job.part_seconds is None or job.part is not None or work.has_memory:
        return ()
    if isinstance(job.source, str) or job.upload:  # each part would fetch the whole video
        return ()
    if is_photograph(job.source):
        return ()
    if not set(work.save) <= {"video", *TABLES} or work.suffix in (".gif", ".png") or work.codec == "gif":
        return ()
    found = fb.video.divide_video(job.source, job.part_seconds, start=work.start, end=work.end, every=work.every)
    if len(found) < 2:
        return ()
    folder = parts_folder(job.place)
    return tuple(replace(job, part=part, place=folder / f"{number:05}") for number, part in enumerate(found))


def work_on(job: Job, work: Work) -> Work:
    """The work on a job: on a part of a video, on a photograph, or the work itself for a whole video."""
    if job.part is None:
        return work.of(job.source)
    codec = work.codec or ("vp9" if work.suffix == ".webm" else "h264")
    return replace(
        work, start=job.part.start, end=job.part.end, origin=float(work.start + begins(job.part, work)),
        codec=codec, suffix=".mov" if codec == "prores" else ".mp4",  # formats with exact times
    )  # fmt: skip


def begins(part: fb.video.VideoPart, work: Work) -> Fraction:
    """The second of the saved video at which a part begins: a whole tick."""
    return Fraction(round((part.start - work.start) * TICKS), TICKS) if part.frame else Fraction(0)


def expected_frames(part: fb.video.VideoPart, work: Work) -> int:
    """The number of frames of a part that are taken."""
    return -(-part.frames // work.every)


def join(job: Job, work: Work) -> dict[str, Any]:
    """Join the results of a video's parts. Returns the names of the files, as the result's ``outputs``."""
    with tempfile.TemporaryDirectory(prefix=f"{UNFINISHED}{os.getpid()}-", dir=job.place.parent) as folder:
        unfinished = Path(folder) / job.place.name
        for kind, made in zip(work.save, work.outputs(unfinished), strict=True):
            files = [work_on(part, work).outputs(part.place)[work.save.index(kind)] for part in job.parts]
            if kind == "video":
                _join_videos(job, work, files, made)
            else:
                with TABLES[kind](made) as table:
                    for rows in _joined_rows(job, kind, files):
                        table.put(rows)
        for made, wanted in zip(work.outputs(unfinished), work.outputs(job.place), strict=True):
            made.replace(wanted)
    return {"outputs": [str(path) for path in work.outputs(job.place)]}


def _join_videos(job: Job, work: Work, files: list[Path], made: Path) -> None:
    starts = [begins(part.part, work) for part in job.parts if part.part is not None]
    fb.video.join_videos(
        list(zip(files, starts, strict=True)), made, sound_of=job.source, sound_part=(work.start, work.end)
    )


def _joined_rows(job: Job, kind: str, files: list[Path]) -> Iterator[list[Row]]:
    """The rows of all parts, some at a time, with the numbers of frames in the whole video."""
    for part, file in zip(job.parts, files, strict=True):
        first = part.part.frame if part.part is not None else 0
        for rows in _read_lines(file) if kind == "jsonl" else _read_table(file):
            for row in rows:
                row["frame"] += first
            yield rows


def _read_lines(file: Path) -> Iterator[list[Row]]:
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            yield [json.loads(line)]


def _read_table(file: Path) -> Iterator[list[Row]]:
    _, parquet = load_pyarrow()
    with parquet.ParquetFile(file) as table:
        for batch in table.iter_batches():
            yield batch.to_pylist()
