"""Runs of checks in separate processes, one device at a time, so that a crashing driver ends only its process."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import framebind as fb

from .checks import Subject
from .devices import Device
from .outcomes import Outcome, outcome_from

SECONDS = {"operator": 60.0, "quantized": 60.0, "lstm": 60.0, "network": 60.0, "graph": 60.0, "model": 600.0}
"""A check that takes longer hangs. PoCL compiles a large model for a minute or two."""
START_SECONDS = 60.0


class Worker:
    """A process of worker.py. ``ask`` raises EOFError if it ends, and TimeoutError if it does not answer in time."""

    def __init__(self, device: str) -> None:
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "framebind.tools.certify.worker", device],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, encoding="utf-8",
        )  # fmt: skip
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def answer(self, seconds: float) -> str:
        """The next line that it writes."""
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None
        if not line:
            raise EOFError
        return line

    def ask(self, subject: Subject) -> Outcome:
        """The outcome of a subject."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(asdict(subject)) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise EOFError from None
        return outcome_from(json.loads(self.answer(SECONDS[subject.kind])))

    def outcome(self, subject: Subject) -> Outcome:
        """The outcome of a subject. If it is "hung" or "crashed" the process is gone."""
        try:
            return self.ask(subject)
        except TimeoutError:
            self.kill()
            return Outcome(subject, "hung", seconds=SECONDS[subject.kind], reason="no answer")
        except EOFError:
            return Outcome(subject, "crashed", reason=self.end())

    def end(self) -> str:
        """End the process; returns how it ended, and the last line that it wrote to its errors."""
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass
        try:
            status = self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        self._errors.close()
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return f"{how}: {lines[-1][:200]}" if lines else how

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self.end()


def run(
    name: str,
    todo: Sequence[Subject],
    deadline: float,
    begin: Callable[[Device], Any],
    report: Callable[[Outcome], Any],
) -> None:
    """Check subjects on a device until all are done or ``time.monotonic()`` passes the deadline.

    ``begin`` is given the device as its driver describes it, ``report`` each outcome. Raises DeviceError if no context
    can be made on the device.
    """
    worker: Worker | None = None
    for subject in todo:
        if time.monotonic() > deadline:
            break
        worker = worker or start(name, begin)
        outcome = worker.outcome(subject)
        worker = None if outcome.status in ("hung", "crashed") else worker
        report(outcome)
    if worker is not None:
        worker.end()


def start(name: str, begin: Callable[[Device], Any]) -> Worker:
    """A process for a device, which is described to ``begin``. Raises DeviceError if there is no context on it."""
    worker = Worker(name)
    try:
        begin(Device(**json.loads(worker.answer(START_SECONDS))))
    except TimeoutError:
        worker.kill()
        raise fb.DeviceError(f"no context can be made on '{name}': the driver does not answer") from None
    except EOFError:
        raise fb.DeviceError(f"no context can be made on '{name}': {worker.end()}") from None
    return worker
