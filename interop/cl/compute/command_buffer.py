"""Kernels recorded once, which one call then submits again and again (cl_khr_command_buffer)."""

from __future__ import annotations

import ctypes
import logging
import weakref
from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from ...forks import free
from ..api import check, device_bits, extension
from ..context import wait_for_all

log = logging.getLogger("framebind")

_P, _UINT, _INT = ctypes.c_void_p, ctypes.c_uint, ctypes.c_int
_CAPABILITIES, _REQUIRED_QUEUE_PROPERTIES, _SIMULTANEOUS_USE_CAPABILITY = 0x12A9, 0x12AA, 1 << 2
_FLAGS, _SIMULTANEOUS_USE = 0x1293, 1
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "clCreateCommandBufferKHR": (_P, _UINT, _P, _P, _P),
    "clCommandNDRangeKernelKHR": (_INT, _P, _P, _P, _P, _UINT, _P, _P, _P, _UINT, _P, _P, _P),
    "clFinalizeCommandBufferKHR": (_INT, _P),
    "clEnqueueCommandBufferKHR": (_INT, _UINT, _P, _P, _UINT, _P, _P),
    "clReleaseCommandBufferKHR": (_INT, _P),
}

Dispatch = tuple[cl.Kernel, Any, Any]
"""A kernel with its arguments set, and its global and its local size as arrays of one c_size_t."""


class CommandBuffers:
    """The functions of cl_khr_command_buffer, for one queue."""

    def __init__(self, queue: cl.CommandQueue, functions: dict[str, Any]) -> None:
        self.queue, self.functions = queue, functions

    @staticmethod
    def on(queue: cl.CommandQueue) -> CommandBuffers | None:
        """The extension, if the device has it for such a queue and may submit a buffer twice at a time; else None."""
        device: cl.Device = queue.device
        if "cl_khr_command_buffer" not in device.extensions.split():
            return None
        if not device_bits(device, _CAPABILITIES) & _SIMULTANEOUS_USE_CAPABILITY:
            return None
        if device_bits(device, _REQUIRED_QUEUE_PROPERTIES) & ~queue.properties:
            return None
        functions = {name: extension(device.platform, name, *types) for name, types in _FUNCTIONS.items()}
        return CommandBuffers(queue, functions) if all(functions.values()) else None


class CommandBuffer:
    """Kernels with all arguments set, in the order in which they run. ``enqueue`` and ``arguments`` submit them all."""

    def __init__(self, extension: CommandBuffers, dispatches: Sequence[Dispatch]) -> None:
        functions, queue = extension.functions, extension.queue
        status = _INT()
        flags = (ctypes.c_uint64 * 3)(_FLAGS, _SIMULTANEOUS_USE, 0)
        handle = functions["clCreateCommandBufferKHR"](1, (_P * 1)(queue.int_ptr), flags, ctypes.byref(status))
        check(status.value, "making a command buffer")
        # Its commands may still run, and must end before it is released.
        self.release = weakref.finalize(self, free, _release, functions["clReleaseCommandBufferKHR"], queue, handle)
        self.release.atexit = False
        for kernel, global_size, local_size in dispatches:
            status.value = functions["clCommandNDRangeKernelKHR"](
                handle, None, None, kernel.int_ptr, 1, None, global_size, local_size, 0, None, None, None
            )
            check(status.value, f"recording kernel '{kernel.function_name}' in a command buffer")
        check(functions["clFinalizeCommandBufferKHR"](handle), "finishing a command buffer")
        self.enqueue = functions["clEnqueueCommandBufferKHR"]
        self.arguments = (0, None, _P(handle), 0, None, None)


def _release(function: Any, queue: cl.CommandQueue, handle: int) -> None:
    try:
        wait_for_all(queue)
    except cl.Error as error:  # a lost device: nothing runs there any more
        log.warning(f"a command buffer is released whose end cannot be awaited: {error}")
    function(handle)
