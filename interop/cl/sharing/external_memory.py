"""GPU memory that Vulkan allocates, and that GL and OpenCL import by file descriptors."""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections.abc import Sequence
from typing import Any

import pyopencl

from ...errors import DeviceError
from ...forks import free
from ...gl import external_memory as gl_memory
from ...gl import query as gl_query
from ...gl import vulkan
from ...gl.context import GlContext
from ..api import check, device_uuid, extension, loader
from ..context import ClContext
from ..objects import Use
from .channel import Channel, SharedBuffer

_P, _UINT, _INT, _SIZE = ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_size_t
_EXTENSION, _OPAQUE_FD, _READ_WRITE = "cl_khr_external_memory_opaque_fd", 0x2060, 1
_FUNCTIONS = ("clEnqueueAcquireExternalMemObjectsKHR", "clEnqueueReleaseExternalMemObjectsKHR")
_SEMAPHORE_EXTENSION = "cl_khr_external_semaphore_opaque_fd"
_SEMAPHORE_TYPE, _BINARY, _SEMAPHORE_OPAQUE_FD = 0x203D, 1, 0x2055
_PROBE_BYTES = 4096


class ExternalMemory(Channel):
    """Shares Vulkan's allocations on one GPU with GL and OpenCL. The CPU waits at every change of API."""

    name = "external memory (a Vulkan allocation)"

    def __init__(self, gl: GlContext, cl: ClContext) -> None:
        super().__init__(gl, cl)
        self._vulkan = vulkan.open_device(device_uuid(cl.device))
        types = (_INT, _P, _UINT, _P, _UINT, _P, _P)
        self._acquire, self._release = (extension(cl.device.platform, name, *types) for name in _FUNCTIONS)

    @staticmethod
    def why_not(gl: GlContext, cl: ClContext) -> str | None:
        if sys.platform == "win32":
            return "framebind exports memory as file descriptors only, which Windows has not"
        if _EXTENSION not in cl.device.extensions.split():
            return f"'{cl.name}' has no {_EXTENSION}"
        if not gl_query.has_extension(gl, gl_memory.MEMORY_EXTENSION):
            return f"{gl} has no {gl_memory.MEMORY_EXTENSION}"
        if device_uuid(cl.device) not in gl_memory.device_uuids(gl):
            return f"'{cl.name}' is another GPU than that of {gl}"
        try:
            ExternalMemory(gl, cl).buffer(_PROBE_BYTES, "probe").gl.release()
        except DeviceError as error:
            return str(error)
        return None

    def buffer(self, nbytes: int, label: str) -> SharedBuffer:
        allocation = self._vulkan.allocate(nbytes)
        gl = gl_memory.import_buffer(self.gl, nbytes, allocation.export(), allocation.nbytes, label)
        return SharedBuffer(_import(self.cl.context, allocation), nbytes, label, gl)

    def to_cl(self, uses: Sequence[Use]) -> None:
        self.wait_for_gl()
        self._hand_over(self._acquire, _FUNCTIONS[0], uses)

    def to_gl(self, uses: Sequence[Use]) -> None:
        self._hand_over(self._release, _FUNCTIONS[1], uses)
        self.wait_for_cl()

    def _hand_over(self, function: Any, name: str, uses: Sequence[Use]) -> None:
        memories = (_P * len(uses))(*[use.resource.int_ptr for use in uses])
        check(function(self.cl.queue.int_ptr, len(uses), memories, 0, None, None), name)


class OrderedExternalMemory(ExternalMemory):
    """External memory with semaphores that both APIs import, so that the GPU waits and not the CPU."""

    name = "external memory and semaphores (Vulkan's)"

    def __init__(self, gl: GlContext, cl: ClContext) -> None:
        super().__init__(gl, cl)
        self._gl_done, self._cl_sees = self._semaphore()
        self._gl_sees, self._cl_done = self._semaphore()

    def _semaphore(self) -> tuple[gl_memory.GlSemaphore, ClSemaphore]:
        first, second = self._vulkan.semaphore()
        try:
            gl_side = gl_memory.GlSemaphore(self.gl, first)
        except DeviceError:
            os.close(second)
            raise
        return gl_side, ClSemaphore(self.cl, second)

    @staticmethod
    def why_not(gl: GlContext, cl: ClContext) -> str | None:
        reason = ExternalMemory.why_not(gl, cl)
        if reason is not None:
            return reason
        if _SEMAPHORE_EXTENSION not in cl.device.extensions.split():
            return f"'{cl.name}' has no {_SEMAPHORE_EXTENSION}"
        if not gl_query.has_extension(gl, gl_memory.SEMAPHORE_EXTENSION):
            return f"{gl} has no {gl_memory.SEMAPHORE_EXTENSION}"
        try:
            OrderedExternalMemory(gl, cl)
        except DeviceError as error:
            return str(error)
        return None

    def to_cl(self, uses: Sequence[Use]) -> None:
        self._gl_done.signal(_gl_names(uses))
        self._cl_sees.wait()
        self._hand_over(self._acquire, _FUNCTIONS[0], uses)

    def to_gl(self, uses: Sequence[Use]) -> None:
        self._hand_over(self._release, _FUNCTIONS[1], uses)
        self._cl_done.signal()
        self._gl_sees.wait(_gl_names(uses))


class ClSemaphore:
    """A binary semaphore, imported by a file descriptor, which OpenCL then owns. Released when it is collected."""

    def __init__(self, cl: ClContext, descriptor: int) -> None:
        self._queue, platform = cl.queue, cl.device.platform
        create = extension(platform, "clCreateSemaphoreWithPropertiesKHR", _P, _P, _P, _P)
        release = extension(platform, "clReleaseSemaphoreKHR", _INT, _P)
        types = (_INT, _P, _UINT, _P, _P, _UINT, _P, _P)
        self._wait = extension(platform, "clEnqueueWaitSemaphoresKHR", *types)
        self._signal = extension(platform, "clEnqueueSignalSemaphoresKHR", *types)
        if not (create and release and self._wait and self._signal):
            os.close(descriptor)
            raise DeviceError(f"the driver of '{cl.name}' lacks the functions of cl_khr_semaphore")
        kind = (_SEMAPHORE_TYPE, _BINARY, _SEMAPHORE_OPAQUE_FD, descriptor, 0)
        status = _INT()
        handle = create(cl.context.int_ptr, (ctypes.c_uint64 * len(kind))(*kind), ctypes.byref(status))
        if status.value:
            os.close(descriptor)
            check(status.value, "importing a semaphore into OpenCL (clCreateSemaphoreWithPropertiesKHR)")
        self._handles = (_P * 1)(handle)
        weakref.finalize(self, free, release, handle).atexit = False

    def wait(self) -> None:
        """Let CL work submitted from now on begin after the signal."""
        status = self._wait(self._queue.int_ptr, 1, self._handles, None, 0, None, None)
        check(status, "clEnqueueWaitSemaphoresKHR")

    def signal(self) -> None:
        """Signal it when all CL work submitted so far is done."""
        status = self._signal(self._queue.int_ptr, 1, self._handles, None, 0, None, None)
        check(status, "clEnqueueSignalSemaphoresKHR")
        self._queue.flush()  # who waits for it cannot make OpenCL submit it


def same_gpu(gl: GlContext, cl: ClContext) -> bool | None:
    """Whether the two contexts are on one GPU, by its UUID; None if a driver does not tell."""
    uuid = device_uuid(cl.device)
    if not uuid or not gl_query.has_extension(gl, gl_memory.MEMORY_EXTENSION):
        return None
    return uuid in gl_memory.device_uuids(gl)


def _gl_names(uses: Sequence[Use]) -> list[int]:
    return [use.resource.gl.id for use in uses if isinstance(use.resource, SharedBuffer)]


def _import(context: pyopencl.Context, allocation: vulkan.Allocation) -> pyopencl.Buffer:
    descriptor, status = allocation.export(), _INT()
    properties = (ctypes.c_uint64 * 3)(_OPAQUE_FD, descriptor, 0)
    create = ctypes.CFUNCTYPE(_P, _P, _P, ctypes.c_uint64, _SIZE, _P, _P)(("clCreateBufferWithProperties", loader()))
    handle = create(context.int_ptr, properties, _READ_WRITE, allocation.nbytes, None, ctypes.byref(status))
    if status.value:
        os.close(descriptor)  # what OpenCL refuses stays ours
        check(status.value, "importing memory into OpenCL (clCreateBufferWithProperties)")
    memory: Any = pyopencl.Buffer.from_int_ptr(handle, retain=False)
    return memory
