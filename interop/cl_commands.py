"""Steps recorded once: kernel objects with their arguments set, and the calls that submit them, run many times."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyopencl as cl

from ..kernels.source import PICTURE_PARAMETERS, Argument, KernelSource
from .cl_api import check, loader
from .cl_command_buffer import CommandBuffer, CommandBuffers, Dispatch
from .cl_context import ClContext, wait_for_all
from .cl_objects import ClBuffer, ClImage, Partner, Use
from .device import Resource, Slot, Step, Traits
from .errors import BindingError
from .recording import SlotUse, check_resource, check_slot, check_steps, check_view

Call = tuple[Callable[..., int], tuple[Any, ...]]


class ClKernel:
    """A built program. Each step gets a kernel object of its own, which keeps its arguments between runs."""

    def __init__(self, context: ClContext, source: KernelSource, program: cl.Program, text: str) -> None:
        self.context, self.source, self.program, self.text = context, source, program, text


@dataclass
class _SlotUse(SlotUse):
    """A slot with the kernel arguments (kernel, index) that its resource is."""

    arguments: list[tuple[cl.Kernel, int]] = field(default_factory=list)


class ClCommandList:
    """Implements interop.device.CommandList on the queue of a ClContext.

    Steps that use a slot or take parameters are enqueued one by one. Of the others, those that follow each other are
    recorded as one command buffer where ``command_buffers``, the device's cl_khr_command_buffer, is not None.
    """

    barriers = 0
    """None are issued: the queue is in order."""

    def __init__(
        self, context: ClContext, traits: Traits, steps: Sequence[Step], command_buffers: CommandBuffers | None
    ) -> None:
        self.steps = tuple(steps)
        self._context, self._traits, self._released = context, traits, False
        self._slots: dict[str, _SlotUse] = {}
        self._fixed: dict[int, ClBuffer | ClImage] = {}
        self._check_steps()
        self._parameters: list[dict[str, Sequence[float]]] = [dict(step.parameters) for step in self.steps]
        self._dispatches = [self._dispatch(number) for number in range(len(self.steps))]
        self._command_buffers: list[CommandBuffer] = []
        self._calls = self._record(command_buffers)
        self._slot_uses, self._fixed_resources = tuple(self._slots.values()), tuple(self._fixed.values())
        self._partners: tuple[tuple[Partner, list[Use]], ...] = ()
        self._find_partners()

    @property
    def calls_per_run(self) -> int:
        """How many OpenCL calls one run issues."""
        return len(self._calls)

    # Checks ----------------------------------------------------------------------------------------------------------

    def _check_steps(self) -> None:
        """Every check that can be made before recording; fills the slots' lists of uses."""
        for step in self.steps:
            if not isinstance(step.kernel, ClKernel) or step.kernel.context is not self._context:
                raise BindingError(f"step '{step.label}': its kernel was compiled for another device")
        check_steps(self.steps)
        for number, step in enumerate(self.steps):
            for argument in step.kernel.source.arguments:
                operand = step.operands[argument.name]
                where = f"step '{step.label}', argument '{argument.name}'"
                if isinstance(operand.resource, Slot):
                    use = self._slots.setdefault(operand.resource.name, _SlotUse(operand.resource.name))
                    use.places.append((number, argument, operand, where))
                else:
                    resource = self._checked(operand.resource, argument, where)
                    self._fixed[id(resource)] = resource

    def _checked(self, resource: Resource, argument: Argument, where: str) -> ClBuffer | ClImage:
        """The resource. Raises BindingError where it is of another context, kind or format than the argument needs."""
        if not isinstance(resource, ClBuffer | ClImage):
            raise BindingError(f"{where}: '{resource.label}' does not belong to {self._context}")
        if resource.released:
            raise BindingError(f"{where}: '{resource.label}' is released")
        if resource.memory.context != self._context.context:
            raise BindingError(f"{where}: '{resource.label}' does not belong to {self._context}")
        check_view(resource, argument, self._traits, where)
        resource.check_access(argument.access, where)
        return resource

    # Recording -------------------------------------------------------------------------------------------------------

    def _dispatch(self, number: int) -> Dispatch:
        """The step's kernel object, with every argument set but those that are slots, and its sizes."""
        step = self.steps[number]
        assert isinstance(step.kernel, ClKernel)
        source = step.kernel.source
        kernel = cl.Kernel(step.kernel.program, source.name)
        memories = [arguments[0] for arguments in source.memories.values()]
        for index, argument in enumerate([*memories, *source.pictures]):
            resource = step.operands[argument.name].resource
            if isinstance(resource, Slot):
                self._slots[resource.name].arguments.append((kernel, index))
            else:
                kernel.set_arg(index, self._fixed[id(resource)].memory)
        index = len(memories) + len(source.pictures)
        for argument in source.buffers:
            kernel.set_arg(index, np.int32(step.operands[argument.name].offset // argument.unit))
            index += 1
        for argument in source.pictures:
            _set_parameters(kernel, source, argument.name, step.parameters[argument.name])
        size = ctypes.c_size_t * 1
        return kernel, size(source.group * step.tiles), size(source.group)

    def _record(self, command_buffers: CommandBuffers | None) -> list[Call]:
        calls: list[Call] = []
        waiting: list[Dispatch] = []

        def submit_waiting() -> None:
            if command_buffers is not None and len(waiting) > 1:
                buffer = CommandBuffer(command_buffers, waiting)
                self._command_buffers.append(buffer)
                calls.append((buffer.enqueue, buffer.arguments))
            else:
                calls.extend(self._enqueue(dispatch) for dispatch in waiting)
            waiting.clear()

        for step, dispatch in zip(self.steps, self._dispatches, strict=True):
            changes = step.parameters or any(isinstance(o.resource, Slot) for o in step.operands.values())
            if changes:
                submit_waiting()
                calls.append(self._enqueue(dispatch))
            else:
                waiting.append(dispatch)
        submit_waiting()
        # Without this the driver may keep what it was given until somebody waits for it.
        calls.append((loader().clFlush, (ctypes.c_void_p(self._context.queue.int_ptr),)))
        return calls

    def _enqueue(self, dispatch: Dispatch) -> Call:
        kernel, global_size, local_size = dispatch
        queue = ctypes.c_void_p(self._context.queue.int_ptr)
        handle, one, none = ctypes.c_void_p(kernel.int_ptr), ctypes.c_uint(1), ctypes.c_uint(0)
        arguments = (queue, handle, one, None, global_size, local_size, none, None, None)
        return loader().clEnqueueNDRangeKernel, arguments

    # Running ---------------------------------------------------------------------------------------------------------

    def set_slot(self, name: str, resource: Resource) -> None:
        """Give a slot its resource. Raises BindingError where it is of a wrong kind, format, size or context."""
        use = self._slots.get(name)
        if use is None:
            raise BindingError(f"there is no slot '{name}' in this command list, only {sorted(self._slots)}")
        if resource is use.resource and not resource.released:
            return
        for _, argument, operand, where in use.places:
            self._checked(resource, argument, where)
            if not resource.format:
                check_resource(resource, operand, where)
        assert isinstance(resource, ClBuffer | ClImage)
        for kernel, index in use.arguments:
            kernel.set_arg(index, resource.memory)
        use.resource, use.checked = resource, False
        self._find_partners()

    def _find_partners(self) -> None:
        """Whom a run must tell that it uses memory of theirs, and which; found anew when a slot changes."""
        uses = [Use(resource, "rw", resource.nbytes) for resource in self._fixed.values() if resource.partner]
        for slot in self._slots.values():
            resource = slot.resource
            if isinstance(resource, ClBuffer | ClImage) and resource.partner is not None:
                access = "".join(argument.access for _, argument, _, _ in slot.places)
                nbytes = max(operand.offset + operand.nbytes for _, _, operand, _ in slot.places)
                uses.append(Use(resource, access, nbytes))
        partners = {use.resource.partner for use in uses}
        self._partners = tuple(
            (partner, [use for use in uses if use.resource.partner is partner])
            for partner in partners
            if partner is not None
        )

    def set_parameters(self, step: int, argument: str, values: tuple[float, ...]) -> None:
        """Change the sixteen floats (see layout.picture_parameters) that step number ``step`` passes for a picture."""
        if argument not in self._parameters[step] or len(values) != PICTURE_PARAMETERS:
            raise BindingError(
                f"step '{self.steps[step].label}': '{argument}' is no picture, or was given {len(values)} values "
                f"instead of {PICTURE_PARAMETERS}"
            )
        self._context.check()
        self._parameters[step][argument] = values
        _set_parameters(self._dispatches[step][0], self.steps[step].kernel.source, argument, values)
        for use in self._slot_uses:
            use.checked = False

    def run(self) -> None:
        """Submit all steps. Raises BindingError for an empty or released slot, DeviceError for a closed context."""
        self._prepare()
        if self._partners:
            with self._partners_told():
                self._submit()
        else:
            self._submit()

    def _submit(self) -> None:
        for function, arguments in self._calls:
            status = function(*arguments)
            if status:
                check(status, f"running on {self._context}")

    @contextlib.contextmanager
    def _partners_told(self) -> Iterator[None]:
        told: list[tuple[Partner, list[Use]]] = []
        try:
            for partner, uses in self._partners:
                partner.before_run(uses)
                told.append((partner, uses))
            yield
        finally:
            for partner, uses in told:
                partner.after_run(uses)

    def _prepare(self) -> None:
        self._context.check()
        if self._released:
            raise BindingError("this command list is released: record the steps again")
        for use in self._slot_uses:
            if not use.checked or use.resource is None or use.resource.released:
                check_slot(use, self._parameters)
        # A kernel argument keeps no memory alive: running on freed memory would crash the process.
        for resource in self._fixed_resources:
            if resource.released:
                raise BindingError(f"'{resource.label}' is released: record the steps again with another one")

    def timings(self) -> list[tuple[str, int]]:
        """Run once and return (label, nanoseconds on the device) of each step. For measurements: it waits."""
        self._prepare()
        self._context.finish()
        context, profiling = self._context, cl.command_queue_properties.PROFILING_ENABLE
        queue = cl.CommandQueue(context.context, context.device, profiling)
        events = [
            cl.enqueue_nd_range_kernel(queue, kernel, tuple(global_size), tuple(local_size))
            for kernel, global_size, local_size in self._dispatches
        ]
        wait_for_all(queue)
        return [(s.label, e.profile.end - e.profile.start) for s, e in zip(self.steps, events, strict=True)]

    def release(self) -> None:
        """Let go of the steps' resources. More than once."""
        self._released = True
        for buffer in self._command_buffers:
            buffer.release()
        self.steps, self._calls, self._slot_uses, self._fixed_resources, self._partners = (), [], (), (), ()
        for held in (self._command_buffers, self._dispatches, self._parameters, self._slots, self._fixed):
            held.clear()


def _set_parameters(kernel: cl.Kernel, source: KernelSource, name: str, values: tuple[float, ...]) -> None:
    """Set a picture's four float4 arguments, which stand behind memories, images and offsets."""
    before = len(source.memories) + len(source.pictures) + len(source.buffers)
    first = before + 4 * [argument.name for argument in source.pictures].index(name)
    for i, row in enumerate(np.array(values, np.float32).reshape(4, 4)):
        kernel.set_arg(first + i, row)
