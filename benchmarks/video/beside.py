"""Peers in processes of their own: all set up side by side, and then each runs when it is told to."""

from __future__ import annotations

import multiprocessing
import time
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from peers import IN_PROCESSES, PEERS
from runs import Run, run_sessions, together
from sessions import Model


class PeerError(Exception):
    """Says why a peer has no figures."""


class Peer:
    """Processes that make a peer's sessions at once, warm them up when it is told to run, and run them once.

    What takes long, importing PyTorch or compiling a model for each session, is so done for all peers at the same time.
    """

    def __init__(self, name: str, model: Model, clip: Path, sessions: int) -> None:
        self.name, self.model, self._why_not = name, model, ""
        self._parts = list[tuple[BaseProcess, Any]]()
        count = sessions if name in IN_PROCESSES else 1
        for _ in range(count):
            ours, theirs = multiprocessing.Pipe()
            process = multiprocessing.get_context("spawn").Process(
                target=_work, args=(name, model, clip, sessions // count, theirs), daemon=True
            )
            process.start()
            theirs.close()  # so that the end of the process is the end of the connection
            self._parts.append((process, ours))

    def wait_until_ready(self, until: float) -> None:
        """Wait until the sessions are made, or end the processes at that time of time.monotonic()."""
        try:
            self._said(until)
        except PeerError as why:
            self._why_not = f"setup: {why}"

    def run(self, seconds: float) -> Run:
        """Run the clip in all sessions, and end the processes. Raises PeerError if that takes longer, or fails."""
        if self._why_not:
            raise PeerError(self._why_not)
        until = time.monotonic() + seconds
        self._tell("warm up")
        self._said(until)
        self._tell("run")
        runs: list[Run] = self._said(until)
        self._end()
        return together(runs)

    def _tell(self, what: str) -> None:
        for _, connection in self._parts:
            try:
                connection.send(what)
            except BrokenPipeError:
                self._end()
                raise PeerError("its process ended") from None

    def _said(self, until: float) -> list[Any]:
        """What each process says next."""
        try:
            return [_next(connection, until) for _, connection in self._parts]
        except PeerError:
            self._end()
            raise

    def _end(self) -> None:
        for process, _ in self._parts:
            process.kill()
            process.join()


def _next(connection: Any, until: float) -> Any:
    if not connection.poll(max(until - time.monotonic(), 0.0)):
        raise PeerError("it took too long")
    try:
        said = connection.recv()
    except EOFError:
        raise PeerError("its process ended") from None
    if isinstance(said, PeerError):
        raise said
    return said


def _work(name: str, model: Model, clip: Path, sessions: int, connection: Any) -> None:
    """Make the sessions, warm them up and run them when it is told to; send the run, or why there is none."""

    def turn() -> None:
        connection.send("ready")
        connection.recv()

    try:
        (run,) = run_sessions(partial(PEERS[name], model), clip, sessions, 1, wait=turn, turn=turn)
        connection.send(run)
    except Exception as error:  # whatever keeps it from running here
        connection.send(PeerError(f"{type(error).__name__}: {error}"))
