"""CPU seconds of this process by thread, as Linux counts them."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path

NATIVE = "native"
"""Threads that are not Python's and have the process's name, such as an encoder's own."""


def thread_seconds(before: Mapping[str, float] | None = None) -> dict[str, float]:
    """CPU seconds of the threads that run now, since ``before``, by name. Threads of one name are added up."""
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    process, seconds = Path("/proc/self/comm").read_text().strip(), dict[str, float]()
    for folder in Path("/proc/self/task").iterdir():
        own = (folder / "comm").read_text().strip()
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        name = names.get(int(folder.name), NATIVE if own == process else own)
        seconds[name] = seconds.get(name, 0.0) + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return {name: spent - (before or {}).get(name, 0.0) for name, spent in seconds.items()}
