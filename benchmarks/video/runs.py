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
from typing import Any, NamedTuple

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


class Sample(NamedTuple):
    """A moment: its time, the frames that were done until then, and the CPU time of the process."""

    seconds: float
    frames: int
    cpu_seconds: float


@dataclass(frozen=True)
class Run:
    """One run of all sessions, and one session's last outputs.

    ``traces`` has samples of each process, from when all its sessions have done FIRST frames until the first one has
    done all; none of a session that does not count its frames.
    """

    whole: Span
    traces: tuple[tuple[Sample, ...], ...]
    nbytes: int
    outputs: list[Array] | None

    @property
    def steady(self) -> Span | None:
        """The part in which all sessions of all processes are under way: no file is opened or closed meanwhile.

        None if there is no such part, or the sessions do not count.
        """
        if not self.traces or not all(self.traces):
            return None
        begin, end = max(trace[0].seconds for trace in self.traces), min(trace[-1].seconds for trace in self.traces)
        within = [[each for each in trace if begin <= each.seconds <= end] for trace in self.traces]
        if any(len(trace) < 2 or trace[-1].frames == trace[0].frames for trace in within):
            return None
        spans = [_between(trace[0], trace[-1]) for trace in within]
        frames, rate = sum(span.frames for span in spans), sum(span.rate for span in spans)
        return Span(frames, frames / rate, sum(span.cpu_seconds for span in spans))


def _between(first: Sample, last: Sample) -> Span:
    return Span(last.frames - first.frames, last.seconds - first.seconds, last.cpu_seconds - first.cpu_seconds)


def together(parts: Sequence[Run]) -> Run:
    """Runs of several processes that began at the same time, as one. The outputs are the first one's."""
    wholes = [part.whole for part in parts]
    whole = Span(
        sum(each.frames for each in wholes), max(each.seconds for each in wholes),
        sum(each.cpu_seconds for each in wholes),
    )  # fmt: skip
    traces = tuple(trace for part in parts for trace in part.traces)
    return Run(whole, traces, sum(part.nbytes for part in parts), parts[0].outputs)


def run_sessions(
    make: Callable[[], Session],
    clip: Path,
    sessions: int,
    repeats: int,
    wait: Callable[[], object] | None = None,
) -> list[Run]:
    """Run so many sessions side by side, ``repeats`` times. Raises the first error of a session.

    ``wait`` is called before each run, when all sessions are ready.
    """
    counts, made, errors = [0] * sessions, list[Session](), list[Exception]()
    begin, end = threading.Barrier(sessions + 1), threading.Barrier(sessions + 1)
    making = threading.Lock()

    def work(number: int) -> None:
        try:
            with making:  # the first one compiles what the others take over
                session = make()
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
            begin.abort()
            end.abort()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(sessions)]
    for thread in threads:
        thread.start()
    runs = list[Run]()
    try:
        for _ in range(repeats):
            while begin.n_waiting < sessions and not begin.broken:
                time.sleep(0.01)
            if wait is not None and not begin.broken:
                wait()
            runs.append(_one_run(made, counts, begin, end))
    except threading.BrokenBarrierError as error:
        errors.append(error)  # behind the one that broke it
        begin.abort()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return runs


def _one_run(sessions: Sequence[Session], counts: list[int], begin: threading.Barrier, end: threading.Barrier) -> Run:
    """Let the sessions, which wait for ``begin``, run until all wait for ``end``. ``counts`` has their frames then.

    Raises BrokenBarrierError if one fails.
    """
    counted = [each for each in sessions if isinstance(each, Counted)]
    for each in counted:
        each.count = 0
    begin.wait()
    fb.transfers.reset()
    started, cpu = time.perf_counter(), time.process_time()
    traces = (_trace(counted, end),) if len(counted) == len(sessions) else ()
    end.wait()
    whole = Span(sum(counts), time.perf_counter() - started, time.process_time() - cpu)
    return Run(whole, traces, fb.transfers.bytes, sessions[0].outputs)


def _trace(sessions: Sequence[Counted], end: threading.Barrier) -> tuple[Sample, ...]:
    """Samples while all sessions are under way. ``end`` is where those wait that have ended."""
    samples = list[Sample]()
    while not end.n_waiting and not end.broken:
        counts = [each.count for each in sessions]
        if min(counts) >= FIRST:
            samples.append(Sample(time.perf_counter(), sum(counts), time.process_time()))
        time.sleep(0.01)
    return tuple(samples)


class ProcessPool:
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
        return [together(part) for part in zip(*[each.result() for each in started], strict=True)]

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
