"""Workers of this machine: processes that are fed with units, replaced when they die, and ended together."""

from __future__ import annotations

import contextlib
import multiprocessing
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path

from ..results.outputs import UNFINISHED
from ..work import Work
from .division import PART_SECONDS
from .schedule import Schedule, by_turns
from .units import Divided, Event, Finished, Report, Unit
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

    def dismiss(self, *, now: bool) -> None:
        """Let the process end, without waiting for it: in the middle if ``now``, else when its units are done."""
        if now:
            self._process.kill()
        else:
            with contextlib.suppress(OSError):
                self.connection.send(None)

    def end(self) -> str:
        """Wait until the process has ended, which was dismissed or has died. Returns how it ended, in words."""
        self._process.join(_SECONDS_TO_END)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        self.connection.close()
        for folder in {Path(tempfile.gettempdir()), *(unit.place.parent for unit in self.units)}:
            for unfinished in folder.glob(f"{UNFINISHED}{self._process.pid}-*"):
                shutil.rmtree(unfinished, ignore_errors=True)
        code = self._process.exitcode or 0
        return f"its worker was ended by signal {-code}" if code < 0 else f"its worker ended with status {code}"


def run_pool(work: Work, units: Sequence[Unit], report: Report, *, seats: Sequence[Seat]) -> None:
    """Process units in one process per seat, and report what happens to each. Returns when all are finished.

    A unit whose worker dies is done again by a new one, alone in its process. An exception, such as Ctrl-C, ends all
    workers; what they had not finished leaves nothing.
    """
    schedule, workers = Schedule([replace(unit, part_seconds=PART_SECONDS) for unit in units], report), list[_Worker]()
    seats = [replace(seat) for seat in seats]  # equal ones are different places
    try:
        while schedule.waiting or any(worker.units for worker in workers):
            free = [seat for seat in seats if all(worker.seat is not seat for worker in workers)]
            workers += [_Worker(work, seat) for seat in free[: schedule.waiting]]
            for worker in by_turns(workers, most=max(seat.sessions for seat in seats)):
                if (unit := schedule.take(worker.units, worker.seat.sessions)) is not None:
                    worker.give(unit)
            ready = wait([worker.connection for worker in workers])
            for worker in [each for each in workers if each.connection in ready]:
                event = _receive(worker)
                if event is not None:
                    schedule.happened(event)
                    continue
                workers.remove(worker)
                worker.dismiss(now=True)
                schedule.lose(worker.units, worker.end())
    finally:
        for worker in workers:  # all at once: each takes a while to leave its GPU
            worker.dismiss(now=bool(worker.units or schedule.waiting))
        for worker in workers:
            worker.end()
        schedule.clean()


def _receive(worker: _Worker) -> Event | None:
    """The next event of a worker; None if it has died."""
    try:
        event: Event = worker.connection.recv()
    except (EOFError, OSError):
        return None
    if isinstance(event, Finished | Divided):
        worker.units.remove(event.unit)
    return event
