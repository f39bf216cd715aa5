"""The order of units: which one comes next, which ones were lost, and the parts of long videos."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import framebind as fb

from .division import parts_folder
from .units import Divided, Event, Finished, Lost, Progress, Report, Unit

Worker = TypeVar("Worker")
_SUMS = ("frames", "seconds", "cpu_seconds", "bytes", "damaged")
"""Figures of a video that are the sums of its parts'."""
MAX_ATTEMPTS = 3
"""Attempts at a unit, after which it counts as one that no worker survives."""


@dataclass
class _Division:
    """A video that was divided: its parts under way, and what became of them."""

    parts: tuple[Unit, ...]
    shares: dict[Unit, float] = field(default_factory=dict[Unit, float])
    results: dict[Unit, dict[str, Any]] = field(default_factory=dict[Unit, dict[str, Any]])


class Schedule:
    """Units that wait, and the report of those that are done: of whole videos, whether they were divided or not.

    It knows nothing of workers: these take units, and tell what happened to them.
    """

    def __init__(self, units: Sequence[Unit], report: Report) -> None:
        self._waiting, self._report = deque(units), report
        self._lost: Counter[Unit] = Counter()
        self._divided: dict[Unit, _Division] = {}
        self._whole: dict[Unit, Unit] = {}
        """The video of each part, and of each join."""

    @property
    def waiting(self) -> int:
        """The number of units that wait for a worker."""
        return len(self._waiting)

    def take(self, has: Sequence[Unit], sessions: int) -> Unit | None:
        """The next unit for a worker that has these already and does ``sessions`` at once; None if there is none.

        A unit that was lost gets a worker for itself: it may be what ended the other one.
        """
        if not self._waiting:
            return None
        alone = any(self._lost[each] for each in (self._waiting[0], *has))
        return self._waiting.popleft() if len(has) < (1 if alone else sessions) else None

    def lose(self, units: Sequence[Unit], why: str) -> None:
        """Put the units of a worker that died back, each a limited number of times."""
        for unit in units:
            self._lost[unit] += 1
            if self._lost[unit] < MAX_ATTEMPTS:
                self._waiting.appendleft(unit)
                self._report(Lost(self._whole.get(unit, unit)))
            else:
                error = (
                    f"WorkerDied: {why}, {MAX_ATTEMPTS} times, and {fb.video.masked_address(unit.source)} is given up"
                )
                self.happened(Finished(unit, {"error": error}))

    def happened(self, event: Event) -> None:
        """Take what a worker says of a unit."""
        whole = self._whole.get(event.unit)
        if isinstance(event, Divided):
            self._divided[event.unit] = _Division(event.parts)
            self._whole.update(dict.fromkeys(event.parts, event.unit))
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

    def _show(self, whole: Unit, event: Progress) -> None:
        """Report the share of the whole video."""
        division = self._divided[whole]
        division.shares[event.unit] = event.share
        self._report(Progress(whole, sum(division.shares.values()) / len(division.parts)))

    def _part_finished(self, whole: Unit, event: Finished) -> None:
        """Join the parts when the last one is done. If a part failed, that is the whole video's result.

        A part that has another number of frames than its packets let expect cannot be joined exactly: the video is done
        again as one.
        """
        division = self._divided[whole]
        division.results[event.unit] = event.result
        if event.unit.parts:
            self._end(whole, event.result)
        elif len(division.results) == len(division.parts):
            errors = [result for result in division.results.values() if "error" in result]
            if errors:
                self._end(whole, errors[0])
            elif any(_is_short(part, division.results[part]) for part in division.parts):
                self._end(whole, None)
                self._waiting.appendleft(replace(whole, part_seconds=None))
            else:
                join = Unit(whole.source, whole.place, parts=division.parts)
                self._whole[join] = whole
                self._waiting.appendleft(join)
        else:
            self._show(whole, Progress(event.unit, 1.0))

    def _end(self, whole: Unit, result: dict[str, Any] | None) -> None:
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
    """Each worker ``most`` times, one after the other, so that few units are spread over all of them."""
    return itertools.chain.from_iterable(itertools.repeat(workers, most))


def add_times(lanes: Iterable[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """The sums of seconds by lane and stage, as ``Times.lanes`` gives them."""
    sums: dict[str, dict[str, float]] = {}
    for each in lanes:
        for lane, parts in each.items():
            for name, seconds in parts.items():
                sums.setdefault(lane, {})[name] = sums.get(lane, {}).get(name, 0.0) + seconds
    return sums


def _is_short(part: Unit, result: dict[str, Any]) -> bool:
    return part.part is not None and result.get("expected_frames", result["frames"]) != result["frames"]
