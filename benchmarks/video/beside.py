"""Peers in processes of their own: all set up side by side, and then each runs when it is told to."""

from __future__ import annotations

import multiprocessing
import time
from functools import partial
from pathlib import Path
from typing import Any

from peers import PEERS
from runs import Run, run_sessions
from sessions import Model


class PeerError(Exception):
    """Says why a peer has no figures."""


class Peer:
    """A process that makes a peer's sessions at once, warms them up when it is told to run, and runs them once.

    What takes long, importing PyTorch or compiling a model for each session, is so done for all peers at the same time.
    """

    def __init__(self, name: str, model: Model, clip: Path, sessions: int) -> None:
        self.name, self.model, self._why_not = name, model, ""
        self._connection, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=_work, args=(name, model, clip, sessions, theirs), daemon=True
        )
        self._process.start()
        theirs.close()  # so that the end of the process is the end of the connection

    def wait_until_ready(self, until: float) -> None:
        """Wait until the sessions are made, or end the process at that time of time.monotonic()."""
        try:
            self._said(until)
        except PeerError as why:
            self._why_not = f"setup: {why}"

    def run(self, seconds: float) -> Run:
        """Run the clip in all sessions, and end the process. Raises PeerError if that takes longer, or fails."""
        if self._why_not:
            raise PeerError(self._why_not)
        try:
            self._connection.send("go on")
            run: Run = self._said(time.monotonic() + seconds)
        except BrokenPipeError:
            raise PeerError("its process ended") from None
        finally:
            self._end()
        return run

    def _said(self, until: float) -> Any:
        if not self._connection.poll(max(until - time.monotonic(), 0.0)):
            self._end()
            raise PeerError("it took too long")
        try:
            said = self._connection.recv()
        except EOFError:
            raise PeerError("its process ended") from None
        if isinstance(said, PeerError):
            raise said
        return said

    def _end(self) -> None:
        self._process.kill()
        self._process.join()


def _work(name: str, model: Model, clip: Path, sessions: int, connection: Any) -> None:
    """Make the sessions, wait for the turn, run them and send the run, or why there is none; the process's function."""

    def turn() -> None:
        connection.send("ready")
        connection.recv()

    try:
        (run,) = run_sessions(partial(PEERS[name], model), clip, sessions, 1, turn=turn)
        connection.send(run)
    except Exception as error:  # whatever keeps it from running here
        connection.send(PeerError(f"{type(error).__name__}: {error}"))
