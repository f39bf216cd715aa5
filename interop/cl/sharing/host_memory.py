"""Host memory that both APIs address: a GL buffer that stays mapped, wrapped as an OpenCL buffer."""

from __future__ import annotations

import ctypes

import numpy as np
import pyopencl

from ...errors import DeviceError
from ...gl import query as gl_query
from ...gl.buffer import GlBuffer
from ...gl.context import GlContext
from ...gl.khronos import GL
from ...gl.state import copied_buffers, kept
from ..api import own_errors
from ..context import ClContext
from .channel import Channel, SharedBuffer

_MAP_READ, _MAP_WRITE, _PERSISTENT, _COHERENT = 0x01, 0x02, 0x40, 0x80
_ACCESS = _MAP_READ | _MAP_WRITE | _PERSISTENT | _COHERENT
_FLAGS = pyopencl.mem_flags.READ_WRITE | pyopencl.mem_flags.USE_HOST_PTR
_PROBE_BYTES, _PROBE_VALUE = 4096, 0x5A


class HostMemory(Channel):
    """Shares a GL buffer that stays mapped. The CPU waits at every change of API.

    Usable if both devices are the CPU, or GPUs without memory of their own.
    """

    name = "host memory (a mapped GL buffer)"

    @staticmethod
    def why_not(gl: GlContext, cl: ClContext) -> str | None:
        if not cl.device.host_unified_memory:
            return f"'{cl.name}' has memory of its own"
        if gl.software != cl.software:
            cpu, gpu = (gl.renderer, cl.name) if gl.software else (cl.name, gl.renderer)
            return f"'{cpu}' is the CPU and '{gpu}' is not: every access would cross the bus between them"
        try:
            return _copied(HostMemory(gl, cl))
        except (DeviceError, pyopencl.Error) as error:
            return str(error)

    def buffer(self, nbytes: int, label: str) -> SharedBuffer:
        gl = GlBuffer(nbytes, label=label)
        memory = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(_map(gl)))
        with own_errors(f"wrapping the memory of '{label}' in {self.cl}"):
            return SharedBuffer(pyopencl.Buffer(self.cl.context, _FLAGS, hostbuf=memory), nbytes, label, gl)


def _map(buffer: GlBuffer) -> int:
    """Give the buffer new storage, of zeros, that stays mapped as long as it lives; returns its address."""
    context, nbytes = buffer.context, (buffer.nbytes + 3) // 4 * 4
    with kept(context, copied_buffers), gl_query.checked(context, f"mapping {buffer.label} for good"):
        storage = context.gl.glBufferStorageEXT if context.is_es else context.gl.glBufferStorage
        context.gl.glBindBuffer(GL.COPY_WRITE_BUFFER, buffer.id)
        storage(GL.COPY_WRITE_BUFFER, nbytes, None, _ACCESS)
        gl_query.clear_buffer(context, buffer.id, nbytes // 4)
        context.gl.glFinish()
        address = context.gl.glMapBufferRange(GL.COPY_WRITE_BUFFER, 0, nbytes, _ACCESS)
        context.gl.glBindBuffer(GL.COPY_WRITE_BUFFER, 0)
    if not address:
        raise DeviceError(f"{context} cannot map {buffer.label} for good")
    return address


def _copied(channel: HostMemory) -> str | None:
    """Test whether the OpenCL driver copies the memory that it is given, which it may do without telling. Returns the
    reason, or None if it does not.
    """
    queue = channel.cl.queue
    shared = channel.buffer(_PROBE_BYTES, "probe")
    host: np.ndarray = shared.memory.hostbuf
    pyopencl.enqueue_fill_buffer(queue, shared.memory, np.full(1, _PROBE_VALUE, np.uint8), 0, _PROBE_BYTES)
    queue.finish()
    written_in_place = bool((host == _PROBE_VALUE).all())
    host[:] = _PROBE_VALUE + 1
    seen = np.empty(_PROBE_BYTES, np.uint8)
    pyopencl.enqueue_copy(queue, seen, shared.memory)
    read_in_place = bool((seen == _PROBE_VALUE + 1).all())
    shared.release()
    shared.gl.release()
    return None if written_in_place and read_in_place else f"the driver of '{channel.cl.name}' copies host memory"
