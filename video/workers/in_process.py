"""The worker in this process: one session, which draws a video while the files of the one before are completed."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence

from ..session.session import Session
from ..work import Work
from .executor import run
from .units import Divided, Event, Finished, Report, Unit
from .worker import Overlap, Seat

_SEAT = Seat(sessions=2)
"""One video is drawn while the files of another one are completed."""


def run_here(work: Work, units: Sequence[Unit], report: Report) -> None:
    """Process units in this process, one after the other."""
    run(_Here(work), units, report)


class _Worker:
    """The session and the units that wait for it. ``proceed`` takes the next one."""

    def __init__(self, work: Work, report: Report) -> None:
        self.seat, self.units = _SEAT, list[Unit]()
        self._waiting, self._report = deque[Unit](), report
        with contextlib.ExitStack() as stack:
            session = stack.enter_context(Session(work))
            self._overlap = stack.enter_context(Overlap(session, self._happened))
            self._stack = stack.pop_all()

    def _happened(self, event: Event) -> None:
        if isinstance(event, Finished | Divided):
            self.units.remove(event.unit)
        self._report(event)

    def give(self, unit: Unit) -> None:
        self.units.append(unit)
        self._waiting.append(unit)

    def proceed(self) -> None:
        """Draw the next unit, or wait for the files of the last one."""
        if self._waiting:
            self._overlap.process(self._waiting.popleft())
        else:
            self._overlap.finish()

    def dismiss(self, *, now: bool) -> None:
        pass  # nothing runs that could end earlier

    def end(self) -> str:
        self._stack.close()
        return "its session was closed"


class _Here:
    """This process with one session. Implements Executor."""

    seats = (_SEAT,)

    def __init__(self, work: Work) -> None:
        self._work = work

    def start(self, seat: Seat, report: Report) -> _Worker:
        return _Worker(self._work, report)

    def wait(self, workers: Sequence[_Worker]) -> Sequence[_Worker]:
        for worker in workers:
            worker.proceed()
        return ()
