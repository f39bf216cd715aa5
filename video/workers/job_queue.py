"""The queue of jobs: which one comes next, which lost one is done again, and the parts of long videos."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import framebind as fb

from .division import parts_folder
from .jobs import Divided, Event, Finished, Job, Lost, Progress, Report

Worker = TypeVar("Worker")
MAX_ATTEMPTS = 3
"""Attempts at a job, after which it counts as one that no worker survives."""
_SUMS = ("frames", "seconds", "cpu_seconds", "bytes", "damaged")
"""Figures of a video that are the sums of its parts'."""


class _Retries:
    """The jobs that were lost with their workers, and how many times each."""

    def __init__(self) -> None:
        self._lost: Counter[Job] = Counter()

    def has_lost(self, jobs: Iterable[Job]) -> bool:
        """True if one of the jobs was lost before. It may be what ended its worker, so it gets one for itself."""
        return any(self._lost[job] for job in jobs)

    def failed(self, job: Job, why: str) -> Finished | None:
        """Note that the worker of a job died, ``why`` in words. Returns None if the job is done again, else its end."""
        self._lost[job] += 1
        if self._lost[job] < MAX_ATTEMPTS:
            return None
        source = fb.video.masked_address(job.source)
        return Finished(job, {"error": f"WorkerDied: {why}, {MAX_ATTEMPTS} times, and {source} is given up"})


@dataclass
class _Division:
    """A video that was divided: its parts under way, and what became of them."""

    parts: tuple[Job, ...]
    shares: dict[Job, float] = field(default_factory=dict[Job, float])
    results: dict[Job, dict[str, Any]] = field(default_factory=dict[Job, dict[str, Any]])


class JobQueue:
    """Jobs that wait, and the report of those that are done: of whole videos, whether they were divided or not.

    It knows nothing of workers: these take jobs, and tell what happened to them.
    """

    def __init__(self, jobs: Sequence[Job], report: Report) -> None:
        self._waiting, self._report = deque(jobs), report
        self._retries = _Retries()
        self._divided: dict[Job, _Division] = {}
        self._whole: dict[Job, Job] = {}
        """The video of each part, and of each join."""

    @property
    def waiting(self) -> int:
        """The number of jobs that wait for a worker."""
        return len(self._waiting)

    def take(self, has: Sequence[Job], sessions: int) -> Job | None:
        """The next job for a worker that has these already and does ``sessions`` at once; None if there is none.

        A job that was lost gets a worker for itself: it may be what ended the other one.
        """
        if not self._waiting:
            return None
        alone = self._retries.has_lost((self._waiting[0], *has))
        return self._waiting.popleft() if len(has) < (1 if alone else sessions) else None

    def lose(self, jobs: Sequence[Job], why: str) -> None:
        """Put the jobs of a worker that died back, each a limited number of times."""
        for job in jobs:
            failed = self._retries.failed(job, why)
            if failed is None:
                self._waiting.appendleft(job)
                self._report(Lost(self._whole.get(job, job)))
            else:
                self.happened(failed)

    def happened(self, event: Event) -> None:
        """Take what a worker says of a job."""
        whole = self._whole.get(event.job)
        if isinstance(event, Divided):
            self._divided[event.job] = _Division(event.parts)
            self._whole.update(dict.fromkeys(event.parts, event.job))
            self._waiting.extendleft(reversed(event.parts))
        elif whole is None:
            self._report(event)
        elif isinstance(event, Progress):
            self._show(whole, event)
        elif isinstance(event, Finished):
            self._part_finished(whole, event)

    def clean(self) -> None:
        """Remove the results of parts that were not joined."""
        for whole in self._divided:
            shutil.rmtree(parts_folder(whole.place), ignore_errors=True)

    def _show(self, whole: Job, event: Progress) -> None:
        """Report the share of the whole video."""
        division = self._divided[whole]
        division.shares[event.job] = event.share
        self._report(Progress(whole, sum(division.shares.values()) / len(division.parts)))

    def _part_finished(self, whole: Job, event: Finished) -> None:
        """Join the parts when the last one is done. If a part failed, that is the whole video's result.

        A part that has another number of frames than its packets let expect cannot be joined exactly: the video is done
        again as one.
        """
        division = self._divided[whole]
        division.results[event.job] = event.result
        if event.job.parts:
            self._end(whole, event.result)
        elif len(division.results) == len(division.parts):
            errors = [result for result in division.results.values() if "error" in result]
            if errors:
                self._end(whole, errors[0])
            elif any(_is_short(part, division.results[part]) for part in division.parts):
                self._end(whole, None)
                self._waiting.appendleft(replace(whole, part_seconds=None))
            else:
                join = Job(whole.source, whole.place, parts=division.parts)
                self._whole[join] = whole
                self._waiting.appendleft(join)
        else:
            self._show(whole, Progress(event.job, 1.0))

    def _end(self, whole: Job, result: dict[str, Any] | None) -> None:
        """Report the result of a video, with the figures of its parts, and forget them."""
        division = self._divided.pop(whole)
        shutil.rmtree(parts_folder(whole.place), ignore_errors=True)
        if result is None:
            return
        if "error" not in result:
            figures = [division.results[part] for part in division.parts]
            sums = {name: sum(each[name] for each in figures) for name in _SUMS}
            times = add_times([each.get("times", {}) for each in figures])
            result = {**sums, "times": times, "parts": len(figures), **result}
        self._report(Finished(whole, result))


def by_turns(workers: Sequence[Worker], *, most: int) -> Iterator[Worker]:
    """Each worker ``most`` times, one after the other, so that few jobs are spread over all of them."""
    return itertools.chain.from_iterable(itertools.repeat(workers, most))


def add_times(tracks: Iterable[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """The sums of seconds by track and stage, as ``Times.tracks`` gives them."""
    sums: dict[str, dict[str, float]] = {}
    for each in tracks:
        for track, parts in each.items():
            for name, seconds in parts.items():
                sums.setdefault(track, {})[name] = sums.get(track, {}).get(name, 0.0) + seconds
    return sums


def _is_short(part: Job, result: dict[str, Any]) -> bool:
    return part.part is not None and result.get("expected_frames", result["frames"]) != result["frames"]
