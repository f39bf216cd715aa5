"""Workers of this machine: processes that are fed with units, replaced when they die, and ended together."""

from __future__ import annotations

import contextlib
import multiprocessing
import shutil
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import wait

from ..processing.session import UNFINISHED
from ..processing.work import Work
from .units import MAX_ATTEMPTS, Event, Finished, Lost, Report, Unit, given_up
from .worker import Seat, serve

_SECONDS_TO_END = 10.0


class _Worker:
    """A process, our end of its connection, and the units that it has."""

    def __init__(self, work: Work, seat: Seat) -> None:
        # Never forked: GPU drivers do not survive that.
        context = multiprocessing.get_context("spawn")
        self.seat, self.units = seat, list[Unit]()
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, work, seat), daemon=True)
        self._process.start()
        theirs.close()  # so that the end of the process is the end of the connection

    def give(self, unit: Unit) -> None:
        self.units.append(unit)
        with contextlib.suppress(OSError):  # a worker that has died: its connection says so next
            self.connection.send(unit)

    def end(self, *, now: bool) -> str:
        """Wait until the process has ended. ``now`` ends it in the middle. Returns how it ended, in words."""
        if now:
            self._process.kill()
        else:
            with contextlib.suppress(OSError):
                self.connection.send(None)
        self._process.join(_SECONDS_TO_END)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        self.connection.close()
        for unit in self.units:
            for folder in unit.place.parent.glob(f"{UNFINISHED}{self._process.pid}-*"):
                shutil.rmtree(folder, ignore_errors=True)
        code = self._process.exitcode or 0
        return f"its worker was ended by signal {-code}" if code < 0 else f"its worker ended with status {code}"


def run_pool(work: Work, units: Sequence[Unit], seats: Sequence[Seat], report: Report) -> None:
    """Process units in one process per seat, and report what happens to each. Returns when all are finished.

    A unit whose worker dies is done again by a new one, alone in its process. An exception, such as Ctrl-C, ends all
    workers; what they had not finished leaves nothing.
    """
    # Seats on the same place are equal: each gets an identity.
    places = [replace(seat) for seat in seats]
    waiting, lost = deque(units), Counter[Unit]()
    workers: list[_Worker] = []
    try:
        while waiting or any(worker.units for worker in workers):
            if waiting:
                free = [seat for seat in places if all(worker.seat is not seat for worker in workers)]
                workers += [_Worker(work, seat) for seat in free[: len(waiting)]]
            for worker in workers:
                while waiting and _may_take(worker, waiting[0], lost):
                    worker.give(waiting.popleft())
            ready = wait([worker.connection for worker in workers])
            for worker in [each for each in workers if each.connection in ready]:
                event = _receive(worker)
                if event is not None:
                    report(event)
                    continue
                why = worker.end(now=True)
                workers.remove(worker)
                for unit in worker.units:
                    lost[unit] += 1
                    if lost[unit] < MAX_ATTEMPTS:
                        waiting.appendleft(unit)
                        report(Lost(unit))
                    else:
                        report(given_up(unit, why))
    finally:
        for worker in workers:
            worker.end(now=bool(worker.units or waiting))


def _may_take(worker: _Worker, unit: Unit, lost: Counter[Unit]) -> bool:
    """Whether the worker has room. A unit that was lost gets a process for itself: it may be what ended the other."""
    alone = any(lost[each] for each in (unit, *worker.units))
    return len(worker.units) < (1 if alone else worker.seat.sessions)


def _receive(worker: _Worker) -> Event | None:
    """The next event of a worker; None if it has died."""
    try:
        event: Event = worker.connection.recv()
    except (EOFError, OSError):
        return None
    if isinstance(event, Finished):
        worker.units.remove(event.unit)
    return event
