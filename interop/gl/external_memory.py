"""Memory that GL does not allocate: imported by file descriptors, or the host's own; semaphores; the GPUs' UUIDs.

The extensions are GL_EXT_memory_object_fd, GL_EXT_semaphore_fd, GL_NV_timeline_semaphore and GL_AMD_pinned_memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import query as gl_query
from .buffer import GlBuffer
from .context import GlContext
from .khronos import GL
from .state import copied_buffers, kept, pinned_buffer

MEMORY_EXTENSION, SEMAPHORE_EXTENSION = "GL_EXT_memory_object_fd", "GL_EXT_semaphore_fd"
PINNED_EXTENSION, TIMELINE_EXTENSION = "GL_AMD_pinned_memory", "GL_NV_timeline_semaphore"


def device_uuids(context: GlContext) -> list[bytes]:
    """The UUIDs (16 bytes each) of the GPUs that the context uses. It must have MEMORY_EXTENSION."""
    uuid = (ctypes.c_uint8 * GL.UUID_SIZE_EXT)()
    found = []
    for i in range(context.gl.integer(GL.NUM_DEVICE_UUIDS_EXT)):
        context.gl.glGetUnsignedBytei_vEXT(GL.DEVICE_UUID_EXT, i, uuid)
        found.append(bytes(uuid))
    return found


def import_buffer(
    context: GlContext, nbytes: int, descriptor: int, allocated: int, label: str, *, has_content: bool = False
) -> GlBuffer:
    """Make a buffer in memory that a file descriptor stands for. It has ``allocated`` bytes. GL then owns the
    descriptor.

    The buffer is filled with zeros, unless the memory has content already. Raises DeviceError if the driver refuses it.
    """
    # No memory of its own before: to clear that would clear the imported memory on NVIDIA, later than it is written.
    gl, memory = context.gl, ctypes.c_uint()
    with _closed_on_error(descriptor):
        buffer = GlBuffer.without_storage(nbytes, label)
        with gl_query.checked(context, f"making a memory object for {label}"):
            gl.glCreateMemoryObjectsEXT(1, ctypes.byref(memory))
        context.objects.live["memory object"] += 1
        weakref.finalize(buffer, context.objects.defer_delete, "memory object", memory.value).atexit = False
        _import(context, descriptor, gl.glImportMemoryFdEXT, memory, allocated)
    with kept(context, copied_buffers), gl_query.checked(context, f"importing the memory of {label}"):
        gl.glBindBuffer(GL.COPY_WRITE_BUFFER, buffer.id)
        gl.glBufferStorageMemEXT(GL.COPY_WRITE_BUFFER, (nbytes + 3) // 4 * 4, memory, 0)
        if not has_content:
            gl_query.clear_buffer(context, buffer.id, (nbytes + 3) // 4)
        gl.glBindBuffer(GL.COPY_WRITE_BUFFER, 0)
        gl.glFinish()
    return buffer


def pin_buffer(context: GlContext, memory: np.ndarray, label: str) -> GlBuffer:
    """Make a buffer that stands on memory of the host, whole pages, which GL reads and writes in place.

    The memory lives until GL has deleted the buffer. Needs PINNED_EXTENSION. Raises DeviceError if the driver refuses.
    """
    buffer, gl = GlBuffer.without_storage(memory.nbytes, label), context.gl
    with kept(context, pinned_buffer), gl_query.checked(context, f"pinning the memory of {label}"):
        context.objects.memory[buffer.id] = memory
        gl.glBindBuffer(GL.EXTERNAL_VIRTUAL_MEMORY_BUFFER_AMD, buffer.id)
        gl.glBufferData(
            GL.EXTERNAL_VIRTUAL_MEMORY_BUFFER_AMD,
            memory.nbytes,
            memory.ctypes.data_as(ctypes.c_void_p),
            GL.DYNAMIC_COPY,
        )
        gl.glBindBuffer(GL.EXTERNAL_VIRTUAL_MEMORY_BUFFER_AMD, 0)
    return buffer


class GlSemaphore:
    """A binary semaphore, imported by a file descriptor, which GL then owns. Deleted when it is collected."""

    def __init__(self, context: GlContext, descriptor: int) -> None:
        self._context = context
        with _closed_on_error(descriptor):
            self._id = context.objects.generate("semaphore")
            weakref.finalize(self, context.objects.defer_delete, "semaphore", self._id).atexit = False
            _import(context, descriptor, context.gl.glImportSemaphoreFdEXT, self._id)

    def signal(self, buffers: list[int]) -> None:
        """Signal it when all GL work issued so far is done and its writes to the buffers are visible outside GL."""
        self._context.gl.glSignalSemaphoreEXT(self._id, *_names(buffers), 0, None, None)
        self._context.gl.glFlush()  # whoever waits for it cannot make GL submit it

    def wait(self, buffers: list[int]) -> None:
        """Make later GL work wait for the signal, and see the writes to the buffers that came before it."""
        self._context.gl.glWaitSemaphoreEXT(self._id, *_names(buffers), 0, None, None)


class GlTimeline:
    """A semaphore that counts up (TIMELINE_EXTENSION), imported by a file descriptor, which GL then owns.

    Deleted when it is collected.
    """

    def __init__(self, context: GlContext, descriptor: int) -> None:
        self._context, gl, name = context, context.gl, ctypes.c_uint()
        kind = ctypes.c_int(GL.SEMAPHORE_TYPE_TIMELINE_NV)
        with _closed_on_error(descriptor):
            with gl_query.checked(context, "making a semaphore that counts up"):
                gl.glCreateSemaphoresNV(1, ctypes.byref(name))
                gl.glSemaphoreParameterivNV(name, GL.SEMAPHORE_TYPE_NV, ctypes.byref(kind))
            self._id = name.value
            context.objects.live["semaphore"] += 1
            weakref.finalize(self, context.objects.defer_delete, "semaphore", self._id).atexit = False
            _import(context, descriptor, gl.glImportSemaphoreFdEXT, self._id)

    def signal(self, value: int, buffers: list[int]) -> None:
        """Set it to ``value`` when all GL work issued so far is done and its writes to the buffers are visible outside
        GL. The value is larger than any before.
        """
        gl = self._context.gl
        gl.glSemaphoreParameterui64vEXT(self._id, GL.TIMELINE_SEMAPHORE_VALUE_NV, ctypes.byref(ctypes.c_uint64(value)))
        gl.glSignalSemaphoreEXT(self._id, *_names(buffers), 0, None, None)
        gl.glFlush()  # whoever waits for it cannot make GL submit it


def _import(context: GlContext, descriptor: int, function: Callable[..., Any], *arguments: Any) -> None:
    """Let GL import a file descriptor. GL owns it only if that works."""
    with gl_query.checked(context, "importing a file descriptor"):
        function(*arguments, GL.HANDLE_TYPE_OPAQUE_FD_EXT, descriptor)


@contextlib.contextmanager
def _closed_on_error(descriptor: int) -> Iterator[None]:
    """Close a file descriptor if the block, in which GL was to take it, fails."""
    try:
        yield
    except Exception:  # not a Ctrl-C: GL may have it by then
        os.close(descriptor)
        raise


def _names(buffers: list[int]) -> tuple[int, ctypes.Array[ctypes.c_uint]]:
    return len(buffers), (ctypes.c_uint * len(buffers))(*buffers)
