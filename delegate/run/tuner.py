"""The measurements of SUSTAINED_SPEED, which find the fastest way to run a program. Tuning has the choices."""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ...interop.device import Device, Dispatches
from ...interop.errors import DeviceError, FramebindError
from ..lower.launches import local_bytes
from ..lower.lowering import lower
from ..lower.tuning import GROUPS, GROUPS_PER_UNIT, Tuning, TuningError
from .program import Program

log = logging.getLogger("framebind")

WORTH = 0.97
"""The largest time of a better candidate, as a part of the best one's, so that noise alone changes nothing."""

Make = Callable[[Tuning], Program]
"""Makes the program anew, with everything bound."""


@dataclass(frozen=True)
class Tuner:
    """Measures on the device how a program runs fastest. Its own numbers, of runs and seconds, were not measured."""

    limit: float = 60.0
    """Seconds after which no new candidate is tried; the current one is still compiled and measured."""
    warm_up: int = 5
    """Runs before those that count."""
    runs: int = 20

    def tune(self, device: Device, base: Program, make: Make) -> Tuning:
        """The fastest tuning of ``base``, which follows the rules and has everything bound; ``Tuning()`` if the rules
        win.

        One decision after the other: the dispatches, the size of work-groups, the block or tile of each distinct
        kernel, the groups of one dispatch. Nothing is measured on a CPU, on a device without a clock, or if the
        device is told how to run steps.
        """
        if device.traits.software or device.dispatches != "auto" or not _has_clock(base):
            return Tuning()
        way = _way_of(base)
        search = _Search(self, device, base, make, base, Tuning(dispatches=way), time.monotonic() + self.limit)
        search.challenge(dispatches="parts" if way == "separate" else "separate")
        if search.fewest > 1:
            search.challenge(dispatches="one")
        for group_size in GROUPS:
            if group_size <= device.traits.max_group_size and group_size != device.traits.group_size:
                search.challenge(group_size=group_size)
        search.challenge(tuned=_fastest_candidates(search))
        for groups_per_unit in GROUPS_PER_UNIT if search.tuning.dispatches in ("one", "parts") else ():
            search.challenge(groups_per_unit=groups_per_unit)
        if search.best is base:
            return Tuning()
        search.best.release()
        return search.tuning

    def is_faster(self, device: Device, program: Program, than: Program) -> bool:
        """Whether the median time of a run with its wait is shorter. The programs take turns, so changes of clocks
        affect both.
        """
        seconds: tuple[list[float], list[float]] = ([], [])
        for _ in range(self.warm_up + self.runs):
            for commands, taken in zip((program.record(), than.record()), seconds, strict=True):
                start = time.perf_counter()
                commands.run()
                device.fence().wait()
                taken.append(time.perf_counter() - start)
        new, old = (statistics.median(taken[self.warm_up :]) for taken in seconds)
        return new < WORTH * old

    def times(self, program: Program) -> dict[str, float]:
        """The nanoseconds that all steps with a decision take together, by its key."""
        times: dict[str, float] = {}
        runs = [[nanoseconds for _, nanoseconds in program.timings()] for _ in range(self.warm_up + self.runs)]
        for choice, taken in zip(program.step_choices, zip(*runs[self.warm_up :], strict=True), strict=True):
            if choice is not None:
                times[choice.key] = times.get(choice.key, 0.0) + statistics.median(taken)
        return times


def _has_clock(program: Program) -> bool:
    """Whether the device times its steps. The null device runs nothing, and some GL ES drivers have no timers."""
    try:
        return any(nanoseconds for _, nanoseconds in program.timings())
    except DeviceError as reason:
        log.info(f"nothing is tuned: {reason}")
        return False


@dataclass
class _Search:
    """The best program so far (first ``base``), its tuning, and the time when the search ends."""

    tuner: Tuner
    device: Device
    base: Program
    make: Make
    best: Program
    tuning: Tuning
    until: float
    fewest: int = field(init=False)
    """The fewest dispatches of a program so far."""

    def __post_init__(self) -> None:
        self.fewest = self.base.record().dispatches

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.until

    def challenge(self, **changes: Any) -> None:
        """Try a tuning with these changes; if its program is faster, it becomes the best one."""
        tuning = replace(self.tuning, **changes)
        if self.is_over or tuning == self.tuning:
            return
        loser: Program | None = None
        try:
            loser = program = self.make(tuning)
            self.fewest = min(self.fewest, program.record().dispatches)
            if self.tuner.is_faster(self.device, program, self.best):
                loser, self.best, self.tuning = self.best, program, tuning
        except (TuningError, FramebindError) as reason:
            log.info(f"{tuning} cannot be used: {reason}")
        if loser is not None and loser is not self.base:
            loser.release()


def _way_of(base: Program) -> Dispatches | None:
    """The way in which a program runs by rule; None if small steps alone are merged, which has no name."""
    commands = base.record()
    if commands.dispatches == len(base.steps):
        return "separate"
    return "parts" if commands.barriers else None


def _fastest_candidates(search: _Search) -> dict[str, int]:
    """The number of the candidate that is faster than the rule's, by key, if there is one.

    In each round every kernel runs its next candidate, as a separate dispatch, timed by the device's clock.
    """
    if search.is_over:
        return {}
    tuning = replace(search.tuning, dispatches="separate", groups_per_unit=0)
    choices = search.best.choices
    best = {key: (nanoseconds, 0) for key, nanoseconds in _times(search, replace(tuning, tuned={})).items()}
    for number in range(1, max((len(choice.candidates) for choice in choices.values()), default=0)):
        if search.is_over:
            break
        asked = {key: number for key in best if number < len(choices[key].candidates)}
        fitting = _fitting(search, asked, tuning)
        times = _times(search, replace(tuning, tuned=fitting))
        for key in fitting.keys() & times.keys():
            if times[key] < WORTH * best[key][0]:
                best[key] = times[key], number
    return {key: number for key, (_, number) in best.items() if number}


def _fitting(search: _Search, numbers: dict[str, int], tuning: Tuning) -> dict[str, int]:
    """The candidates without those whose kernels need more local memory than the device has."""
    target = replace(tuning, tuned=numbers).target(search.base.compiled.lowered.target)
    launches = lower(search.base.graph, target).launches
    large = {entry.launch.choice for entry in launches if local_bytes(entry.launch) > target.local_bytes}
    return {key: numbers[key] for key in numbers.keys() - {c.key for c in large if c is not None}}


def _times(search: _Search, tuning: Tuning) -> dict[str, float]:
    """``Tuner.times`` of the program with this tuning; empty if it does not run."""
    program: Program | None = None
    try:
        program = search.make(tuning)
        return search.tuner.times(program)
    except (TuningError, FramebindError) as reason:
        log.info(f"{tuning} cannot be used: {reason}")
        return {}
    finally:
        if program is not None:
            program.release()
