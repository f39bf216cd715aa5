"""Makes a context CUDA's current one on a thread, in a way that survives exceptions of signal handlers."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

from .api import check

POPPED = ctypes.byref(ctypes.c_void_p())
"""Memory for the context that the driver popped, which nobody reads."""


@contextlib.contextmanager
def entered(cuda: Any, context: int) -> Iterator[None]:
    """Within the block a context, given by its handle, is CUDA's current one on this thread."""
    if is_current(cuda, context):
        yield
        return
    left = False
    try:
        push(cuda, context)
        yield
        cuda.cuCtxPopCurrent_v2(POPPED)
        left = True
    finally:
        if not left:
            leave(cuda, context)


def is_current(cuda: Any, context: int) -> bool:
    current = ctypes.c_void_p()
    cuda.cuCtxGetCurrent(ctypes.byref(current))
    return current.value == context


def push(cuda: Any, context: int) -> None:
    status = cuda.cuCtxPushCurrent_v2(context)
    if status:
        check(status, "making a CUDA context current")


def leave(cuda: Any, context: int) -> None:
    """Pop a context that was not current before it was pushed: an exception, as of a signal handler, may have come
    before it was, or after it was popped.
    """
    if is_current(cuda, context):
        cuda.cuCtxPopCurrent_v2(POPPED)
