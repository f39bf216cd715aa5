"""Workers of this machine: processes that are fed with jobs, replaced when they die, and ended together."""

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
from .executor import run
from .jobs import Divided, Event, Finished, Job, Report
from .worker import Slot, serve

_SECONDS_TO_END = 10.0


class _Worker:
    """A process, our end of its connection, and the jobs that it has."""

    def __init__(self, work: Work, slot: Slot, report: Report) -> None:
        # Never forked: GPU drivers do not survive that.
        context = multiprocessing.get_context("spawn")
        self.slot, self.jobs, self._report = slot, list[Job](), report
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, work, slot), daemon=True)
        self._process.start()
        theirs.close()  # so that the end of the process is the end of the connection

    def give(self, job: Job) -> None:
        self.jobs.append(job)
        with contextlib.suppress(OSError):  # a worker that has died: its connection says so next
            self.connection.send(job)

    def receive(self) -> bool:
        """Report the next event. Returns False if the process has died."""
        try:
            event: Event = self.connection.recv()
        except (EOFError, OSError):
            return False
        if isinstance(event, Finished | Divided):
            self.jobs.remove(event.job)
        self._report(event)
        return True

    def dismiss(self, *, now: bool) -> None:
        if now:
            self._process.kill()
        else:
            with contextlib.suppress(OSError):
                self.connection.send(None)

    def end(self) -> str:
        self._process.join(_SECONDS_TO_END)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        self.connection.close()
        for folder in {Path(tempfile.gettempdir()), *(job.place.parent for job in self.jobs)}:
            for unfinished in folder.glob(f"{UNFINISHED}{self._process.pid}-*"):
                shutil.rmtree(unfinished, ignore_errors=True)
        code = self._process.exitcode or 0
        return f"its worker was ended by signal {-code}" if code < 0 else f"its worker ended with status {code}"


class _Processes:
    """Processes of this machine. Implements Executor."""

    def __init__(self, work: Work, slots: Sequence[Slot]) -> None:
        self._work, self.slots = work, slots

    def start(self, slot: Slot, report: Report) -> _Worker:
        return _Worker(self._work, slot, report)

    def wait(self, workers: Sequence[_Worker]) -> Sequence[_Worker]:
        ready = wait([worker.connection for worker in workers])
        return [worker for worker in workers if worker.connection in ready and not worker.receive()]


def run_in_processes(work: Work, jobs: Sequence[Job], report: Report, *, slots: Sequence[Slot]) -> None:
    """Process jobs in one process per slot, as ``run`` says. Long videos are divided."""
    run(_Processes(work, slots), [replace(job, part_seconds=PART_SECONDS) for job in jobs], report)
