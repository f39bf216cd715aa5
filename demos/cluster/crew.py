"""The workers that a command line asks for: this process, processes of this machine, or one per GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import framebind as fb

from ..apis import BY_NAME, CL, CUDA, GL
from ..processing.bound_session import open_session
from ..processing.work import Work
from .division import PART_SECONDS
from .pool import run_pool
from .units import Report, Unit
from .worker import Seat, process

SESSIONS_PER_GPU = 8
"""Videos at once per GPU: an H100 has seven engines that decode, and one session keeps one busy (H200, 2026-11-22,
../shared/reference/video_and_cuda.md: 8 sessions decode 2,970 frames/s of 1080p, 12 no more)."""


def run_units(work: Work, units: Sequence[Unit], seats: Sequence[Seat], report: Report) -> None:
    """Process units on these seats, or in this process if there are none, and report what happens to each."""
    if not units:
        return
    if seats:
        run_pool(work, [replace(unit, part_seconds=PART_SECONDS) for unit in units], seats, report)
        return
    with open_session(work) as session:
        for unit in units:
            report(process(session, unit, report))


def find_seats(jobs: int | None, gpus: str, backend: str) -> list[Seat]:
    """The seats for ``--jobs`` and ``--gpus``; none if this process does the work.

    Without GPUs each job is a process. With them each GPU has one process, and ``jobs`` videos at once in it.
    """
    if gpus:
        return seats_on(fb.find_gpus(), gpus, jobs or SESSIONS_PER_GPU, backend)
    return [Seat()] * jobs if jobs is not None and jobs > 1 else []


def seats_on(found: Sequence[fb.FoundGpu], gpus: str, sessions: int, backend: str) -> list[Seat]:
    """A seat on each GPU that ``gpus`` names: "all", or numbers ("0,2"). Raises DeviceError if one is missing."""
    if not found:
        raise fb.DeviceError("no GPU was found that can be chosen (python -m framebind doctor): leave --gpus away")
    numbers = range(len(found)) if gpus == "all" else [_number(each, len(found)) for each in gpus.split(",")]
    return [_seat(found[number], sessions, backend) for number in dict.fromkeys(numbers)]


def _number(text: str, count: int) -> int:
    if not text.strip().isdecimal() or int(text) >= count:
        raise fb.DeviceError(f"there is no GPU '{text}': this machine has {count}, counted from 0")
    return int(text)


def _seat(gpu: fb.FoundGpu, sessions: int, backend: str) -> Seat:
    """The seat on a GPU, which CUDA shows to this process alone. OpenGL takes it by its number."""
    api = BY_NAME[backend] if backend in BY_NAME else None
    if api is CL:
        raise fb.DeviceError("--gpus chooses GPUs for CUDA and OpenGL: take --backend cuda or gl")
    if (api is CUDA and gpu.cuda is None) or (api is GL and gpu.egl is None):
        raise fb.DeviceError(f"'{gpu.name}' ({gpu.uuid}) has no driver for the backend '{backend}'")
    environment = (("CUDA_VISIBLE_DEVICES", gpu.uuid),) if gpu.cuda is not None else ()
    return Seat(sessions, gpu.egl, environment)
