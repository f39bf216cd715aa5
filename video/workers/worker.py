"""A worker: a process that puts one job after the other through its sessions, until its parent wants no more."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import framebind as fb

from ..copies import SAVED_COPIES, copied_for, copied_planes
from ..session.session import Session
from ..work import Work
from .division import divide, expected_frames, join, work_on
from .jobs import Divided, Event, Finished, Job, Progress, Report
from .local_files import copied, put_outputs

SESSIONS_PER_GPU = 8
"""Videos at once per GPU: an H100 has seven engines that decode, and one session keeps one busy. With 12, ``detect``
runs 15% more frames/s once all sessions have work, but two processes more have to start (see below)."""
Result = TypeVar("Result")
LEAST_PROCESSES, SESSIONS_PER_PROCESS = 4, 2
"""Processes that share the sessions of a GPU, and the sessions of each if these are more than 8: threads of one process
wait for Python's lock. ``detect`` ran 4,139 frames/s with 8 sessions in four processes and 1,965 in two; with 12 it
ran 4,778 in six and 4,231 in four (H200, 2026-11-23: ``benchmarks/video/gpus.py --one-gpu --frames 900 detect``, with
``--processes 2``, and with ``--units 36 --sessions 12 --processes 4,6``)."""
_SECONDS_BETWEEN_REPORTS = 0.2


@dataclass(frozen=True)
class Slot:
    """The place of a worker: the GPU that it uses, and how many videos it does at once."""

    sessions: int = 1
    egl: int | None = None
    """The EGL number of the GPU; None for the first one that works."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables that are set before any driver is loaded, such as CUDA_VISIBLE_DEVICES."""


def shares_of(sessions: int, processes: int | None = None) -> list[int]:
    """The sessions of each process, if so many share those of a GPU; none has no session."""
    processes = min(processes or max(LEAST_PROCESSES, math.ceil(sessions / SESSIONS_PER_PROCESS)), sessions)
    return [sessions // processes + (number < sessions % processes) for number in range(processes)]


def serve(connection: Connection, work: Work, slot: Slot) -> None:
    """Process the jobs that come, as many at once as the slot says. Returns when None comes.

    The process ends at once, without cleaning up, when its parent has died.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal: the parent ends them
    os.environ.update(slot.environment)
    jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
    sending = threading.Lock()
    figures = _Figures()

    def report(event: Event) -> None:
        with sending:
            if isinstance(event, Finished) and "error" not in event.result:
                event.result.update(figures.since_last())
            connection.send(event)

    threads = [
        threading.Thread(target=_work_off, args=(jobs.get, work, slot.egl, report), daemon=True)
        for _ in range(slot.sessions)
    ]
    for thread in threads:
        thread.start()
    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):
            os._exit(1)
        if job is None:
            break
        jobs.put(job)
    for _ in threads:
        jobs.put(None)
    for thread in threads:
        thread.join()


def _work_off(take: Callable[[], Job | None], work: Work, egl: int | None, report: Report) -> None:
    """Put jobs through one session until there is none. If it cannot be opened, that is the result of each job."""
    try:
        with Session(work, egl=egl) as session:
            work_through(session, iter(take, None), report)
    except fb.FramebindError as error:
        while (job := take()) is not None:
            report(Finished(job, describe(error)))


class _Figures:
    """CPU time and copied bytes of the process, which its sessions share: a video counts what came since the last."""

    def __init__(self) -> None:
        self._cpu, self._bytes = time.process_time(), 0

    def since_last(self) -> dict[str, Any]:
        cpu, copied = time.process_time(), sum(map(copied_for, SAVED_COPIES)) + copied_planes()
        found = {"cpu_seconds": round(cpu - self._cpu, 3), "bytes": copied - self._bytes}
        self._cpu, self._bytes = cpu, copied
        return found


def work_through(session: Session, jobs: Iterable[Job], report: Report) -> None:
    """Put jobs through a session, each as soon as the one before is drawn."""
    with Overlap(session, report) as overlap:
        for job in jobs:
            overlap.process(job)
        overlap.finish()


class Overlap:
    """A session whose videos overlap: the files of one are completed while the next is drawn. One waits at most.

    Calls ``report`` on its own thread, too, but never twice at once.
    """

    def __init__(self, session: Session, report: Report) -> None:
        self._session, self._report, self._lock = session, report, threading.Lock()
        self._completing = ThreadPoolExecutor(1, "framebind completes")
        self._last: Future[None] | None = None

    def process(self, job: Job) -> None:
        """Draw a job, and let its files be completed when those of the last one are."""
        finish = begin(self._session, job, self._report_alone)
        self.finish()
        self._last = self._completing.submit(lambda: self._report_alone(finish()))

    def finish(self) -> None:
        """Wait until the files of the last job are complete. Raises what its report raised."""
        if self._last is not None:
            last, self._last = self._last, None
            last.result()

    def _report_alone(self, event: Event) -> None:
        with self._lock:
            self._report(event)

    def __enter__(self) -> Overlap:
        return self

    def __exit__(self, *exception: object) -> None:
        self._completing.shutdown()


def process(session: Session, job: Job, report: Report) -> Finished | Divided:
    """Process a job, or divide it, and report its progress a few times per second. An error is the result."""
    return begin(session, job, report)()


def begin(session: Session, job: Job, report: Report) -> Callable[[], Finished | Divided]:
    """Draw the frames of a job, as ``process`` does. The returned function does the rest, on any thread."""
    report(Progress(job, 0.0))
    begun = _attempt(job, lambda: _begin(session, job, report))
    if isinstance(begun, Finished):
        return lambda: begun
    return lambda: _attempt(job, begun)


def _attempt(job: Job, work: Callable[[], Result]) -> Result | Finished:
    """The result of some work on a job, or its error as one."""
    try:
        return work()
    except (fb.FramebindError, OSError) as error:
        return Finished(job, describe(error))
    except Exception as error:  # a fault of ours: the other videos go on, and the trace tells where
        traceback.print_exc()
        return Finished(job, describe(error))


def _begin(session: Session, job: Job, report: Report) -> Callable[[], Finished | Divided]:
    if parts := divide(job, session.work):
        return lambda: Divided(job, parts)
    if job.parts:
        return lambda: Finished(job, join(job, session.work))
    work = work_on(job, session.work)
    with contextlib.ExitStack() as stack:
        source, place, work = stack.enter_context(copied(job, work))
        finish = session.begin(source, place, _progress(job, source, work, report), work)
        files = stack.pop_all()

    def finished() -> Finished:
        with files:
            result = finish()
            result["outputs"] = put_outputs(job, work, place) or result["outputs"]
        if job.part is not None:
            result["expected_frames"] = expected_frames(job.part, work)
        return Finished(job, result)

    return finished


def describe(error: Exception) -> dict[str, Any]:
    """The result of a job that failed."""
    return {"error": f"{type(error).__name__}: {fb.video.masked_address(str(error))}"}


def _progress(job: Job, source: Path, work: Work, report: Report) -> Callable[[float], None]:
    """The function that takes the seconds of each frame, and reports a share a few times per second."""
    reported, end = time.monotonic(), work.end
    with contextlib.suppress(fb.SourceError):  # without PyAV there is no share; what is broken is said by the session
        end = end or fb.video.video_seconds(source)

    def advance(seconds: float) -> None:
        nonlocal reported
        if end and time.monotonic() - reported > _SECONDS_BETWEEN_REPORTS:
            reported = time.monotonic()
            report(Progress(job, min(1.0, (seconds - work.start) / (end - work.start))))

    return advance
