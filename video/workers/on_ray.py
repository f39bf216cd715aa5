"""Workers of a Ray cluster: actors that are fed with jobs, and replaced when they die. Paths travel, frames never."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import framebind as fb

from ..apis import first_gpu_of_gl
from ..models import BUNDLED, find_model
from ..results.outputs import UNFINISHED
from ..session.session import Session
from ..work import Work
from .division import PART_SECONDS
from .executor import run
from .jobs import Divided, Event, Finished, Job, Lost, Progress, Report
from .worker import SESSIONS_PER_GPU, Slot, describe, process, shares_of

LOCAL = "local"
"""The address that starts a cluster of this machine."""
_PATIENCE = 5.0
"""Seconds in which a machine takes a connection."""


def run_on_ray(work: Work, jobs: Sequence[Job], report: Report, *, address: str, sessions: int | None) -> None:
    """Process jobs on a Ray cluster, by a few actors per GPU, or one per CPU if it has none, until all are finished.

    All machines see the paths of videos and results. ``sessions`` are the videos at once of a GPU, or the
    number of actors on CPUs; None for as many as pay. A job whose actor dies is done again by another one, alone.
    Raises DeviceError if Ray is missing or its cluster does not answer.
    """
    ray = _load_ray()
    lost: list[Job] = []

    def note(event: Event) -> None:
        lost.extend([event.job] if isinstance(event, Lost) else [])
        report(event)

    with _connection(ray, address):
        try:
            run(_Cluster(ray, _with_files(work), sessions), [_anywhere(job) for job in jobs], note)
        finally:
            for folder in {job.place.parent for job in lost if not job.upload}:
                for unfinished in folder.glob(f"{UNFINISHED}*"):
                    shutil.rmtree(unfinished, ignore_errors=True)


class _Actor:
    """An actor, its slot, and its jobs by the reference of their results. Ray does not restart it."""

    def __init__(self, ray: Any, handle: Any, slot: Slot, report: Report) -> None:
        self.slot, self.jobs, self._report = slot, list[Job](), report
        self._ray, self._handle, self._end = ray, handle, "its actor was killed"
        self._waiting: dict[Any, Job] = {}

    def give(self, job: Job) -> None:
        self.jobs.append(job)
        self._waiting[self._handle.process.remote(job)] = job
        self._report(Progress(job, 0.0))

    @property
    def references(self) -> Iterable[Any]:
        """Ray's references of the results that are not there yet."""
        return self._waiting

    def receive(self, reference: Any) -> bool:
        """Report a result that is there. Returns False if it says that the actor has died."""
        try:
            event: Finished | Divided = self._ray.get(reference)
        except self._ray.exceptions.RayActorError as error:
            self._end = f"its actor died ({str(error).splitlines()[0]})"
            return False
        self.jobs.remove(self._waiting.pop(reference))
        self._report(event)
        return True

    def dismiss(self, *, now: bool) -> None:
        self._ray.kill(self._handle)

    def end(self) -> str:
        return self._end


class _Cluster:
    """Actors of a Ray cluster, a few per GPU, which share it. Implements Executor."""

    def __init__(self, ray: Any, work: Work, sessions: int | None) -> None:
        self._ray, self._work = ray, work
        resources = ray.cluster_resources()
        gpus, cpus = int(resources.get("GPU", 0)), int(resources.get("CPU", 1))
        if gpus:
            shares = shares_of(sessions or SESSIONS_PER_GPU)
            self._gpus, self.slots = 1 / len(shares), [Slot(share) for share in shares for _ in range(gpus)]
        else:
            self._gpus, self.slots = 0, [Slot()] * min(sessions or cpus, cpus)

    def start(self, slot: Slot, report: Report) -> _Actor:
        options = {"num_cpus": 1, "num_gpus": self._gpus, "max_restarts": 0, "max_concurrency": slot.sessions}
        actor = self._ray.remote(**options)(_Worker).remote(self._work, slot.sessions)
        return _Actor(self._ray, actor, slot, report)

    def wait(self, workers: Sequence[_Actor]) -> Sequence[_Actor]:
        ready, _ = self._ray.wait([reference for worker in workers for reference in worker.references])
        (worker,) = [each for each in workers if ready[0] in each.references]
        return () if worker.receive(ready[0]) else (worker,)


class _Worker:
    """The actor: threads with a session each. Ray shows it its own GPU alone, by CUDA_VISIBLE_DEVICES."""

    def __init__(self, work: Work, sessions: int) -> None:
        self._work, self._thread = work, threading.local()
        self._egl = first_gpu_of_gl()
        # Threads of our own: Ray's do not keep what a thread has, such as its GL context.
        self._threads = ThreadPoolExecutor(sessions)

    def process(self, job: Job) -> Finished | Divided:
        return self._threads.submit(self._process, job).result()

    def _process(self, job: Job) -> Finished | Divided:
        try:
            if not hasattr(self._thread, "session"):
                self._thread.session = Session(self._work, egl=self._egl).__enter__()
        except fb.FramebindError as error:
            return Finished(job, describe(error))
        return process(self._thread.session, job, lambda event: None)


def _anywhere(job: Job) -> Job:
    """The job with paths that do not depend on a process's folder."""
    source = job.source if isinstance(job.source, str) else job.source.resolve()
    place = job.place if job.upload else job.place.resolve()
    return replace(job, source=source, place=place, part_seconds=PART_SECONDS)


def _with_files(work: Work) -> Work:
    """The work with paths that do not depend on a process's folder. A model of the package keeps its name."""
    name = work.model_name
    model = name if name in BUNDLED else str(find_model(name).resolve())
    return replace(work, model=model, labels=work.labels and work.labels.resolve())


def _load_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise fb.DeviceError(f"--ray needs Ray, which cannot be imported ({error}): pip install '.[ray]'") from error


def _check_answers(address: str) -> None:
    """Raise DeviceError if nothing listens at HOST:PORT or ray://HOST:PORT: Ray itself takes minutes to say so."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
        except (OSError, OverflowError) as error:
            raise fb.DeviceError(f"no Ray cluster answers at '{address}': {error}") from error


@contextlib.contextmanager
def _connection(ray: Any, address: str) -> Iterator[None]:
    """A connection to the cluster at an address, unless this process has one. "local" is one of this machine."""
    if ray.is_initialized():
        yield
        return
    _check_answers(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to others that nobody asked for
    local = {"include_dashboard": False} if address == LOCAL else {}
    try:
        ray.init(address=address, logging_level="warning", **local)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise fb.DeviceError(f"no Ray cluster answers at '{address}': {error}") from error
    try:
        yield
    finally:
        ray.shutdown()
