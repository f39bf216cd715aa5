"""Steps recorded one by one: kernel objects with their arguments set, and the calls that submit them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyopencl as cl

from ...binaries import BinaryStore
from ...device import Resource, Slot, Step
from ...record.barrier import BarrierWatch
from ..api import check, loader
from ..context import ClContext
from ..objects import ClBuffer, ClImage
from .command_buffer import CommandBuffer, CommandBuffers, Dispatch
from .kernel import ClKernel, build_kernels

Call = tuple[Callable[..., int], tuple[Any, ...]]
Place = tuple[cl.Kernel, int]
"""An argument of a kernel object, by its index."""
SlotPlace = tuple[ctypes.c_void_p, tuple[Any, ...]]
"""A cl_mem, and the arguments of clSetKernelArg that make it an argument of a kernel object."""


@dataclass
class Recording:
    """The calls of a run, and what changes in them: implements record.command_list.Recording."""

    calls: list[Call] = field(default_factory=list)
    slots: dict[str, list[SlotPlace]] = field(default_factory=dict)
    """The kernel arguments that take a slot's resource."""
    parameters: dict[tuple[int, str], Place] = field(default_factory=dict)
    """The first of the kernel arguments that hold a picture's floats, by step number and argument."""
    dispatches: list[tuple[str, Dispatch]] = field(default_factory=list)
    """The label of each dispatch, and how to enqueue it alone, for timings."""
    command_buffers: list[CommandBuffer] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)
    """The recording's own memory. A kernel's argument does not keep memory alive."""
    barriers: int = 0
    watch: BarrierWatch | None = None

    def fill(self, slot: str, resource: ClBuffer | ClImage) -> None:
        """Put a resource into the kernel arguments of a slot."""
        pointer, set_argument = resource.place, loader().clSetKernelArg
        for value, arguments in self.slots[slot]:
            value.value = pointer
            status = set_argument(*arguments)
            if status:
                check(status, f"giving a kernel {resource.label}")

    def submit(self) -> int:
        """Make the calls of a run. Returns OpenCL's status."""
        for function, arguments in self.calls:
            status = function(*arguments)
            if status:
                return status
        return 0

    def set_parameters(self, step: int, argument: str, values: Sequence[float]) -> None:
        """Change the floats that a step passes for a picture."""
        set_parameters(self.parameters[step, argument], values)

    def release(self) -> None:
        for buffer in self.command_buffers:
            buffer.release()
        for held in (self.calls, self.slots, self.parameters, self.dispatches, self.command_buffers, self.kept):
            held.clear()

    def set_memory(self, place: Place, resource: Resource | Slot) -> None:
        """Set an argument that is fixed; note one that a slot will set."""
        kernel, index = place
        if isinstance(resource, Slot):
            value = ctypes.c_void_p()
            handle, size = ctypes.c_void_p(kernel.int_ptr), ctypes.c_size_t(ctypes.sizeof(value))
            arguments = handle, ctypes.c_uint(index), size, ctypes.byref(value)
            self.slots.setdefault(resource.name, []).append((value, arguments))
        else:
            assert isinstance(resource, ClBuffer | ClImage)
            kernel.set_arg(index, resource.memory)


def record_separately(
    context: ClContext, steps: Sequence[Step], command_buffers: CommandBuffers | None, store: BinaryStore | None
) -> Recording:
    """Record one dispatch per step. Steps with slots or parameters are enqueued one by one.

    The other steps that follow each other become one command buffer, if the driver has cl_khr_command_buffer.
    """
    build_kernels(context, [step.kernel for step in steps if isinstance(step.kernel, ClKernel)], store)
    recording = Recording()
    waiting: list[Dispatch] = []

    def submit_waiting() -> None:
        if command_buffers is not None and len(waiting) > 1:
            buffer = CommandBuffer(command_buffers, waiting)
            recording.command_buffers.append(buffer)
            recording.calls.append((buffer.enqueue, buffer.arguments))
        else:
            recording.calls.extend(enqueue(context, dispatch) for dispatch in waiting)
        waiting.clear()

    for number, step in enumerate(steps):
        dispatch = dispatch_of(recording, number, step)
        recording.dispatches.append((step.label, dispatch))
        changes = step.parameters or any(isinstance(o.resource, Slot) for o in step.operands.values())
        if changes:
            submit_waiting()
            recording.calls.append(enqueue(context, dispatch))
        else:
            waiting.append(dispatch)
    submit_waiting()
    recording.calls.append(flush(context))
    return recording


def dispatch_of(recording: Recording, number: int, step: Step) -> Dispatch:
    """A kernel object for the step, with every argument set but those that are slots, and its sizes."""
    assert isinstance(step.kernel, ClKernel) and step.kernel.built is not None
    source, built = step.kernel.source, step.kernel.built
    kernel = cl.Kernel(built.program, built.place.name)
    memories = [arguments[0] for arguments in source.memories.values()]
    for index, argument in enumerate([*memories, *source.textures]):
        recording.set_memory((kernel, index), step.operands[argument.name].resource)
    index = len(memories) + len(source.textures)
    offsets = [step.operands[argument.name].offset // argument.unit for argument in source.buffers]
    for value in (*offsets, *step.kernel.strides):
        kernel.set_arg(index, np.int32(value))
        index += 1
    for argument in source.pictures:
        recording.parameters[number, argument.name] = (kernel, index)
        recording.set_parameters(number, argument.name, step.parameters[argument.name])
        index += argument.quads
    size = ctypes.c_size_t * 1
    return kernel, size(source.group_size * step.group_count), size(source.group_size)


def set_parameters(place: Place, values: Sequence[float]) -> None:
    """Set a picture's floats, which are float4 arguments."""
    kernel, first = place
    for i, row in enumerate(np.array(values, np.float32).reshape(-1, 4)):
        kernel.set_arg(first + i, row)


def enqueue(context: ClContext, dispatch: Dispatch) -> Call:
    """The call that submits a kernel object with the arguments that it then has."""
    kernel, global_size, local_size = dispatch
    handle, one, none = ctypes.c_void_p(kernel.int_ptr), ctypes.c_uint(1), ctypes.c_uint(0)
    return loader().clEnqueueNDRangeKernel, (
        context.queue_handle, handle, one, None, global_size, local_size, none, None, None,
    )  # fmt: skip


def flush(context: ClContext) -> Call:
    """The call that flushes the queue. Else the driver may keep the commands until somebody waits for them."""
    return loader().clFlush, (context.queue_handle,)
