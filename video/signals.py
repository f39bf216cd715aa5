"""Signals that end a program cleanly."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType

_came = False
"""True if a signal came within ``ended_by_signals``."""


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP of a closed terminal, end a program as Ctrl-C does: its recordings are finished and play.

    A signal that the process was started to ignore (nohup) stays ignored. Loops within the block call
    ``raise_if_signalled``.
    """
    global _came
    _came = False
    handlers = {"SIGINT": _interrupt, "SIGTERM": _end, "SIGHUP": _end}
    ours = {getattr(signal, name): handler for name, handler in handlers.items() if hasattr(signal, name)}
    before = {number: signal.getsignal(number) for number in ours}
    replaced = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in replaced:
        signal.signal(number, ours[number])
    try:
        yield
    finally:
        _came = False  # a later loop of this process, outside such a block, is not interrupted
        for number, handler in replaced.items():
            # None is a handler that a C library installed: Python can call it no more than set it again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def raise_if_signalled() -> None:
    """Raise KeyboardInterrupt if a signal came.

    Python's own KeyboardInterrupt may be lost: Python prints and drops an exception that is raised just as a C
    library's call into Python begins or ends, as LiteRT's calls in each frame do.
    """
    if _came:
        raise KeyboardInterrupt


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _came
    _came = True
    raise KeyboardInterrupt


def _end(number: int, _: FrameType | None) -> None:
    """Interrupt the run once: the second SIGHUP of a closed terminal must not interrupt the end of a recording."""
    global _came
    _came = True
    signal.signal(number, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that is gone takes no text. That is no reason to fail.
        with contextlib.suppress(OSError, ValueError):
            try:
                os.write(stream.fileno(), b"")
            except OSError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    raise KeyboardInterrupt
