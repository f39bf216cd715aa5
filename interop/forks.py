"""Forked processes: GPU drivers do not survive a fork, so a child of a process that used one can use none.

The driver's threads do not exist in the child, and a call would wait for them forever, also in a new context. So all
contexts count as closed in the child, and new ones are refused.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from .errors import DeviceError


class _Closable(Protocol):
    closed: bool


_contexts: weakref.WeakSet[_Closable] = weakref.WeakSet()
"""All contexts of this process."""
_of_the_parent: list[_Closable] = []
"""The contexts of the parent process. They are kept alive, because deleting one would call its driver."""
_keepers: list[Callable[[], None]] = []
"""Functions that keep an API's objects alive in a child."""


@dataclass
class _Process:
    """A record of the use of drivers in this process, and in the one from which it was forked."""

    used: bool = False
    """True once a driver was used."""
    forked: bool = False
    """True in a process that was forked from one that used a driver."""


_process = _Process()


def note_use() -> None:
    """Note that this process uses a driver with threads of its own."""
    _process.used = True


def track(context: _Closable) -> None:
    """Let a context be closed in processes that are forked from this one."""
    _contexts.add(context)
    note_use()


def keep_in_children(keep: Callable[[], None]) -> None:
    """Call ``keep`` in each process that is forked from one that used a driver."""
    _keepers.append(keep)


def free(function: Callable[..., object], *arguments: Any) -> None:
    """Call a driver's function that frees an object, but not in a forked process: the object is the parent's, and the
    driver would free it under the parent's running work, or wait for ever.
    """
    if not _process.forked:
        function(*arguments)


def check_process() -> None:
    """Raise DeviceError if this process was forked from one that used a GPU."""
    if _process.forked:
        raise DeviceError(
            f"process {os.getpid()} was forked from one that has used a GPU, and GPU drivers do not survive a fork: "
            "start it anew, with multiprocessing.set_start_method('spawn'), or fork before the first context is made"
        )


def _leave_to_the_parent() -> None:
    _process.forked = _process.used
    _of_the_parent.extend(_contexts)
    for context in _of_the_parent:
        context.closed = True
    if _process.forked:
        for keep in _keepers:
            keep()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_leave_to_the_parent)
