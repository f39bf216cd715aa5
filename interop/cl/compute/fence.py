"""A point in an OpenCL queue's work, by raw calls: pyopencl's marker and event take several times as long."""

from __future__ import annotations

import ctypes
import time

import pyopencl as cl

from ...forks import free
from ...record.barrier import BarrierWatch
from ..api import check, loader
from ..context import ClContext

_EXECUTION_STATUS, _COMPLETE = 0x11D3, 0


class ClFence:
    """A point in the queue's work."""

    def __init__(self, context: ClContext, watch: BarrierWatch) -> None:
        self._context, self._watch, self._made = context, watch, time.perf_counter()
        self._event, self._flushed = ctypes.c_void_p(), False
        status = loader().clEnqueueMarkerWithWaitList(context.queue_handle, 0, None, ctypes.byref(self._event))
        if status:
            check(status, f"marking a point in {context}")

    def __del__(self) -> None:
        if self._event:
            free(loader().clReleaseEvent, self._event)

    @property
    def handle(self) -> cl.Event:
        """The marker as a pyopencl.Event, which keeps it alive."""
        self._flush()
        assert self._event.value is not None
        return cl.Event.from_int_ptr(self._event.value)

    @property
    def done(self) -> bool:
        """Whether the device has passed this point. Never waits."""
        self._context.check()
        self._flush()
        status = ctypes.c_int()
        given = loader().clGetEventInfo(self._event, _EXECUTION_STATUS, ctypes.c_size_t(4), ctypes.byref(status), None)
        if given:
            check(given, f"asking {self._context} for its progress")
        return status.value <= _COMPLETE

    def wait(self) -> None:
        """Block until the device has passed this point. Raises DeviceError if a run before it has failed."""
        if self._context.closed:
            self._context.check()
        status = loader().clWaitForEvents(1, ctypes.byref(self._event))  # which flushes the queue itself
        if status:
            check(status, f"waiting for {self._context}")
        self._watch.waited(self._made)

    def _flush(self) -> None:
        """Flush the queue, once. Else the driver may keep the marker until somebody waits, and ``done`` stays False."""
        if not self._flushed:
            self._flushed = True
            status = loader().clFlush(self._context.queue_handle)
            if status:
                check(status, f"flushing {self._context}")
