"""Ways in processes of their own: all set up side by side, and then each runs when it is told to."""

from __future__ import annotations

import multiprocessing
import time
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from runs import Run, run_sessions, together
from sessions import MakeSession, Model


class NotRunError(Exception):
    """Says why a way has no figures."""


class Way:
    """Processes that make a way's sessions and warm them up at once, and run them when they are told to.

    What takes long, importing PyTorch or compiling a model for each session, is so done for all ways at the same time.
    """

    def __init__(self, name: str, model: Model, make: MakeSession, clip: Path, sessions: int, processes: int) -> None:
        self.name, self.model, self.processes, self._why_not = name, model, processes, ""
        self._parts = list[tuple[BaseProcess, Any]]()
        for _ in range(processes):
            ours, theirs = multiprocessing.Pipe()
            process = multiprocessing.get_context("spawn").Process(
                target=_work, args=(make, model, clip, sessions // processes, theirs), daemon=True
            )
            process.start()
            theirs.close()  # so that the end of the process is the end of the connection
            self._parts.append((process, ours))

    def wait_until_ready(self, until: float) -> None:
        """Wait until the sessions have warmed up, or end the processes at that time of time.monotonic()."""
        try:
            self._said(until)
        except NotRunError as why:
            self._why_not = f"setup: {why}"

    def run(self, seconds: float) -> Run:
        """Run the clip in all sessions, and end the processes. Raises NotRunError if that takes longer, or fails."""
        if self._why_not:
            raise NotRunError(self._why_not)
        self._tell("run")
        runs: list[Run] = self._said(time.monotonic() + seconds)
        self._end()
        return together(runs)

    def _tell(self, what: str) -> None:
        for _, connection in self._parts:
            try:
                connection.send(what)
            except BrokenPipeError:
                self._end()
                raise NotRunError("its process ended") from None

    def _said(self, until: float) -> list[Any]:
        """The next line of each process."""
        try:
            return [_next(connection, until) for _, connection in self._parts]
        except NotRunError:
            self._end()
            raise

    def _end(self) -> None:
        for process, _ in self._parts:
            process.kill()
            process.join()


def _next(connection: Any, until: float) -> Any:
    if not connection.poll(max(until - time.monotonic(), 0.0)):
        raise NotRunError("it took too long")
    try:
        said = connection.recv()
    except EOFError:
        raise NotRunError("its process ended") from None
    if isinstance(said, NotRunError):
        raise said
    return said


def _work(make: MakeSession, model: Model, clip: Path, sessions: int, connection: Any) -> None:
    """Make the sessions and warm them up, run them when it is told to; send the run, or why there is none."""

    def wait() -> None:
        connection.send("ready")
        connection.recv()

    try:
        (run,) = run_sessions(partial(make, model), clip, sessions, 1, wait)
        connection.send(run)
    except Exception as error:  # whatever keeps it from running here
        connection.send(NotRunError(f"{type(error).__name__}: {error}"))
