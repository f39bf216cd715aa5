"""The CUDA command list: submits a recording's launches, and times them."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence

from ....kernels.codegen.source import Argument
from ....kernels.views import Dense, Plane, Sliced, Strided
from ...device import Kernel, Resource, Step, Traits
from ...errors import BindingError
from ...record.checks import check_view
from ...record.command_list import BaseCommandList, Record
from ..api import ask, check, driver
from ..arrays import CudaArray
from ..context import CudaContext
from ..gl_sharing import GlArray, GlPicture, MappedObjects
from ..objects import CudaImage, CudaObject
from .recording import CudaKernel, Recording

ALIGNMENT = 16
"""The alignment of slices in bytes: kernels read a float4 at once."""

_OF_GL = GlArray, GlPicture


class CudaCommandList(BaseCommandList[Recording]):
    """Implements interop.device.CommandList on the stream of a CudaContext.

    Separate launches have no barriers between them: a stream is in order, and so is the graph that is made of them.
    """

    def __init__(self, context: CudaContext, traits: Traits, steps: Sequence[Step], record: Record[Recording]) -> None:
        self._context = context
        super().__init__(context, traits, steps, record, None)
        self._unkept: tuple[CudaObject, ...] = ()
        """The objects in slots whose memory their owner may free. Each run checks them."""
        self._gl: MappedObjects | None = None
        """The GL objects in slots."""

    def _owns(self, kernel: Kernel) -> bool:
        return isinstance(kernel, CudaKernel) and kernel.context is self._context

    def _check(self, resource: Resource, argument: Argument, where: str) -> None:
        if not isinstance(resource, CudaArray | CudaImage):
            raise BindingError(f"{where}: '{resource.label}' does not belong to {self._context}")
        if resource.released:
            raise BindingError(f"{where}: '{resource.label}' is released")
        if not resource.belongs_to(self._context):
            raise BindingError(f"{where}: '{resource.label}' does not belong to {self._context}")
        check_view(resource, argument, self._traits, where)
        resource.check_access(argument.access, where)
        alignment = 1 if argument.is_texture else argument.unit if _is_single(argument) else ALIGNMENT
        if resource.pointer % alignment:
            raise BindingError(
                f"{where}: '{resource.label}' begins at {resource.pointer:#x}, and kernels take memory that begins at "
                f"a multiple of {alignment} bytes: bind a copy"
            )

    def _slot_changed(self, before: Resource | None, resource: Resource) -> None:
        if self._unkept or (isinstance(resource, CudaObject) and not resource.is_kept):
            found = (use.resource for use in self._slots.values())
            self._unkept = tuple(each for each in found if isinstance(each, CudaObject) and not each.is_kept)
        if self._gl or isinstance(resource, _OF_GL):
            self._gl = self._gl_objects()

    def _gl_objects(self) -> MappedObjects | None:
        """The GL objects in slots, with the access of kernels to them; None if there are none."""
        uses: dict[GlPicture | GlArray, str] = {}
        for slot in self._slots.values():
            if isinstance(slot.resource, _OF_GL):
                access = "".join(argument.access for _, argument, _, _ in slot.places)
                uses[slot.resource] = uses.get(slot.resource, "") + access
        return MappedObjects(self._context, uses) if uses else None

    # Runs -------------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Submit all steps. Raises BindingError for an empty or released slot, DeviceError for a closed context."""
        self._prepare()
        if self._unkept:
            with self._context.entered():
                for resource in self._unkept:
                    resource.check_allocated()
        if self._gl:
            with self._gl.mapped():
                status = self._recording.submit()
        else:
            status = self._recording.submit()
        if status:
            check(status, f"running on {self._context}")

    def timings(self) -> list[tuple[str, int]]:
        """Run once and return (label, nanoseconds on the GPU) of each dispatch. For measurements: it waits.

        CUDA's events tell times in steps of 0.5 us.
        """
        self._prepare()
        context, cuda, what = self._context, driver(), f"timing on {self._context}"
        context.finish()
        with context.entered():
            events = [ask(cuda.cuEventCreate, ctypes.c_void_p, 0, what=what) for _ in range(self.dispatches + 1)]
            try:
                check(cuda.cuEventRecord(events[0], context.stream), what)
                for (_, (function, arguments)), event in zip(self._recording.dispatches, events[1:], strict=True):
                    check(function(*arguments), what)
                    check(cuda.cuEventRecord(event, context.stream), what)
                check(cuda.cuEventSynchronize(events[-1]), what)
                times = [
                    ask(cuda.cuEventElapsedTime, ctypes.c_float, begin, end, what=what)
                    for begin, end in itertools.pairwise(events)
                ]
            finally:
                for event in events:
                    cuda.cuEventDestroy_v2(event)
        labels = [label for label, _ in self._recording.dispatches]
        return [(label, round(1e6 * time)) for label, time in zip(labels, times, strict=True)]

    def release(self) -> None:
        """Let go of the steps' resources. May be called more than once."""
        super().release()
        self._unkept, self._gl = (), None


def _is_single(argument: Argument) -> bool:
    """Whether kernels access the argument's memory in its units only: number by number, or slice by slice."""
    return isinstance(argument.view, Dense | Strided | Sliced | Plane)
