"""Runs sessions side by side, a thread each, in one process or in several."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sessions import Array, MakeSession, Model, Session

import framebind as fb


@dataclass(frozen=True)
class Run:
    """One run of all sessions: what was counted, and one session's last outputs."""

    frames: int
    seconds: float
    cpu_seconds: float
    nbytes: int
    outputs: list[Array] | None


def run_sessions(
    make: Callable[[], Session],
    clip: Path,
    sessions: int,
    repeats: int,
    wait: Callable[[], object] | None = None,
    turn: Callable[[], None] = lambda: None,
) -> list[Run]:
    """Run so many sessions side by side, ``repeats`` times. Raises the first error of a session.

    ``turn`` is called once, when all sessions are made and none has warmed up; ``wait`` before each run, when all
    sessions are ready.
    """
    counts, made, errors = [0] * sessions, list[Session](), list[Exception]()
    begin, end = threading.Barrier(sessions + 1), threading.Barrier(sessions + 1)
    making, all_made = threading.Lock(), threading.Barrier(sessions, action=turn)

    def work(number: int) -> None:
        try:
            with making:
                session = make()
            all_made.wait()
            with making:  # the first one compiles what the others take over
                session.warm_up(clip)
                made.append(session)
            for _ in range(repeats):
                begin.wait()
                counts[number] = session.run(clip)
                end.wait()
            session.close()
        except threading.BrokenBarrierError:
            return
        except Exception as error:
            errors.append(error)
            all_made.abort()
            begin.abort()
            end.abort()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(sessions)]
    for thread in threads:
        thread.start()
    runs = list[Run]()
    try:
        for _ in range(repeats):
            while wait is not None and begin.n_waiting < sessions and not begin.broken:
                time.sleep(0.01)
            if wait is not None:
                wait()
            begin.wait()
            fb.transfers.reset()
            started, cpu = time.perf_counter(), time.process_time()
            end.wait()
            seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
            runs.append(Run(sum(counts), seconds, cpu, fb.transfers.bytes, made[0].outputs))
    except threading.BrokenBarrierError as error:
        errors.append(error)  # behind the one that broke it
        begin.abort()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return runs


class Crew:
    """Processes that have an equal part of the sessions each; this process alone if it is one.

    They live until ``close``, so that they start once for all rows.
    """

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self._stack = contextlib.ExitStack()
        if processes > 1:
            spawned = multiprocessing.get_context("spawn")
            self._manager = self._stack.enter_context(spawned.Manager())
            self._pool = self._stack.enter_context(ProcessPoolExecutor(processes, mp_context=spawned))

    def run(self, make: MakeSession, model: Model, clip: Path, sessions: int, repeats: int) -> list[Run]:
        """Run so many sessions side by side, ``repeats`` times. A run is the sum of the processes' runs."""
        if self.processes == 1:
            return run_sessions(partial(make, model), clip, sessions, repeats)
        begin: Any = self._manager.Barrier(self.processes)  # also what gives each process one part
        started = [
            self._pool.submit(_run_part, partial(make, model), clip, sessions // self.processes, repeats, begin)
            for _ in range(self.processes)
        ]
        return [_sum(list(part)) for part in zip(*[each.result() for each in started], strict=True)]

    def close(self) -> None:
        """End the processes."""
        self._stack.close()


def _run_part(make: Callable[[], Session], clip: Path, sessions: int, repeats: int, begin: Any) -> list[Run]:
    """Run a part of the sessions; the runs of all parts begin together. An error ends the others', too."""
    try:
        return run_sessions(make, clip, sessions, repeats, begin.wait)
    except Exception:
        begin.abort()
        raise


def _sum(parts: list[Run]) -> Run:
    """Runs of several processes at the same time: rates, CPU time and bytes are added."""
    frames = sum(part.frames for part in parts)
    rate = sum(part.frames / part.seconds for part in parts)
    cpu, nbytes = sum(part.cpu_seconds for part in parts), sum(part.nbytes for part in parts)
    return Run(frames, frames / rate, cpu, nbytes, parts[0].outputs)
