"""The choice of workers: this process, processes of this machine, a few for each GPU, or a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import framebind as fb

from ..apis import APIS, BY_NAME, GL
from ..session.road import is_on_cuda
from ..work import Work
from .jobs import Job, Report
from .on_ray import run_on_ray
from .processes import run_in_processes
from .this_process import run_here
from .worker import SESSIONS_PER_GPU, Slot, shares_of

Runner = Callable[[Work, Sequence[Job], Report], None]
"""Processes jobs, and reports what happens to each."""


def choose_runner(at_once: int | None, gpus: str, ray: str, backend: str) -> Runner:
    """The workers for ``--jobs``, ``--gpus`` and ``--ray``. Raises DeviceError for what is not there.

    Without GPUs ``at_once`` is the number of processes. With them it is that of the videos at once of each GPU, in a
    few processes.
    Without any of these the work decides.
    """
    if ray:
        return partial(run_on_ray, address=ray, sessions=at_once)
    _check_devices(backend)
    if gpus:
        return partial(run_in_processes, slots=slots_on(fb.find_gpus(), gpus, at_once or SESSIONS_PER_GPU, backend))
    if at_once is not None and at_once > 1:
        return partial(run_in_processes, slots=[Slot()] * at_once)
    return run_by_work if at_once is None else run_here


def _check_devices(backend: str) -> None:
    """Raise DeviceError if a named API has no device here: one error in place of one for each video."""
    api = BY_NAME.get(backend)
    if api is None or api is GL:  # a context of OpenGL is made before the first video
        return
    found = fb.CompatibilityList().devices_of(api.name)
    if found and all(device.unusable for device in found):
        raise fb.DeviceError(found[0].unusable)


def run_by_work(work: Work, jobs: Sequence[Job], report: Report) -> None:
    """Process jobs in this process, or in those that ``slots_by_work`` says."""
    slots = slots_by_work(work, len(jobs))
    if slots:
        run_in_processes(work, jobs, report, slots=slots)
    else:
        run_here(work, jobs, report)


def slots_by_work(work: Work, videos: int) -> list[Slot]:
    """Slots on CUDA's first GPU for so many videos; none if this process does the work, one video after the other.

    One video keeps one of a GPU's decoders busy, so that rows alone are made of several at once. Starting processes
    pays if each session gets a video.
    """
    if videos < SESSIONS_PER_GPU or not is_on_cuda(work):
        return []
    return [Slot(sessions) for sessions in shares_of(SESSIONS_PER_GPU)]


def slots_on(
    found: Sequence[fb.FoundGpu], gpus: str, sessions: int, backend: str, *, processes: int | None = None
) -> list[Slot]:
    """Slots on each GPU that ``gpus`` names: "all", or numbers ("0,2"). Raises DeviceError if one is missing.

    ``sessions`` are those of a GPU, which so many processes share.
    """
    if not found:
        raise fb.DeviceError("no GPU was found that can be chosen (python -m framebind doctor): leave --gpus away")
    numbers = range(len(found)) if gpus == "all" else [_number(each, len(found)) for each in gpus.split(",")]
    # All GPUs get their first process before one gets its second: few videos are spread over all.
    return [
        _slot(found[number], share, backend)
        for share in shares_of(sessions, processes)
        for number in dict.fromkeys(numbers)
    ]


def _number(text: str, count: int) -> int:
    if not text.strip().isdecimal() or int(text) >= count:
        raise fb.DeviceError(f"there is no GPU '{text}': this machine has {count}, counted from 0")
    return int(text)


def _slot(gpu: fb.FoundGpu, sessions: int, backend: str) -> Slot:
    """The slot on a GPU: CUDA shows it to this process alone, and OpenGL takes it by its number."""
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
    return Slot(sessions, gpu.numbers.get(GL.name), environment)
