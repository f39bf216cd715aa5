"""Long videos in parts: the rows and frames are those of one run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from framebind.interop.frames.decode.decoder import VideoDecoder
from framebind.video.session.session import Session
from framebind.video.work import Work
from framebind.video.workers.division import divide, parts_folder, work_on
from framebind.video.workers.job_queue import JobQueue
from framebind.video.workers.jobs import Divided, Event, Finished, Job, Lost, Progress
from framebind.video.workers.worker import process
from support.video.clips import write_clip


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_clip(tmp_path / "a.mp4", frames=60, sound=True, options={"g": "10", "sc_threshold": "0"})


@pytest.fixture
def work(model_path: Callable[[str], Path]) -> Work:
    return Work("style", save=("video", "jsonl", "parquet"), every=2, start=0.08)


def run(work: Work, job: Job) -> list[Event]:
    """Process a job with all that it is divided into in one session."""
    reported = list[Event]()
    queue = JobQueue([job], reported.append)
    with Session(work) as session:
        while (each := queue.take([], 1)) is not None:
            queue.happened(process(session, each, queue.happened))
    return reported


def times_of(path: Path) -> list[float]:
    with VideoDecoder(path) as decoder:
        return [decoder.time_of(frame) for frame in decoder.frames()]


def rows_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_joined_parts_are_what_one_run_makes(source: Path, tmp_path: Path, work: Work) -> None:
    whole, divided = Job(source, tmp_path / "whole"), Job(source, tmp_path / "divided", part_seconds=0.6)
    assert len(divide(divided, work)) > 2
    run(work, whole)
    *progress, last = run(work, divided)
    assert isinstance(last, Finished) and last.job == divided and last.result["frames"] == 29
    assert last.result["parts"] > 2 and all(isinstance(each, Progress) for each in progress)
    first, second = (each.place.with_suffix(".jsonl") for each in (whole, divided))
    tables = [parquet.read_table(each.place.with_suffix(".parquet")) for each in (whole, divided)]
    assert tables[0].equals(tables[1]) and tables[0].num_rows == 29
    assert first.read_bytes() == second.read_bytes() and len(rows_of(first)) == 29
    assert times_of(whole.place.with_suffix(".mp4")) == times_of(divided.place.with_suffix(".mp4"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.mp4", "divided.jsonl", "divided.mp4", "divided.parquet", "whole.jsonl", "whole.mp4", "whole.parquet",
    ]  # fmt: skip


def test_what_cannot_be_joined_exactly_stays_whole(source: Path, tmp_path: Path, work: Work) -> None:
    job = Job(source, tmp_path / "b", part_seconds=0.6)
    for other in (replace(work, task="detect"), replace(work, suffix=".gif"), replace(work, codec="gif")):
        assert divide(job, other) == ()
    assert divide(replace(job, part_seconds=None), work) == divide(replace(job, part_seconds=9.0), work) == ()
    assert work_on(divide(job, replace(work, suffix=".webm"))[1], replace(work, suffix=".webm")).codec == "vp9"


def test_parts_that_are_lost_fail_or_lack_frames(source: Path, tmp_path: Path, work: Work) -> None:
    """The queue, told by hand what happens to three parts."""
    job, reported = Job(source, tmp_path / "b", part_seconds=0.6), list[Event]()
    queue = JobQueue([job], reported.append)
    good = {
        "frames": 10,
        "expected_frames": 10,
        "seconds": 1,
        "cpu_seconds": 1,
        "bytes": 5,
        "damaged": 0,
        "times": {"decoder": {"decode": 2.0}},
    }

    def parts() -> list[Job]:
        assert queue.take([], 1) == job
        queue.happened(Divided(job, divide(job, work)))
        return [part for _ in range(queue.waiting) if (part := queue.take([], 1)) is not None]

    first, *others = parts()
    queue.lose([first], "killed")
    assert reported == [Lost(job)] and queue.take([job], 2) is None, "it wants a worker for itself"
    assert queue.take([], 2) == first
    for each in (first, *others):
        queue.happened(Finished(each, good))
    join = queue.take([], 1)
    assert join is not None and join.parts == (first, *others)
    queue.happened(Finished(join, {"outputs": ["b.mp4"]}))
    assert isinstance(reported[-1], Finished) and reported[-1].job == job
    assert reported[-1].result["frames"] == 10 * len(join.parts)
    assert reported[-1].result["times"] == {"decoder": {"decode": 2.0 * len(join.parts)}}

    queue = JobQueue([job], reported.append)
    for each in parts():
        queue.happened(Finished(each, {"error": "SourceError: broken"} if each.part == first.part else good))
    assert reported[-1] == Finished(job, {"error": "SourceError: broken"}) and not queue.waiting

    queue = JobQueue([job], reported.append)
    for each in parts():
        queue.happened(Finished(each, {**good, "frames": 9}))
    assert queue.take([], 1) == replace(job, part_seconds=None), "again, as one"
    assert not parts_folder(job.place).exists()
