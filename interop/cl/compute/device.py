"""The OpenCL device: OpenCL 1.2 or newer, on one ClContext."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from ....kernels.codegen.source import KernelSource
from ...binaries import BinaryStore
from ...device import Kernel, Resource, StagedTexture, Step, Traits
from ...errors import BindingError, DeviceError
from ...gl.user_objects import is_gl_object
from ...record.base_device import BaseDevice
from ...record.command_list import Record
from ...record.one_dispatch import FEWEST_STEPS, MOST_INVOCATIONS, prefers_one, why_not_one
from ..api import own_errors
from ..build import MATRIX_UNITS, WARPGROUPS, compile_options
from ..context import ClContext, driver_of
from ..objects import IMAGE_FORMATS, INPUT_FORMATS, ClBuffer, ClImage, Use, image_memory
from ..sharing.gl_partner import GlPartners
from ..user_objects import as_cl_object
from .barrier import ClBarrier
from .command_buffer import CommandBuffers
from .commands import ClCommandList
from .fence import ClFence
from .kernel import ClKernel, build_kernels
from .one_dispatch import record_as_one
from .parts import Part, is_large, parts_of, record_parts
from .recording import Recording, record_separately

_READ_WRITE, _IMAGE2D = cl.mem_flags.READ_WRITE, cl.mem_object_type.IMAGE2D
_ZEROS = np.zeros(4, np.float32)
_POINTER_BYTES, _BYTES_FOR_VALUES = 8, 512
_WARPGROUP_BYTES = 226 << 10
"""The local memory that a work-group of Hopper's gets, if its kernel is compiled from PTX. OpenCL admits 48 KB."""
_LAST_FLOAT = (1 << 31) - 1
"""Kernels count in ints."""


class ClDevice(BaseDevice[ClKernel, ClCommandList, ClBarrier]):
    """Implements interop.device.Device on a ClContext. ``owns_context``: close the context with the device."""

    def __init__(self, context: ClContext, *, owns_context: bool = False) -> None:
        super().__init__(context, ClBarrier(context), owns_context=owns_context)
        self.context = context
        self._gl_partners = GlPartners(context)
        self._command_buffers = CommandBuffers.on(context.queue)
        device, options = context.device, compile_options(context.device)
        self.traits = Traits(
            name=context.name,
            api="opencl",
            driver=driver_of(device),
            # A CPU runs a group's work-items in turn; GPUs want a few warps to hide memory latency.
            group_size=min(64 if context.software else 256, device.max_work_group_size),
            max_group_size=device.max_work_group_size,
            invocations=1 if context.software else device.max_compute_units * 2048,
            local_bytes=device.local_mem_size,
            max_buffer_bytes=min(device.max_mem_alloc_size, 4 * _LAST_FLOAT),
            offset_alignment=16,  # buffers are bound whole, so only the largest element, a float4, counts
            max_memories=(device.max_parameter_size - _BYTES_FOR_VALUES) // _POINTER_BYTES,
            software=context.software,
            write_formats=_formats(context, cl.mem_flags.WRITE_ONLY) - INPUT_FORMATS,
            max_textures=min(device.max_read_image_args, device.max_write_image_args),
            memories_per_float4=16 // _POINTER_BYTES,
            matrix_units=MATRIX_UNITS in options,
            warpgroup_bytes=_WARPGROUP_BYTES if WARPGROUPS in options else 0,
            warpgroup_invocations=MOST_INVOCATIONS if WARPGROUPS in options else 0,
        )
        self._read_formats = _formats(context, cl.mem_flags.READ_ONLY)

    def buffer(self, nbytes: int, label: str) -> ClBuffer:
        self.check()
        self._check_size(nbytes, label)
        if nbytes <= 0:
            raise BindingError(f"a buffer of {nbytes} bytes is impossible: it has at least 1")
        whole = -(-nbytes // _ZEROS.nbytes) * _ZEROS.nbytes
        try:
            memory = cl.Buffer(self.context.context, _READ_WRITE, whole)
            cl.enqueue_fill_buffer(self.context.queue, memory, _ZEROS, 0, whole)
        except cl.Error as error:
            raise DeviceError(f"{self.context} has no room for '{label}' of {nbytes} bytes: {error}") from error
        return ClBuffer(memory, nbytes, label)

    def texture(self, width: int, height: int, format: str, label: str) -> ClImage:
        self.check()
        usable = self.traits.write_formats & self._read_formats
        if format not in usable:
            known = ", ".join(sorted(usable)) or "none at all"
            raise BindingError(f"{self.traits.name} has no images of format '{format}': it has {known}")
        return ClImage(image_memory(self.context, width, height, format), label)

    def borrow(self, native: Any) -> ClBuffer | ClImage | StagedTexture:
        """A user's object as a resource: a pyopencl Buffer, Image or Array, a ClBuffer or a ClImage of this context; or
        an object of the current GL context, if the two share memory.
        """
        self.check()
        ours = isinstance(native, ClBuffer | ClImage)
        if not ours and is_gl_object(native):
            return self._gl_partners.borrow(native)
        resource = native if ours else as_cl_object(native)
        if not resource.released and not resource.belongs_to(self.context):
            raise BindingError(
                f"{resource.label} belongs to another OpenCL context than the model, which runs in {self.context}: "
                "apply the delegate inside 'with fb.cl.ClContext(queue=...):' with your own queue"
            )
        return resource

    def _make_kernel(self, source: KernelSource) -> ClKernel:
        return ClKernel(self.context, source)

    def _compile(self, kernels: Collection[Kernel], store: BinaryStore | None) -> None:
        build_kernels(self.context, [kernel for kernel in kernels if isinstance(kernel, ClKernel)], store)

    def _prefers_one(self, steps: Sequence[Step]) -> bool:
        """The rule of record/one_dispatch.py. After a failure of one dispatch on this device the answer is no."""
        return not self._barrier.watch.failed and prefers_one(
            steps, software=self.traits.software, units=self._barrier.units
        )

    def _compile_apart(self, steps: Sequence[Step], store: BinaryStore | None) -> None:
        if not self._parts(steps, store):  # which are compiled when they are recorded
            super()._compile_apart(steps, store)

    def _record_apart(self, steps: Sequence[Step], store: BinaryStore | None) -> ClCommandList:
        parts = self._parts(steps, store)
        return self._record_few(steps, parts, store) if parts else self._record_separately(steps, store)

    def _parts(self, steps: Sequence[Step], store: BinaryStore | None) -> list[Part]:
        """The steps of each dispatch, if some can share one and are likely to be faster so; else none."""
        if self.traits.software or self._barrier.watch.failed or len(steps) < FEWEST_STEPS:
            return []
        parts = parts_of([is_large(step, self._barrier.units) for step in steps])
        together = [[steps[number] for number in part] for part in parts if len(part) > 1]
        unable = any(why_not_one(some, self.traits) for some in together) or self._barrier.why_unusable(store)
        return parts if together and not unable else []

    def _record_few(self, steps: Sequence[Step], parts: Sequence[Part], store: BinaryStore | None) -> ClCommandList:
        record = functools.partial(
            record_parts, self.context, self._barrier, self.traits.local_bytes, parts, store=store
        )
        with own_errors(f"recording on {self.context}"):
            return ClCommandList(self.context, self.traits, steps, record, self._separately(None))

    def _record_separately(self, steps: Sequence[Step], store: BinaryStore | None) -> ClCommandList:
        with own_errors(f"recording on {self.context}"):
            return ClCommandList(self.context, self.traits, steps, self._separately(store))

    def _record_as_one(self, steps: Sequence[Step], groups_per_unit: int, store: BinaryStore | None) -> ClCommandList:
        as_one = functools.partial(
            record_as_one, self.context, self._barrier, self.traits.local_bytes, groups_per_unit, store=store
        )
        with own_errors(f"recording on {self.context}"):
            return ClCommandList(self.context, self.traits, steps, as_one, self._separately(None))

    def _separately(self, store: BinaryStore | None) -> Record[Recording]:
        return functools.partial(record_separately, self.context, command_buffers=self._command_buffers, store=store)

    def write(self, resource: Resource, array: np.ndarray, reason: str, offset: int = 0) -> None:
        self.check()
        with own_errors(f"writing to {resource.label}"), _shared(resource, "rw"):
            _memory(resource).upload(self.context, array, reason, offset)

    def read(self, resource: Resource, array: np.ndarray, reason: str, offset: int = 0) -> None:
        self.check()
        with own_errors(f"reading {resource.label}"), _shared(resource, "r"):
            _memory(resource).download(self.context, array, reason, offset)
        self._barrier.watch.waited()

    def fence(self) -> ClFence:
        if self.context.closed:
            self.check()
        return ClFence(self.context, self._barrier.watch)

    def wait_for(self, events: Sequence[Any]) -> None:
        """Let everything submitted from now on begin after these fences or pyopencl events. The CPU does not wait."""
        self.check()
        events = [event.handle if isinstance(event, ClFence) else event for event in events]
        wrong = [event for event in events if not isinstance(event, cl.Event)]
        if wrong:
            raise BindingError(f"wait_for takes pyopencl events, and was given a {type(wrong[0]).__name__}")
        if not events:
            return
        try:
            cl.enqueue_barrier(self.context.queue, wait_for=events)
        except cl.Error as error:
            raise BindingError(f"{self.context} cannot wait for these events: {error}") from error

    def event(self) -> cl.Event:
        """An event that completes when everything submitted so far has."""
        self.check()
        return ClFence(self.context, self._barrier.watch).handle

    def finish(self) -> None:
        self.context.finish()
        self._barrier.watch.waited()

    def _free(self) -> None:
        self._gl_partners.close()


@contextlib.contextmanager
def _shared(resource: Resource, access: str) -> Iterator[None]:
    """Within the block OpenCL may use the resource. Its memory may also belong to another API, which is then told."""
    partner = resource.partner if isinstance(resource, ClBuffer | ClImage) else None
    if partner is None or not isinstance(resource, ClBuffer | ClImage):
        yield
        return
    uses = [Use(resource, access, resource.nbytes)]
    partner.before_run(uses)
    try:
        yield
    finally:
        partner.after_run(uses)


def _memory(resource: Resource) -> ClBuffer | ClImage:
    if not isinstance(resource, ClBuffer | ClImage):
        raise BindingError(f"'{resource.label}' is no OpenCL object")
    return resource


def _formats(context: ClContext, access: Any) -> frozenset[str]:
    """The formats of 2-D images that kernels can read, or write."""
    if not context.device.image_support:
        return frozenset()
    with own_errors(f"asking {context} for the formats of images"):
        supported = cl.get_supported_image_formats(context.context, access, _IMAGE2D)
    pairs = {(image.channel_order, image.channel_data_type) for image in supported}
    return frozenset(name for name, (order, kind, _) in IMAGE_FORMATS.items() if (order, kind) in pairs)
