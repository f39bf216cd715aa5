"""The decoder alone on one GPU or several: processes and sessions as ``process --gpus`` has them, without a model."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sessions import NO_MODEL, DecodeOnly

from framebind.video.workers.worker import Slot

SECONDS, FIRST = 3.0, 30
"""Seconds that are measured, from when each session has decoded so many frames."""


def decode_alone(clip: Path, slots: Sequence[Slot]) -> tuple[float, float]:
    """Decode a clip again and again in each session of each slot. Returns frames per second, and CPU seconds per 1,000.

    Linux only: CPU time is that of /proc.
    """
    spawned = multiprocessing.get_context("spawn")
    counts: Any = spawned.Array("l", sum(slot.sessions for slot in slots), lock=False)
    firsts = [sum(slot.sessions for slot in slots[:number]) for number in range(len(slots))]
    processes = [
        spawned.Process(target=_decode, args=(clip, slot, counts, first), daemon=True)
        for slot, first in zip(slots, firsts, strict=True)
    ]
    for process in processes:
        process.start()
    try:
        while min(counts) < FIRST:
            if any(process.exitcode is not None for process in processes):
                raise RuntimeError("a process that decodes has died")
            time.sleep(0.05)
        frames, cpu, began = sum(counts), _cpu_seconds(processes), time.perf_counter()
        time.sleep(SECONDS)
        frames, cpu, took = sum(counts) - frames, _cpu_seconds(processes) - cpu, time.perf_counter() - began
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.join()
    return frames / took, 1000 * cpu / frames


def _decode(clip: Path, slot: Slot, counts: Any, first: int) -> None:
    """Decode in a thread for each session, until the process is ended."""
    os.environ.update(slot.environment)
    for number in range(first, first + slot.sessions):
        threading.Thread(target=_decode_again, args=(clip, counts, number)).start()


def _decode_again(clip: Path, counts: Any, number: int) -> None:
    session = DecodeOnly(NO_MODEL)
    while True:
        for _ in session.frames(clip):
            counts[number] += 1


def _cpu_seconds(processes: Sequence[Any]) -> float:
    """The CPU time of processes until now."""
    fields = [Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split() for process in processes]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")
