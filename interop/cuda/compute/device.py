"""The CUDA device: compute capability 7.0 or newer, on one CudaContext."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ....kernels.codegen.one_dispatch import ProgramSource
from ....kernels.codegen.source import KernelSource
from ...binaries import BinaryStore
from ...device import Kernel, Resource, Step, Traits
from ...errors import BindingError
from ...gl.context import GlContext
from ...gl.user_objects import is_gl_object
from ...record.base_device import BaseDevice
from ...record.one_dispatch import Merged, merge
from ..api import ask, attribute, check, driver, driver_version
from ..arrays import CudaArray, new_array
from ..build import Function
from ..context import CudaContext
from ..gl_sharing import GlObjects
from ..nvrtc import WARPGROUPS
from ..objects import IMAGE_FORMATS, CudaImage, new_image
from ..user_objects import as_cuda_object
from .commands import ALIGNMENT, CudaCommandList
from .fence import CudaEvents, CudaFence, event_handle
from .graph import has_early_launches, record_as_graph, record_units
from .one_dispatch import CooperativeLaunch, record_as_one
from .recording import CudaKernel, build_kernels
from .small_steps import units_of

_MAX_THREADS_PER_BLOCK, _SHARED_BYTES_PER_BLOCK, _THREADS_PER_UNIT, _MOST_SHARED_BYTES = 1, 8, 39, 97
"""CUdevice_attribute."""
_TENSOR_CORES_OF_FLOATS = 80
"""The first compute capability whose tensor cores multiply tf32."""
_POINTER_BYTES, _PARAMETER_BYTES, _BYTES_FOR_VALUES = 8, 4096, 512
_LAST_FLOAT = (1 << 31) - 1
"""Kernels count in ints."""
_OBJECTS = CudaArray, CudaImage


class CudaDevice(BaseDevice[CudaKernel, CudaCommandList, CooperativeLaunch]):
    """Implements interop.device.Device on a CudaContext. ``owns_context``: close the context with the device."""

    def __init__(self, context: CudaContext, *, owns_context: bool = False) -> None:
        super().__init__(context, CooperativeLaunch(context), owns_context=owns_context)
        self.context, self._events, number = context, CudaEvents(context), context.device
        self._gl_objects = GlObjects(context)
        self._programs: dict[ProgramSource, Function] = {}
        """The functions of small steps in a row, by their sources."""
        max_group_size = attribute(number, _MAX_THREADS_PER_BLOCK)
        memory = ask(driver().cuDeviceTotalMem_v2, ctypes.c_size_t, number, what=f"asking {context} for its memory")
        self.traits = Traits(
            name=context.name,
            api="cuda",
            driver=f"CUDA {driver_version()}, compute capability {context.capability / 10}",
            group_size=min(256, max_group_size),
            max_group_size=max_group_size,
            invocations=self._barrier.units * attribute(number, _THREADS_PER_UNIT),
            local_bytes=attribute(number, _SHARED_BYTES_PER_BLOCK),
            max_buffer_bytes=min(memory, 4 * _LAST_FLOAT),
            offset_alignment=ALIGNMENT,
            max_memories=(_PARAMETER_BYTES - _BYTES_FOR_VALUES) // _POINTER_BYTES,
            software=False,
            write_formats=frozenset(IMAGE_FORMATS),
            max_textures=_PARAMETER_BYTES // _POINTER_BYTES,
            memories_per_float4=16 // _POINTER_BYTES,
            matrix_units=context.capability >= _TENSOR_CORES_OF_FLOATS,
            warpgroup_bytes=attribute(number, _MOST_SHARED_BYTES) if context.capability == WARPGROUPS else 0,
            early_launches=has_early_launches(context),
        )

    def buffer(self, nbytes: int, label: str) -> CudaArray:
        self.check()
        self._check_size(nbytes, label)
        if nbytes <= 0:
            raise BindingError(f"a buffer of {nbytes} bytes is impossible: it has at least 1")
        made = new_array(self.context, (nbytes,), np.uint8, label)
        made.layout = None
        with self.context.entered():
            what = f"clearing '{label}'"
            check(driver().cuMemsetD8Async(made.pointer, 0, nbytes, self.context.stream), what)
        return made

    def texture(self, width: int, height: int, format: str, label: str) -> CudaImage:
        self.check()
        return new_image(self.context, width, height, format, label)

    def borrow(self, native: Any) -> CudaArray | CudaImage:
        """A user's object as a resource: a CudaArray, a CudaImage, or an array of another library on the GPU; or an
        object of the current GL context, which is copied on the GPU for each run.
        """
        self.check()
        if isinstance(native, _OBJECTS) and native.device == self.context.device:
            return native
        if is_gl_object(native) and GlContext.is_current():
            return self._gl_objects.borrow(native)
        return as_cuda_object(native, self.context)

    def _make_kernel(self, source: KernelSource) -> CudaKernel:
        return CudaKernel(self.context, source)

    def _compile(self, kernels: Collection[Kernel], store: BinaryStore | None) -> None:
        build_kernels(self.context, [kernel for kernel in kernels if isinstance(kernel, CudaKernel)], store)

    def _prefers_one(self, steps: Sequence[Step]) -> bool:
        """Answer no: a graph of separate launches was faster for each of six models, and its kernels compile in
        parallel (docs/decisions/0018). SUSTAINED_SPEED asks for "one", and keeps it if that is faster.
        """
        return False

    def _record_separately(self, steps: Sequence[Step], store: BinaryStore | None) -> CudaCommandList:
        self._compile(dict.fromkeys(step.kernel for step in steps), store)
        record = functools.partial(record_as_graph, self.context, store=store)
        return CudaCommandList(self.context, self.traits, steps, record)

    def _compile_apart(self, steps: Sequence[Step], store: BinaryStore | None) -> None:
        self._build_units(steps, units_of(steps, self.traits), store)

    def _record_apart(self, steps: Sequence[Step], store: BinaryStore | None) -> CudaCommandList:
        units = units_of(steps, self.traits)
        programs = self._build_units(steps, units, store)
        record = functools.partial(record_units, self.context, store=store, units=units, programs=programs)
        return CudaCommandList(self.context, self.traits, steps, record)

    def _build_units(
        self, steps: Sequence[Step], units: Sequence[range], store: BinaryStore | None
    ) -> dict[int, tuple[Merged, Function]]:
        """Build the kernels of single steps, and the programs of units of several, which are returned by number."""
        merged = {
            number: merge(steps[unit.start : unit.stop], self.traits.local_bytes)
            for number, unit in enumerate(units)
            if len(unit) > 1
        }
        kernels = dict.fromkeys(steps[unit.start].kernel for unit in units if len(unit) == 1)
        missing = [each.source for each in merged.values() if each.source not in self._programs]
        own = [kernel for kernel in kernels if isinstance(kernel, CudaKernel)]
        functions = build_kernels(self.context, own, store, missing)
        self._programs.update(zip(missing, functions, strict=True))
        return {number: (each, self._programs[each.source]) for number, each in merged.items()}

    def _record_as_one(self, steps: Sequence[Step], groups_per_unit: int, store: BinaryStore | None) -> CudaCommandList:
        record = functools.partial(
            record_as_one, self.context, self._barrier, self.traits.local_bytes, groups_per_unit, store=store
        )
        return CudaCommandList(self.context, self.traits, steps, record)

    def write(self, resource: Resource, array: np.ndarray, reason: str, offset: int = 0) -> None:
        self.check()
        _memory(resource).upload(self.context, array, reason, offset)

    def read(self, resource: Resource, array: np.ndarray, reason: str, offset: int = 0) -> None:
        self.check()
        _memory(resource).download(self.context, array, reason, offset)

    def fence(self) -> CudaFence:
        if self.context.closed:
            self.check()
        return CudaFence(self._events)

    def wait_for(self, events: Sequence[Any]) -> None:
        """Let everything submitted from now on begin after these events of CUDA. The CPU does not wait."""
        self.check()
        handles = [event_handle(event) for event in events]
        with self.context.entered():
            for handle in handles:
                status = driver().cuStreamWaitEvent(self.context.stream, handle, 0)
                if status:
                    raise BindingError(f"{self.context} cannot wait for these events: CUDA error {status}")

    def event(self) -> CudaFence:
        """An event that completes when everything submitted so far has: its ``handle`` is the CUevent."""
        return self.fence()

    def finish(self) -> None:
        self.context.finish()

    def _free(self) -> None:
        self._events.close()
        self._programs.clear()


def _memory(resource: Resource) -> CudaArray | CudaImage:
    if not isinstance(resource, _OBJECTS):
        raise BindingError(f"'{resource.label}' is no CUDA object")
    return resource
