"""Forked processes: GPU drivers do not survive a fork, so a child cannot use what its parent made on the GPU.

The driver's threads do not exist in the child, and a call would wait for them forever. So all contexts count as closed
in the child, and new ones are refused.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from .errors import DeviceError


class _Closable(Protocol):
    closed: bool


_contexts: weakref.WeakSet[_Closable] = weakref.WeakSet()
"""All contexts of this process."""
_of_the_parent: list[_Closable] = []
"""The contexts of the parent process. They are kept alive, because deleting one would call its driver."""


def track(context: _Closable) -> None:
    """Let a context be closed in processes that are forked from this one."""
    _contexts.add(context)


def check_process() -> None:
    """Raise DeviceError if this process was forked from one that used a GPU."""
    if _of_the_parent:
        raise DeviceError(
            f"process {os.getpid()} was forked from one that has a GPU context, and GPU drivers do not survive a fork: "
            "start it anew, with multiprocessing.set_start_method('spawn'), or fork before the first context is made"
        )


def _leave_to_the_parent() -> None:
    _of_the_parent.extend(_contexts)
    for context in _of_the_parent:
        context.closed = True


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_leave_to_the_parent)
