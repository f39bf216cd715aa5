"""Steps recorded one by one: kernels with their parameters in memory, and the calls that launch them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....kernels.codegen.c_family import dynamic_bytes
from ....kernels.codegen.one_dispatch import ProgramSource
from ....kernels.codegen.source import KernelSource
from ....kernels.codegen.strides import sharing_kernels, stride_values
from ...binaries import BinaryStore
from ...device import Resource, Slot, Step
from ..api import check, driver
from ..arrays import CudaArray
from ..build import Function, build_together, offer
from ..context import CudaContext
from ..objects import CudaImage

Call = tuple[Callable[..., int], tuple[Any, ...]]
_MOST_LOCAL_BYTES = 8
"""CUfunction_attribute: the most local memory that a launch may give to the kernel."""
Place = Any
"""Two 64-bit words in memory that are a kernel's parameter: a pointer, and the pitch if it is a picture."""
Floats = Any
"""The floats of a picture in memory, which are float4 parameters of a kernel."""


class CudaKernel:
    """A kernel's function, built when it is first recorded by itself: steps that are one dispatch never need it."""

    def __init__(self, context: CudaContext, source: KernelSource) -> None:
        self.context, self.source = context, source
        self.built: Function | None = None
        self.strides: tuple[int, ...] = ()
        """The parameters by which it differs from other kernels of the same function."""

    def function(self, store: BinaryStore | None) -> Function:
        """The function, which ``build_kernels`` has built. It is offered to the store."""
        if self.built is None:
            build_kernels(self.context, [self], store)
        assert self.built is not None
        offer(self.built, store)
        return self.built


def build_kernels(
    context: CudaContext,
    kernels: Sequence[CudaKernel],
    store: BinaryStore | None,
    programs: Sequence[ProgramSource] = (),
) -> list[Function]:
    """Build those kernels that are not, and programs, all at once. Returns the programs' functions.

    Raises KernelError with log and text.
    """
    missing = [kernel for kernel in kernels if kernel.built is None]
    sources = sharing_kernels([kernel.source for kernel in missing])
    functions = build_together(context, [*sources, *programs], store)
    for kernel, source, function in zip(missing, sources, functions, strict=False):
        kernel.strides = stride_values(source, kernel.source)
        local = dynamic_bytes(kernel.source)
        if local:
            with context.entered():
                what = f"giving kernel '{kernel.source.name}' {local} bytes of local memory"
                check(driver().cuFuncSetAttribute(function.handle, _MOST_LOCAL_BYTES, local), what)
        kernel.built = function
    return functions[len(missing) :]


@dataclass
class Recording:
    """The calls of a run, and what changes in them: implements record.command_list.Recording."""

    calls: list[Call] = field(default_factory=list)
    slots: dict[str, list[Place]] = field(default_factory=dict)
    """The kernel parameters that take a slot's resource."""
    parameters: dict[tuple[int, str], Floats] = field(default_factory=dict)
    """The floats of pictures, by step number and argument."""
    dispatches: list[tuple[str, Call]] = field(default_factory=list)
    """The label of each dispatch, and the call that launches it in the current context, for timings."""
    kept: list[Any] = field(default_factory=list)
    """Objects that the calls use by address or handle. They are held here, because an address keeps nothing alive."""
    barriers: int = 0
    watch: None = None
    """No watch of the barrier: a cooperative launch cannot fail, as its work-groups are resident together."""

    def fill(self, slot: str, resource: CudaArray | CudaImage) -> None:
        """Put a resource into the kernel parameters of a slot."""
        for place in self.slots[slot]:
            place[0], place[1] = resource.place

    def submit(self) -> int:
        """Make the calls of a run. Returns CUDA's status."""
        for function, arguments in self.calls:
            status = function(*arguments)
            if status:
                return status
        return 0

    def set_parameters(self, step: int, argument: str, values: Sequence[float]) -> None:
        """Change the floats that a step passes for a picture."""
        self.parameters[step, argument][:] = values

    def release(self) -> None:
        for held in (self.calls, self.slots, self.parameters, self.dispatches, self.kept):
            held.clear()

    def memory(self, resource: Resource | Slot) -> Place:
        """The place of a parameter that is memory: a fixed resource, or that of a slot, which is filled later."""
        place = (ctypes.c_uint64 * 2)()
        if isinstance(resource, Slot):
            self.slots.setdefault(resource.name, []).append(place)
        else:
            assert isinstance(resource, CudaArray | CudaImage)
            place[0], place[1] = resource.place
        return place

    def floats(self, step: int, argument: str, values: Sequence[float]) -> list[Any]:
        """The places of the float4 parameters of a picture."""
        floats = self.parameters[step, argument] = (ctypes.c_float * len(values))(*values)
        return [(ctypes.c_float * 4).from_buffer(floats, 16 * i) for i in range(len(values) // 4)]

    def launch(
        self, context: CudaContext, function: Function, places: Sequence[Any], grid: int, group: int, local: int = 0
    ) -> Call:
        """The call that launches a kernel with parameters at these places in memory, and ``local`` bytes of local
        memory beside what the kernel declares.
        """
        addresses = parameter_array(places)
        self.kept += [function, places, addresses]
        sizes = map(ctypes.c_uint, (grid, 1, 1, group, 1, 1, local))
        return driver().cuLaunchKernel, (
            ctypes.c_void_p(function.handle), *sizes, ctypes.c_void_p(context.stream), addresses, None,
        )  # fmt: skip


def parameter_array(places: Sequence[Any]) -> Any:
    """The addresses of parameters, as a launch takes them."""
    return (ctypes.c_void_p * len(places))(*map(ctypes.addressof, places))


def record_separately(
    context: CudaContext, steps: Sequence[Step], store: BinaryStore | None, recording: Recording
) -> Recording:
    """Record one launch per step, in a recording that is empty. A stream runs them in order."""
    for number, step in enumerate(steps):
        record_step(context, number, step, store, recording)
    return recording


def record_step(context: CudaContext, number: int, step: Step, store: BinaryStore | None, recording: Recording) -> None:
    """Add the launch of a step, which has that number."""
    assert isinstance(step.kernel, CudaKernel)
    source, function = step.kernel.source, step.kernel.function(store)
    memories = [arguments[0] for arguments in source.memories.values()]
    places = [recording.memory(step.operands[a.name].resource) for a in (*memories, *source.textures)]
    places += [ctypes.c_int(step.operands[a.name].offset // a.unit) for a in source.buffers]
    places += map(ctypes.c_int, step.kernel.strides)
    for argument in source.pictures:
        places += recording.floats(number, argument.name, step.parameters[argument.name])
    local = dynamic_bytes(source)
    call = recording.launch(context, function, places, step.group_count, source.group_size, local)
    recording.dispatches.append((step.label, call))
    recording.calls.append((context.call, (call[0], *call[1])))
