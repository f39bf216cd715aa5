"""Signals that end a program in good order."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP of a closed terminal, end a program as Ctrl-C does: its recordings are finished and play.

    A signal that the process was started to ignore (nohup) stays ignored.
    """
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    replaced = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in replaced:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number, handler in replaced.items():
            # None is a handler that a C library installed: Python can call it no more than set it again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _end(number: int, _: FrameType | None) -> None:
    """Interrupt the run once: the second SIGHUP of a closed terminal must not interrupt the end of a recording."""
    signal.signal(number, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that is gone takes no text. That is no reason to fail.
        with contextlib.suppress(OSError, ValueError):
            try:
                os.write(stream.fileno(), b"")
            except OSError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    raise KeyboardInterrupt
