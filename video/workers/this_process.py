"""The worker in this process: one session, which draws a video while the files of the one before are completed."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence

from ..session.session import Session
from ..work import Work
from .executor import run
from .jobs import Divided, Event, Finished, Job, Report
from .worker import Overlap, Slot

_SLOT = Slot(sessions=2)
"""One video is drawn while the files of another one are completed."""


def run_here(work: Work, jobs: Sequence[Job], report: Report) -> None:
    """Process jobs in this process, one after the other."""
    run(_Here(work), jobs, report)


class _Worker:
    """The session and the jobs that wait for it. ``proceed`` takes the next one."""

    def __init__(self, work: Work, report: Report) -> None:
        self.slot, self.jobs = _SLOT, list[Job]()
        self._waiting, self._report = deque[Job](), report
        with contextlib.ExitStack() as stack:
            session = stack.enter_context(Session(work))
            self._overlap = stack.enter_context(Overlap(session, self._happened))
            self._stack = stack.pop_all()

    def _happened(self, event: Event) -> None:
        if isinstance(event, Finished | Divided):
            self.jobs.remove(event.job)
        self._report(event)

    def give(self, job: Job) -> None:
        self.jobs.append(job)
        self._waiting.append(job)

    def proceed(self) -> None:
        """Draw the next job, or wait for the files of the last one."""
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
    """The worker in this process, with one session. Implements Executor."""

    slots = (_SLOT,)

    def __init__(self, work: Work) -> None:
        self._work = work

    def start(self, slot: Slot, report: Report) -> _Worker:
        return _Worker(self._work, report)

    def wait(self, workers: Sequence[_Worker]) -> Sequence[_Worker]:
        for worker in workers:
            worker.proceed()
        return ()
