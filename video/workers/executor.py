"""Interface between the schedule and workers of any kind, and the loop that feeds workers until all units are done."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol, TypeVar

from .schedule import Schedule, by_turns
from .units import Event, Report, Unit
from .worker import Seat


class Worker(Protocol):
    """A process, an actor, or a session here. It reports what happens to its units."""

    seat: Seat
    units: list[Unit]
    """The units that it was given and has not finished. It removes each before it reports the end of it."""

    def give(self, unit: Unit) -> None:
        """Let it process a unit, without waiting. A worker that has died takes the unit, too: ``wait`` returns it."""
        ...

    def dismiss(self, *, now: bool) -> None:
        """Let it end, without waiting for it: in the middle if ``now``, else when its units are done."""
        ...

    def end(self) -> str:
        """Wait until it has ended, which was dismissed or has died. Returns how it ended, in words."""
        ...


AnyWorker = TypeVar("AnyWorker", bound=Worker)


class Executor(Protocol[AnyWorker]):
    """Workers of one kind: it starts them and waits for them."""

    @property
    def seats(self) -> Sequence[Seat]:
        """The places for workers. Each has one at most, and gets another one if that dies."""
        ...

    def start(self, seat: Seat, report: Report) -> AnyWorker:
        """Start a worker, which calls ``report`` for each event of its units, on any thread, one at a time."""
        ...

    def wait(self, workers: Sequence[AnyWorker]) -> Sequence[AnyWorker]:
        """Wait until workers, of which one at least has a unit, have reported something. Returns those that died."""
        ...


def run(executor: Executor[AnyWorker], units: Sequence[Unit], report: Report) -> None:
    """Process units by the workers of an executor, and report what happens to each. Returns when all are finished.

    A unit whose worker dies is done again by a new one, alone. An exception, such as Ctrl-C, ends all workers; what
    they had not finished leaves nothing.
    """
    schedule, lock = Schedule(units, report), threading.RLock()
    free, workers = list(executor.seats), list[AnyWorker]()
    most = max(seat.sessions for seat in free)

    def happened(event: Event) -> None:
        with lock:
            schedule.happened(event)

    try:
        while schedule.waiting or any(worker.units for worker in workers):
            while free and schedule.waiting > sum(not worker.units for worker in workers):
                workers.append(executor.start(free[0], happened))
                del free[0]
            with lock:
                for worker in by_turns(workers, most=most):
                    if (unit := schedule.take(worker.units, worker.seat.sessions)) is not None:
                        worker.give(unit)
            for worker in executor.wait(workers):
                workers.remove(worker)
                free.insert(0, worker.seat)
                worker.dismiss(now=True)
                why = worker.end()
                with lock:
                    schedule.lose(worker.units, why)
    finally:
        for worker in workers:  # all at once: each takes a while to leave its GPU
            worker.dismiss(now=bool(worker.units or schedule.waiting))
        for worker in workers:
            worker.end()
        schedule.clean()
