"""Steps as one dispatch: what they have in common, found once; the same for every API."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...kernels.codegen.one_dispatch import HEAD, NOTHING, ProgramSource
from ...kernels.codegen.source import Argument, KernelSource
from ...kernels.views import Picture
from ..binaries import BinaryStore
from ..device import Resource, Slot, Step, Traits
from ..errors import DeviceError
from .hazards import hazards

FEWEST_STEPS, MOST_INVOCATIONS = 8, 640
"""One dispatch is preferred for as many steps, of so many invocations a compute unit on average."""
MAX_SPINS = 1 << 22
"""How often a group looks for the others before it gives up. A look goes to memory that all groups share: seconds."""
QUICKEST_FAILURE = 0.2
"""Seconds that so many looks take at least on a GPU, at 50 ns each."""
TEST_PATIENCE, TEST_ROUNDS = 1 << 14, 64
GROUPS_PER_UNIT = (16, 12, 8, 6, 4, 3, 2, 1)
"""How many groups a compute unit may keep resident, tried in this order."""


class BarrierWatch:
    """Notices that a run has failed when the CPU waits, without a readback for each frame.

    A run in which a group waits in vain takes QUICKEST_FAILURE seconds or more. So a wait that ends sooner after the
    run was submitted proves that all went well, and only after a longer one is the flag on the device looked at (by
    ``take_flag``, which also puts it back). Where the CPU runs the groups, looks take no such time: there it always is.
    """

    def __init__(self, where: str, take_flag: Callable[[], bool], software: bool) -> None:
        self._where, self._take_flag = where, take_flag
        self._quickest = 0.0 if software else QUICKEST_FAILURE
        self._first: float | None = None
        self._last = 0.0
        """When the first and the last run were submitted that may have failed."""
        self.failed = False
        """A run has failed: nothing runs as one dispatch any more."""

    def submitted(self) -> None:
        """A run is about to be submitted."""
        self._last = time.perf_counter()
        if self._first is None:
            self._first = self._last

    def waited(self, submitted_before: float = math.inf) -> None:
        """The CPU has waited for all that was submitted (before that time). Raises DeviceError where a run failed."""
        first = self._first
        if first is None or first > submitted_before:
            return
        self._first = None if self._last <= submitted_before else submitted_before
        if time.perf_counter() - first >= self._quickest and self._take_flag():
            self.failed = True
            raise DeviceError(
                f"a program that runs as one dispatch gave up on {self._where}: its work-groups did not run at the "
                "same time. What was computed since the last wait is void: run it again, as separate dispatches now"
            )


@dataclass
class Merged:
    """Steps whose kernels are one program: ``numbers`` are the kernels of the steps; ``memories`` and ``pictures``
    what the program's buffers and pictures are, in its order; ``picture_of`` the number of the picture that step and
    argument are.
    """

    source: ProgramSource
    numbers: list[int]
    memories: list[Resource | Slot] = field(default_factory=list)
    pictures: list[tuple[int, Argument, Resource | Slot]] = field(default_factory=list)

    @property
    def picture_of(self) -> dict[tuple[int, str], int]:
        return {(step, argument.name): i for i, (step, argument, _) in enumerate(self.pictures)}


def merge(steps: Sequence[Step], local_bytes: int) -> Merged:
    """Name buffers and pictures for the whole program; kernels that are then the same are one.

    ``local_bytes``: see ProgramSource.
    """
    names: dict[int | Slot, str] = {}
    resources: dict[str, Resource | Slot] = {}
    kernels: dict[KernelSource, int] = {}
    pictures: list[tuple[int, Argument, Resource | Slot]] = []
    numbers: list[int] = []
    for number, step in enumerate(steps):
        arguments: list[Argument] = []
        for argument in step.kernel.source.arguments:
            resource = step.operands[argument.name].resource
            if isinstance(argument.view, Picture):  # with parameters of its own, so never shared by two steps
                name = f"picture_{len(pictures)}"
                pictures.append((number, argument, resource))
            else:
                key = resource if isinstance(resource, Slot) else id(resource)
                name = names.setdefault(key, f"memory_{len(names)}")
                resources[name] = resource
            arguments.append(replace(argument, memory=name))
        source = replace(step.kernel.source, arguments=tuple(arguments), group_count=0)
        numbers.append(kernels.setdefault(source, len(kernels)))
    source = ProgramSource(tuple(kernels), steps[0].kernel.source.group_size, len(steps), local_bytes)
    return Merged(source, numbers, [resources[name] for name in source.memories], pictures)


def table(steps: Sequence[Step], merged: Merged, groups: int) -> np.ndarray:
    """The rows of the program's table, int32: see kernels/program.py."""
    rows = np.zeros((len(steps), merged.source.row), np.int32)
    waits, first = set(hazards(steps)), 0
    for number, step in enumerate(steps):
        first = 0 if number in waits else first
        # Steps that do not wait for one another begin on different groups, so that they run side by side.
        rows[number, :HEAD] = merged.numbers[number], step.group_count, first % groups, number in waits
        for i, argument in enumerate(step.kernel.source.buffers):
            rows[number, HEAD + i] = step.operands[argument.name].offset // argument.unit
        first += step.group_count
    return rows


def waiting_table(merged: Merged) -> np.ndarray:
    """As many rows that do nothing but wait: what shows that all groups are resident."""
    rows = np.zeros((merged.source.steps, merged.source.row), np.int32)
    rows[:, 0], rows[:, 3] = NOTHING, 1
    return rows


def groups_to_try(units: int, per_unit: Sequence[int], most: int, program: str, store: BinaryStore | None) -> list[int]:
    """How many groups a program of this text is tried with, ``most`` at most: what an earlier start has found to wait
    for one another, then the largest first.
    """
    numbers = sorted({min(units * count, most) for count in per_unit}, reverse=True)
    known = store.known_number(_groups_of(program, most)) if store is not None else None
    return sorted(numbers, key=lambda number: number != known)


def keep_groups(groups: int, most: int, program: str, store: BinaryStore | None) -> None:
    """Let the store keep how many groups have waited for one another."""
    if store is not None:
        store.keep_number(_groups_of(program, most), groups)


def _groups_of(program: str, most: int) -> str:
    return f"groups, {most} at most, of {program}"


def wanted_groups(steps: Sequence[Step], units: int, per_unit: int = 0) -> int:
    """With how many groups the steps run best: more wait longer for one another, fewer leave the device idle."""
    mean = sum(step.group_count for step in steps) / len(steps)
    most = per_unit or math.ceil(2 * mean / units)
    return min(most * units, max(step.group_count for step in steps))


def prefers_one(steps: Sequence[Step], software: bool, units: int) -> bool:
    """Whether one dispatch is likely to be the faster way: on a GPU, for many steps that are small.

    Large steps fill the GPU better alone: a program has as many registers as its largest kernel needs, and so fewer
    groups at once. A CPU runs the groups one after the other.
    """
    if software or len(steps) < FEWEST_STEPS:
        return False
    invocations = sum(step.group_count * step.kernel.source.group_size for step in steps)
    return invocations / len(steps) <= MOST_INVOCATIONS * units


def why_not_one(steps: Sequence[Step], traits: Traits) -> str:
    """Why these steps cannot be one dispatch on a device of these traits; "" where they can."""
    if not steps:
        return "there are no steps"
    groups = {step.kernel.source.group_size for step in steps}
    if len(groups) > 1:
        return f"its kernels have different work-group sizes, {sorted(groups)}"
    merged = merge(steps, traits.local_bytes)
    if len(merged.memories) > traits.max_memories - 2:
        return f"it uses {len(merged.memories)} buffers, and one kernel takes {traits.max_memories - 2} at most"
    if merged.source.nbytes > traits.local_bytes:
        return f"it needs {merged.source.nbytes} bytes of local memory, and a work-group has {traits.local_bytes}"
    sampled = [resource for _, argument, resource in merged.pictures if argument.access == "r"]
    for _, argument, resource in merged.pictures:
        if argument.access != "r" and any(other is resource or other == resource for other in sampled):
            return "a texture that one step writes is sampled by another"
    return ""
