"""Interface between the queue and workers of any kind, and the loop that feeds workers until all jobs are done."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol, TypeVar

from .job_queue import JobQueue, by_turns
from .jobs import Event, Job, Report
from .worker import Slot


class Worker(Protocol):
    """A process, an actor, or a session here. It reports what happens to its jobs."""

    slot: Slot
    jobs: list[Job]
    """The jobs that it was given and has not finished. It removes each before it reports the end of it."""

    def give(self, job: Job) -> None:
        """Let it process a job, without waiting. A worker that has died takes the job, too: ``wait`` returns it."""
        ...

    def dismiss(self, *, now: bool) -> None:
        """Let it end, without waiting for it: in the middle if ``now``, else when its jobs are done."""
        ...

    def end(self) -> str:
        """Wait until it has ended, which was dismissed or has died. Returns how it ended, in words."""
        ...


AnyWorker = TypeVar("AnyWorker", bound=Worker)


class Executor(Protocol[AnyWorker]):
    """Workers of one kind: it starts them and waits for them."""

    @property
    def slots(self) -> Sequence[Slot]:
        """The places for workers. Each has one at most, and gets another one if that dies."""
        ...

    def start(self, slot: Slot, report: Report) -> AnyWorker:
        """Start a worker, which calls ``report`` for each event of its jobs, on any thread, one at a time."""
        ...

    def wait(self, workers: Sequence[AnyWorker]) -> Sequence[AnyWorker]:
        """Wait until workers, of which one at least has a job, have reported something. Returns those that died."""
        ...


def run(executor: Executor[AnyWorker], jobs: Sequence[Job], report: Report) -> None:
    """Process jobs by the workers of an executor, and report what happens to each. Returns when all are finished.

    A job whose worker dies is done again by a new one, alone. An exception, such as Ctrl-C, ends all workers; what
    they had not finished leaves nothing.
    """
    queue, lock = JobQueue(jobs, report), threading.RLock()
    free, workers = list(executor.slots), list[AnyWorker]()
    most = max(slot.sessions for slot in free)

    def happened(event: Event) -> None:
        with lock:
            queue.happened(event)

    try:
        while queue.waiting or any(worker.jobs for worker in workers):
            while free and queue.waiting > sum(not worker.jobs for worker in workers):
                workers.append(executor.start(free[0], happened))
                del free[0]
            with lock:
                for worker in by_turns(workers, most=most):
                    if (job := queue.take(worker.jobs, worker.slot.sessions)) is not None:
                        worker.give(job)
            for worker in executor.wait(workers):
                workers.remove(worker)
                free.insert(0, worker.slot)
                worker.dismiss(now=True)
                why = worker.end()
                with lock:
                    queue.lose(worker.jobs, why)
    finally:
        for worker in workers:  # all at once: each takes a while to leave its GPU
            worker.dismiss(now=bool(worker.jobs or queue.waiting))
        for worker in workers:
            worker.end()
        queue.clean()
