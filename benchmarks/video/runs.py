"""Runs sessions side by side, a thread each, in one process or in several."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sessions import Array, Counted, MakeSession, Model, Session

import framebind as fb

FIRST = 30
"""Frames that each session has done when the steady part of a run begins."""


@dataclass(frozen=True)
class Span:
    """Frames, the time that they took, and the CPU time of the processes meanwhile."""

    frames: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        """Frames per second."""
        return self.frames / self.seconds

    @property
    def cores(self) -> float:
        """CPU seconds per 1,000 frames: cores per 1,000 frames/s."""
        return 1000 * self.cpu_seconds / self.frames


@dataclass(frozen=True)
class Run:
    """One run of all sessions, and one session's last outputs.

    ``steady`` is the part from when every session has done FIRST frames until the first one has done all: no file is
    opened or closed meanwhile. None if a session does not count its frames, or ended before.
    """

    whole: Span
    steady: Span | None
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
            counted = [each for each in made if isinstance(each, Counted)]
            for each in counted:
                each.count = 0
            begin.wait()
            fb.transfers.reset()
            started, cpu = time.perf_counter(), time.process_time()
            steady = _steady(counted, end) if len(counted) == sessions else None
            end.wait()
            whole = Span(sum(counts), time.perf_counter() - started, time.process_time() - cpu)
            runs.append(Run(whole, steady, fb.transfers.bytes, made[0].outputs))
    except threading.BrokenBarrierError as error:
        errors.append(error)  # behind the one that broke it
        begin.abort()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return runs


def _steady(sessions: Sequence[Counted], end: threading.Barrier) -> Span | None:
    """The part of a run in which all sessions are under way. ``end`` is where those wait that have ended."""

    def now() -> tuple[int, float, float]:
        return sum(each.count for each in sessions), time.perf_counter(), time.process_time()

    while min(each.count for each in sessions) < FIRST and not end.n_waiting and not end.broken:
        time.sleep(0.005)
    first = last = now()
    while not end.n_waiting and not end.broken:
        time.sleep(0.005)
        last = now()
    frames = last[0] - first[0]
    return Span(frames, last[1] - first[1], last[2] - first[2]) if frames else None


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
    steady = [part.steady for part in parts if part.steady is not None]
    return Run(
        _together([part.whole for part in parts]), _together(steady) if len(steady) == len(parts) else None,
        sum(part.nbytes for part in parts), parts[0].outputs,
    )  # fmt: skip


def _together(spans: list[Span]) -> Span:
    frames, cpu = sum(span.frames for span in spans), sum(span.cpu_seconds for span in spans)
    return Span(frames, frames / sum(span.rate for span in spans), cpu)
