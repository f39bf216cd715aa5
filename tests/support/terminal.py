"""A terminal: programs run on it, and a test reads what is on its screen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Sequence

import pyte


def screen_of(
    command: Sequence[str],
    *,
    size: tuple[int, int] = (80, 50),
    until: Callable[[list[str]], bool] | None = None,
    status: int = 0,
) -> list[str]:
    """The lines of a terminal of ``size`` (columns, rows) when a command has ended with ``status``.

    With ``until`` they are those for which it first holds; Ctrl-C then ends the command.
    """
    screen = pyte.Screen(*size)
    stream, found = pyte.ByteStream(screen), list[str]()
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**environment, "TERM": "xterm"}
    )
    os.close(theirs)
    with contextlib.suppress(OSError):  # the read that finds the command ended
        while text := os.read(ours, 65536):
            stream.feed(text)
            if until is not None and not found and until(list(screen.display)):
                found = list(screen.display)
                process.send_signal(signal.SIGINT)
    os.close(ours)
    assert process.wait() == status, "\n".join(screen.display)
    assert until is None or found, "\n".join(screen.display)
    return found or list(screen.display)
