"""A copy of a GPU's memory to the host that the GPU makes when it gets there."""

from __future__ import annotations

import ctypes

import numpy as np

from .api import NOT_READY, ask, check, driver
from .context import CudaContext


class CudaHostCopy:
    """Pinned memory of the host for bytes of a GPU's, and the event behind the copy. See HostCopy.

    Into memory that is not pinned CUDA copies only while the caller waits.
    """

    def __init__(self, context: CudaContext, pointer: int, nbytes: int) -> None:
        cuda = driver()
        self._context, self._source, self._nbytes = context, pointer, nbytes
        self._what = f"reading {nbytes} bytes in {context}"
        self._record, self._query = context.by_handles(cuda.cuEventRecord), context.by_handles(cuda.cuEventQuery)
        self._copy, self._wait = (
            context.by_handles(cuda.cuMemcpyDtoHAsync_v2),
            context.by_handles(cuda.cuEventSynchronize),
        )
        with context.entered():
            self._host: int = ask(
                cuda.cuMemAllocHost_v2, ctypes.c_void_p, nbytes, what=f"pinning memory for {nbytes} bytes"
            )
            self._free_host = context.finalize(self, cuda.cuMemFreeHost, self._host)
        self._event = context.new_event(context.waits)
        self._free_event = context.finalize(self, cuda.cuEventDestroy_v2, self._event)

    def begin(self) -> None:
        check(self._copy(self._host, self._source, self._nbytes, self._context.stream), self._what)
        check(self._record(self._event, self._context.stream), self._what)

    @property
    def is_done(self) -> bool:
        status = self._query(self._event)
        if status != NOT_READY:
            check(status, self._what)
        return status == 0

    def fill(self, array: np.ndarray) -> None:
        check(self._wait(self._event), self._what)
        ctypes.memmove(array.ctypes.data, self._host, array.nbytes)

    def release(self) -> None:
        self._free_event()
        self._free_host()  # after the copies that were started, for which CUDA waits
