"""Workers of a Ray cluster: actors that are fed with units, and replaced when they die. Paths travel, frames never."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import framebind as fb

from ..apis import first_gpu_of_gl
from ..models import BUNDLED, find_model
from ..results.outputs import UNFINISHED
from ..session.session import Session
from ..work import Work
from .division import PART_SECONDS
from .schedule import Schedule, by_turns
from .units import Divided, Event, Finished, Lost, Progress, Report, Unit
from .worker import SESSIONS_PER_GPU, describe, process, shares_of

LOCAL = "local"
"""The address that starts a cluster of this machine."""


def run_on_ray(work: Work, units: Sequence[Unit], report: Report, *, address: str, sessions: int | None) -> None:
    """Process units on a Ray cluster, by a few actors per GPU, or one per CPU if it has none, until all are finished.

    All machines see the paths of videos and results. ``sessions`` are the videos at once of a GPU, or the
    number of actors on CPUs; None for as many as pay. A unit whose actor dies is done again by another one, alone.
    Raises DeviceError if Ray is missing or its cluster does not answer.
    """
    ray = _load_ray()
    lost: list[Unit] = []

    def note(event: Event) -> None:
        lost.extend([event.unit] if isinstance(event, Lost) else [])
        report(event)

    with _cluster(ray, address):
        schedule = Schedule([_anywhere(unit) for unit in units], note)
        try:
            _run(ray, _with_files(work), schedule, _places(ray, sessions))
        finally:
            schedule.clean()
            for folder in {unit.place.parent for unit in lost if not unit.upload}:
                for unfinished in folder.glob(f"{UNFINISHED}*"):
                    shutil.rmtree(unfinished, ignore_errors=True)


@dataclass(frozen=True, eq=False)
class _Place:
    """A place for an actor: a part of a GPU, or a CPU."""

    gpus: float
    sessions: int


@dataclass
class _Actor:
    """An actor, its place, and its units by the reference of their results."""

    handle: Any
    place: _Place
    units: dict[Any, Unit] = field(default_factory=dict[Any, Unit])


def _run(ray: Any, work: Work, schedule: Schedule, places: Sequence[_Place]) -> None:
    actors: list[_Actor] = []
    try:
        while schedule.waiting or any(actor.units for actor in actors):
            free = [place for place in places if place not in [actor.place for actor in actors]]
            actors += [_start(ray, work, place) for place in free[: schedule.waiting]]
            for actor in by_turns(actors, most=max(place.sessions for place in places)):
                if (unit := schedule.take(list(actor.units.values()), actor.place.sessions)) is not None:
                    actor.units[actor.handle.process.remote(unit)] = unit
                    schedule.happened(Progress(unit, 0.0))
            ready, _ = ray.wait([reference for actor in actors for reference in actor.units])
            (actor,) = [each for each in actors if ready[0] in each.units]
            try:
                event: Finished | Divided = ray.get(ready[0])
                del actor.units[ready[0]]
                schedule.happened(event)
            except ray.exceptions.RayActorError as error:
                actors.remove(actor)
                schedule.lose(list(actor.units.values()), f"its actor died ({str(error).splitlines()[0]})")
    finally:
        for actor in actors:
            ray.kill(actor.handle)


def _start(ray: Any, work: Work, place: _Place) -> _Actor:
    """An actor, which Ray does not restart: the schedule does its units again."""
    options = {"num_cpus": 1, "num_gpus": place.gpus, "max_restarts": 0, "max_concurrency": place.sessions}
    return _Actor(ray.remote(**options)(_Worker).remote(work, place.sessions), place)


class _Worker:
    """The actor: threads with a session each. Ray shows it its own GPU alone, by CUDA_VISIBLE_DEVICES."""

    def __init__(self, work: Work, sessions: int) -> None:
        self._work, self._thread = work, threading.local()
        self._egl = first_gpu_of_gl()
        # Threads of our own: Ray's do not keep what a thread has, such as its GL context.
        self._threads = ThreadPoolExecutor(sessions)

    def process(self, unit: Unit) -> Finished | Divided:
        return self._threads.submit(self._process, unit).result()

    def _process(self, unit: Unit) -> Finished | Divided:
        try:
            if not hasattr(self._thread, "session"):
                self._thread.session = Session(self._work, egl=self._egl).__enter__()
        except fb.FramebindError as error:
            return Finished(unit, describe(error))
        return process(self._thread.session, unit, lambda event: None)


def _places(ray: Any, sessions: int | None) -> list[_Place]:
    """A few places for each GPU of the cluster, which share it; one for each CPU if it has none."""
    resources = ray.cluster_resources()
    gpus, cpus = int(resources.get("GPU", 0)), int(resources.get("CPU", 1))
    if gpus:
        shares = shares_of(sessions or SESSIONS_PER_GPU)
        return [_Place(1 / len(shares), share) for share in shares for _ in range(gpus)]
    return [_Place(0, 1) for _ in range(min(sessions or cpus, cpus))]


def _anywhere(unit: Unit) -> Unit:
    """The unit with paths that do not depend on a process's folder."""
    source = unit.source if isinstance(unit.source, str) else unit.source.resolve()
    place = unit.place if unit.upload else unit.place.resolve()
    return replace(unit, source=source, place=place, part_seconds=PART_SECONDS)


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


@contextlib.contextmanager
def _cluster(ray: Any, address: str) -> Iterator[None]:
    """A connection to the cluster at an address, unless this process has one. "local" is one of this machine."""
    if ray.is_initialized():
        yield
        return
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
