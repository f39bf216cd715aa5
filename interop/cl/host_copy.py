"""A copy of an OpenCL buffer to the host that the device makes when it gets there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl

from .api import own_errors
from .context import ClContext

_FLAGS, _READ_AND_WRITE = cl.mem_flags, cl.map_flags.READ | cl.map_flags.WRITE
_COMPLETE = cl.command_execution_status.COMPLETE


class ClHostCopy:
    """Memory of the host for bytes of a buffer. See HostCopy.

    It is a mapped buffer that the driver has put into the host's memory: into other memory many drivers copy only while
    the caller waits.
    """

    def __init__(self, context: ClContext, memory: Any, nbytes: int, label: str) -> None:
        self._context, self._memory, self._what = context, memory, f"reading {label}"
        self._event: Any = None
        with own_errors(f"making room in the host's memory for {nbytes} bytes of {label}"):
            self._staging: Any = cl.Buffer(context.context, _FLAGS.READ_WRITE | _FLAGS.ALLOC_HOST_PTR, nbytes)
            map_buffer: Any = cl.enqueue_map_buffer
            mapped = map_buffer(context.queue, self._staging, _READ_AND_WRITE, 0, (nbytes,), np.uint8)
            self._host: Any = mapped[0]

    def begin(self) -> None:
        with own_errors(self._what):
            self._event = cl.enqueue_copy(self._context.queue, self._host, self._memory, is_blocking=False)
            self._context.queue.flush()

    @property
    def is_done(self) -> bool:
        with own_errors(self._what):
            return self._event is None or self._event.command_execution_status <= _COMPLETE

    def fill(self, array: np.ndarray) -> None:
        if self._event is not None:
            with own_errors(self._what):
                self._event.wait()
        array.reshape(-1).view(np.uint8)[:] = self._host[: array.nbytes]

    def release(self) -> None:
        self._event = self._host = self._staging = None  # pyopencl waits for the copy, unmaps and frees
