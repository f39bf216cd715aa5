"""Points in a CUDA stream's work."""

from __future__ import annotations

import ctypes
from typing import Any

from ...errors import BindingError
from ..api import NOT_READY, ask, check, driver
from ..context import NO_TIMES, CudaContext


class CudaEvents:
    """Events of a context that are not in use: making one takes longer than recording it. ``flags`` are CUDA's."""

    def __init__(self, context: CudaContext, *, flags: int = 0) -> None:
        self.context, self._flags, self._free = context, NO_TIMES | flags, list[int]()

    def take(self) -> int:
        """A CUevent."""
        try:
            return self._free.pop()
        except IndexError:
            what = f"making an event in {self.context}"
            with self.context.entered():
                return ask(driver().cuEventCreate, ctypes.c_void_p, self._flags, what=what)

    def give_back(self, event: int) -> None:
        self._free.append(event)

    def close(self) -> None:
        """Destroy them."""
        with self.context.entered():
            while self._free:
                driver().cuEventDestroy_v2(self._free.pop())


class CudaFence:
    """A point in the stream's work.

    Attributes
    ----------
    handle : int
        The CUevent, for other libraries. It is recorded, and lives as long as this object.
    """

    def __init__(self, events: CudaEvents) -> None:
        self._events, self._context = events, events.context
        self.handle = events.take()
        status = self._context.call_by_handles(driver().cuEventRecord, self.handle, self._context.stream)
        if status:
            check(status, f"marking a point in {self._context}")

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self._events.give_back(self.handle)

    @property
    def done(self) -> bool:
        """Whether the GPU has passed this point. Never waits."""
        self._context.check()
        status = self._context.call_by_handles(driver().cuEventQuery, self.handle)
        if status not in (0, NOT_READY):
            check(status, f"asking {self._context} for its progress")
        return status == 0

    def wait(self) -> None:
        """Block until the GPU has passed this point. Raises DeviceError if work before it has failed."""
        self._context.check()
        status = self._context.call_by_handles(driver().cuEventSynchronize, self.handle)
        if status:
            check(status, f"waiting for {self._context}")


def event_handle(event: Any) -> int:
    """The CUevent of one of ours, of torch, CuPy or cuda.core. Raises BindingError for another object."""
    if isinstance(event, CudaFence):
        return event.handle
    for attribute in ("cuda_event", "ptr", "handle"):
        found = getattr(event, attribute, None)
        if found is not None:
            return int(found)
    raise BindingError(
        f"wait_for takes events of CUDA (torch.cuda.Event, cupy.cuda.Event, what gpu_delegate.event() returns), and "
        f"was given a {type(event).__name__}"
    )
