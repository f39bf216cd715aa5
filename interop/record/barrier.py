"""The barrier between the work-groups of one dispatch: a test whether it works on a device, and a watch that notices
failures.

The barrier's state is a buffer of two words: a count of arrivals, and a flag that says that a group gave up. The
kernels' side of it is in ``kernels/codegen/barrier.*``.
"""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..binaries import BinaryStore
from ..contexts import BaseContext
from ..errors import DeviceError, KernelError

log = logging.getLogger("framebind")

MAX_SPINS = 1 << 22
"""Polls of the count until a group gives up. Each poll reads memory that all groups share, so this takes seconds."""
QUICKEST_FAILURE = 0.2
"""Seconds that MAX_SPINS polls take at least on a GPU, at 50 ns each."""
TEST_SPINS, TEST_ROUNDS = 1 << 14, 64
"""The limit of polls in the test of the barrier, which must end soon, and the number of its rounds. Not measured."""
GROUPS_PER_UNIT = (16, 12, 8, 6, 4, 3, 2, 1)
"""Numbers of groups that a compute unit may keep resident, in the order in which they are tried."""


class BarrierWatch:
    """Notices that a run has failed when the CPU waits, without a readback per frame.

    A run in which a group gives up takes QUICKEST_FAILURE seconds or more. So a wait that ends sooner after the
    submission proves that the run went well. Only after a longer wait is the flag read from the device, by
    ``take_flag``, which also resets it. On a CPU polls are fast, so there the flag is always read.
    """

    def __init__(self, where: str, take_flag: Callable[[], bool], *, software: bool) -> None:
        self._where, self._take_flag = where, take_flag
        self._quickest = 0.0 if software else QUICKEST_FAILURE
        self._first: float | None = None
        self._last = 0.0
        """The submission times of the first and the last run that may have failed. No wait has covered these runs yet.
        """
        self.failed = False
        """True once a run has failed. From then on nothing runs as one dispatch."""

    def submitted(self) -> None:
        """Note that a run is about to be submitted."""
        self._last = time.perf_counter()
        if self._first is None:
            self._first = self._last

    def waited(self, submitted_before: float = math.inf) -> None:
        """Note that the CPU has waited for what was submitted before that time. Raises DeviceError if a run failed."""
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


Dispatch = Callable[[int], Any]
"""A function that prepares a program with that many work-groups, and on OpenGL submits it. See ``BaseBarrier._run``."""


@dataclass(frozen=True)
class BarrierTest:
    """A compiled test of the barrier: its text, the function that dispatches it, and one that reads how often a group
    did not see what another one had written.
    """

    text: str
    dispatch: Dispatch
    stale_reads: Callable[[], int]


class Barrier(Protocol):
    """The part of a barrier that BaseDevice uses when it chooses between one dispatch and separate ones."""

    def why_unusable(self, store: BinaryStore | None) -> str:
        """The reason why the barrier cannot be used on this device, or ""."""
        ...


class BaseBarrier(ABC):
    """A barrier that is tested on the device before it is used. All that runs in one context shares it.

    ``units`` is the number of compute units. ``per_unit`` are the numbers of groups per unit to try, largest first.
    """

    def __init__(self, context: BaseContext, units: int, per_unit: Sequence[int]) -> None:
        self._name = str(context)
        self.units, self.per_unit = units, per_unit
        self.max_spins = MAX_SPINS
        self.watch = BarrierWatch(self._name, self._take_flag, software=context.software)
        self._why_unusable: str | None = None

    @abstractmethod
    def _build_test(self, most: int, store: BinaryStore | None) -> BarrierTest:
        """Compile the test for ``most`` groups at most. Raises KernelError if that fails."""

    @abstractmethod
    def _run(self, dispatch: Dispatch, groups: int) -> None:
        """Dispatch so many groups and wait for them. Raises DeviceError if the device does not take so many."""

    @abstractmethod
    def _failed(self) -> bool:
        """Read the flag of the state."""

    @abstractmethod
    def _reset(self) -> None:
        """Set the state to zeros."""

    def why_unusable(self, store: BinaryStore | None) -> str:
        """Give the reason why the barrier cannot be used, or "". The test runs once, for a bounded time."""
        if self._why_unusable is None:
            self._why_unusable = self._test(store)
        return self._why_unusable

    def _test(self, store: BinaryStore | None) -> str:
        """Run the test, and give the reason why the barrier fails, or "".

        Every group writes a number, waits, and must then read its neighbour's, which it read in the round before.
        """
        most = self.units * self.per_unit[0]
        try:
            test = self._build_test(most, store)
        except KernelError as error:
            return f"the barrier does not compile: {error}"
        groups = self.resident_groups(test.dispatch, most, test.text, store)
        if groups == 0:
            return "its work-groups do not wait for one another"
        stale_reads = test.stale_reads()
        log.debug(f"{self._name}: {groups} groups wait for one another")
        return f"{stale_reads} times what one group wrote was not seen by another" if stale_reads else ""

    def resident_groups(self, dispatch: Dispatch, most: int, text: str, store: BinaryStore | None) -> int:
        """The largest number of groups, up to ``most``, with which ``dispatch(groups)`` passes its barriers; 0: none.

        ``text`` is the text of the program. The store keeps the number by it, and the next process tries that number
        first.
        """
        for groups in groups_to_try(self.units, self.per_unit, most, text, store):
            try:
                self._run(dispatch, groups)
            except DeviceError as error:
                log.debug(f"{groups} groups: {error}")
                return 0
            if not self._take_flag():
                keep_groups(groups, most, text, store)
                return groups
        return 0

    def _take_flag(self) -> bool:
        """Read the flag that says that a group gave up. If it is set, reset the state."""
        failed = self._failed()
        if failed:
            self._reset()
        return failed


def groups_to_try(units: int, per_unit: Sequence[int], most: int, program: str, store: BinaryStore | None) -> list[int]:
    """The numbers of groups to try with a program, none above ``most``: first the number that an earlier process found,
    then the others, largest first.
    """
    numbers = sorted({min(units * count, most) for count in per_unit}, reverse=True)
    known = store.known_number(_groups_of(program, most)) if store is not None else None
    return sorted(numbers, key=lambda number: number != known)


def keep_groups(groups: int, most: int, program: str, store: BinaryStore | None) -> None:
    """Store the number of groups of a program that were resident at once, for later processes."""
    if store is not None:
        store.keep_number(_groups_of(program, most), groups)


def _groups_of(program: str, most: int) -> str:
    return f"groups, {most} at most, of {program}"
