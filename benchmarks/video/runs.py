"""Runs sessions side by side, a thread each, in one process or in several."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

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
    except threading.BrokenBarrierError:
        pass
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return runs


def run_in_processes(make: MakeSession, model: Model, clip: Path, sessions: int, count: int, repeats: int) -> list[Run]:
    """The same in so many processes, with an equal part of the sessions each. A run is the sum of their runs."""
    if count == 1:
        return run_sessions(partial(make, model), clip, sessions, repeats)
    spawned = multiprocessing.get_context("spawn")
    with (
        spawned.Manager() as manager,
        ProcessPoolExecutor(count, mp_context=spawned) as pool,
    ):
        wait = manager.Barrier(count).wait
        started = [
            pool.submit(run_sessions, partial(make, model), clip, sessions // count, repeats, wait)
            for _ in range(count)
        ]
        parts = zip(*[each.result() for each in started], strict=True)
        return [_sum(list(part)) for part in parts]


def _sum(parts: list[Run]) -> Run:
    """Runs of several processes at the same time: rates, CPU time and bytes are added."""
    frames = sum(part.frames for part in parts)
    rate = sum(part.frames / part.seconds for part in parts)
    cpu, nbytes = sum(part.cpu_seconds for part in parts), sum(part.nbytes for part in parts)
    return Run(frames, frames / rate, cpu, nbytes, parts[0].outputs)
