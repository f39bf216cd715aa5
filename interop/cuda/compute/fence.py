"""Points in a CUDA stream's work."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from ...errors import BindingError
from ..api import NOT_READY, ask, check, driver
from ..context import NO_TIMES, CudaContext


class CudaEvents:
    """Events of a context. An unused event is kept and recorded again, because making one takes longer than recording
    it. ``flags`` are CUDA's.
    """

    def __init__(self, context: CudaContext, *, flags: int = 0) -> None:
        cuda = driver()
        self.context, self.stream, self._flags = context, context.stream, NO_TIMES | flags
        self.unused, self._made, self.closed = list[int](), list[int](), False
        """The CUevents that no fence has, and all that were made; True once ``close`` was called."""
        self.record = context.by_handles(cuda.cuEventRecord)
        self.query = context.by_handles(cuda.cuEventQuery)
        self.synchronize = context.by_handles(cuda.cuEventSynchronize)
        self._destroy = context.finalize(self, functools.partial(_destroy_all, cuda), self._made)

    def make(self) -> int:
        """A new CUevent."""
        what = f"making an event in {self.context}"
        with self.context.entered():
            event: int = ask(driver().cuEventCreate, ctypes.c_void_p, self._flags, what=what)
        self._made.append(event)
        return event

    def close(self) -> None:
        """Destroy the events once all are unused, which is when the last fence is gone; also of a closed context."""
        self.closed = True
        if len(self.unused) == len(self._made):
            self._destroy()
            self.unused.clear()


def _destroy_all(cuda: Any, events: list[int]) -> int:
    while events:
        cuda.cuEventDestroy_v2(events.pop())
    return 0


class CudaFence:
    """A point in the stream's work.

    Attributes
    ----------
    handle : int
        The CUevent, for other libraries. It is recorded, and lives as long as this object.
    """

    def __init__(self, events: CudaEvents) -> None:
        self._events = events
        try:
            self.handle = events.unused.pop()
        except IndexError:  # "if" would let another thread take the last one
            self.handle = events.make()
        status = events.record(self.handle, events.stream)
        if status:
            check(status, f"marking a point in {events.context}")

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self._events.unused.append(self.handle)
            if self._events.closed:
                self._events.close()

    @property
    def done(self) -> bool:
        """Whether the GPU has passed this point. Never waits."""
        events = self._events
        events.context.check()
        status = events.query(self.handle)
        if status not in (0, NOT_READY):
            check(status, f"asking {events.context} for its progress")
        return status == 0

    def wait(self) -> None:
        """Block until the GPU has passed this point. Raises DeviceError if work before it has failed."""
        events = self._events
        if events.context.closed:
            events.context.check()
        status = events.synchronize(self.handle)
        if status:
            check(status, f"waiting for {events.context}")


def event_handle(event: Any) -> int:
    """The CUevent of one of ours, of torch, CuPy or cuda.core. Raises BindingError for another object."""
    if isinstance(event, CudaFence):
        return event.handle
    for attribute in ("cuda_event", "ptr", "handle"):
        found = getattr(event, attribute, None)
        if found is not None and int(found) == 0:
            raise BindingError(f"wait_for was given a {type(event).__name__} that nobody has recorded: record it first")
        if found is not None:
            return int(found)
    raise BindingError(
        f"wait_for takes events of CUDA (torch.cuda.Event, cupy.cuda.Event, what gpu_delegate.event() returns), and "
        f"was given a {type(event).__name__}"
    )
