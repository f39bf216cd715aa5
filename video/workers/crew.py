"""The workers that a command line asks for: this process, processes of this machine, or one per GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import framebind as fb

from ..apis import APIS, BY_NAME, GL
from ..session.road import is_on_cuda
from ..work import Work
from .in_process import run_here
from .on_ray import run_on_ray
from .pool import run_pool
from .units import Report, Unit
from .worker import SESSIONS_PER_GPU, Seat, shares_of

Runner = Callable[[Work, Sequence[Unit], Report], None]
"""Processes units, and reports what happens to each."""


def choose_runner(jobs: int | None, gpus: str, ray: str, backend: str) -> Runner:
    """The workers for ``--jobs``, ``--gpus`` and ``--ray``. Raises DeviceError for what is not there.

    Without GPUs each job is a process. With them ``jobs`` are the videos at once of each GPU, in a few processes.
    Without any of these the work decides.
    """
    if ray:
        return partial(run_on_ray, address=ray, sessions=jobs)
    if gpus:
        return partial(run_pool, seats=seats_on(fb.find_gpus(), gpus, jobs or SESSIONS_PER_GPU, backend))
    if jobs is not None and jobs > 1:
        return partial(run_pool, seats=[Seat()] * jobs)
    return run_by_work if jobs is None else run_here


def run_by_work(work: Work, units: Sequence[Unit], report: Report) -> None:
    """Process units in this process, or in those that ``seats_by_work`` says."""
    seats = seats_by_work(work, len(units))
    if seats:
        run_pool(work, units, report, seats=seats)
    else:
        run_here(work, units, report)


def seats_by_work(work: Work, videos: int) -> list[Seat]:
    """Seats on CUDA's first GPU for so many videos; none if this process does the work, one video after the other.

    One video keeps one of a GPU's decoders busy, so that rows alone are made of several at once. Starting processes
    pays if each session gets a video.
    """
    if videos < SESSIONS_PER_GPU or not is_on_cuda(work):
        return []
    return [Seat(sessions) for sessions in shares_of(SESSIONS_PER_GPU)]


def seats_on(
    found: Sequence[fb.FoundGpu], gpus: str, sessions: int, backend: str, *, processes: int | None = None
) -> list[Seat]:
    """Seats on each GPU that ``gpus`` names: "all", or numbers ("0,2"). Raises DeviceError if one is missing.

    ``sessions`` are those of a GPU, which so many processes share.
    """
    if not found:
        raise fb.DeviceError("no GPU was found that can be chosen (python -m framebind doctor): leave --gpus away")
    numbers = range(len(found)) if gpus == "all" else [_number(each, len(found)) for each in gpus.split(",")]
    # All GPUs get their first process before one gets its second: few videos are spread over all.
    return [
        _seat(found[number], share, backend)
        for share in shares_of(sessions, processes)
        for number in dict.fromkeys(numbers)
    ]


def _number(text: str, count: int) -> int:
    if not text.strip().isdecimal() or int(text) >= count:
        raise fb.DeviceError(f"there is no GPU '{text}': this machine has {count}, counted from 0")
    return int(text)


def _seat(gpu: fb.FoundGpu, sessions: int, backend: str) -> Seat:
    """The seat on a GPU: CUDA shows it to this process alone, and OpenGL takes it by its number."""
    api = BY_NAME.get(backend)
    if api is not None and api.find_gpus is None:
        finding = [each for each in reversed(APIS) if each.find_gpus is not None]
        titles, names = " and ".join(each.title for each in finding), " or ".join(each.short for each in finding)
        raise fb.DeviceError(f"--gpus chooses GPUs for {titles}: take --backend {names}")
    if api is not None and api.name not in gpu.numbers:
        raise fb.DeviceError(f"'{gpu.name}' ({gpu.uuid}) has no driver for the backend '{backend}'")
    environment = tuple(
        variable for each in APIS if each.name in gpu.numbers for variable in each.gpu_environment(gpu.uuid).items()
    )
    return Seat(sessions, gpu.numbers.get(GL.name), environment)
