"""A copy of a GL buffer to the host that the GPU makes when it gets there."""

from __future__ import annotations

import ctypes
import weakref

import numpy as np

from ..errors import DeviceError
from .context import GlContext
from .fences import is_passed, make_fence, wait_and_delete
from .gl_object import COPY_BARRIERS
from .khronos import GL
from .mapping import map_buffer, unmap_buffer
from .query import checked, raise_if_reset
from .state import copied_buffers, kept


class GlHostCopy:
    """Staging memory for bytes of a buffer, to which the GPU copies, and the fence behind the copy. See HostCopy."""

    def __init__(self, context: GlContext, id: int, offset: int, nbytes: int) -> None:
        self._context, self._source, self._nbytes = context, (id, offset), nbytes
        self._fences = list[int]()
        """The fence, while a copy is on its way."""
        self._staging = context.objects.generate("buffer")
        self._finalizer = weakref.finalize(self, _free, context, self._staging, self._fences)
        self._finalizer.atexit = False
        with kept(context, copied_buffers), checked(context, f"making room for {nbytes} bytes that are read"):
            context.gl.glBindBuffer(GL.COPY_WRITE_BUFFER, self._staging)
            context.gl.glBufferData(GL.COPY_WRITE_BUFFER, nbytes, None, GL.STREAM_READ)
            context.gl.glBindBuffer(GL.COPY_WRITE_BUFFER, 0)

    def begin(self) -> None:
        _drop_fences(self._context, self._fences)
        gl, (id, offset) = self._context.gl, self._source
        with kept(self._context, copied_buffers):
            gl.glBindBuffer(GL.COPY_READ_BUFFER, id)
            gl.glBindBuffer(GL.COPY_WRITE_BUFFER, self._staging)
            unmap_buffer(self._context, GL.COPY_WRITE_BUFFER, self._staging)  # left by a copy that was interrupted
            gl.glMemoryBarrier(COPY_BARRIERS)
            gl.glCopyBufferSubData(GL.COPY_READ_BUFFER, GL.COPY_WRITE_BUFFER, offset, 0, self._nbytes)
            gl.glBindBuffer(GL.COPY_READ_BUFFER, 0)
            gl.glBindBuffer(GL.COPY_WRITE_BUFFER, 0)
        self._fences.append(make_fence(self._context))
        gl.glFlush()  # else the driver may keep frame and copy until somebody waits

    @property
    def is_done(self) -> bool:
        return not self._fences or is_passed(self._context, self._fences[0])

    def fill(self, array: np.ndarray) -> None:
        if self._fences:
            wait_and_delete(self._context, self._fences.pop())
        gl = self._context.gl
        with kept(self._context, copied_buffers):
            gl.glBindBuffer(GL.COPY_WRITE_BUFFER, self._staging)
            address = map_buffer(self._context, GL.COPY_WRITE_BUFFER, self._staging, array.nbytes, GL.MAP_READ_BIT)
            if address:
                ctypes.memmove(array.ctypes.data, address, array.nbytes)
            unmap_buffer(self._context, GL.COPY_WRITE_BUFFER, self._staging)
            gl.glBindBuffer(GL.COPY_WRITE_BUFFER, 0)
        raise_if_reset(self._context)
        if not address:
            raise DeviceError(f"{self._context} cannot map {array.nbytes} bytes that it copied: is its memory full?")

    def release(self) -> None:
        self._finalizer()


def _drop_fences(context: GlContext, fences: list[int]) -> None:
    """Forget the copy that is on its way."""
    while fences:
        context.objects.defer_delete("sync", fences.pop())


def _free(context: GlContext, staging: int, fences: list[int]) -> None:
    _drop_fences(context, fences)
    context.objects.defer_delete("buffer", staging)
