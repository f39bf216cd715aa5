"""The OpenCL device: OpenCL 1.2 or newer, on one ClContext."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from ....kernels.codegen.source import KernelSource
from ...binaries import BinaryStore
from ...device import Dispatches, Resource, Step, Traits
from ...errors import BindingError, DeviceError
from ...gl.context import GlContext
from ...gl.objects import is_gl_object
from ...record.checks import check_formats
from ...record.one_dispatch import prefers_one, why_not_one
from ...share.gl_partner import GlPartner, StagedTexture
from ..api import own_errors
from ..build import MATRIX_UNITS, compile_options
from ..context import ClContext
from ..objects import IMAGE_FORMATS, ClBuffer, ClImage, Use, as_cl_object
from .barrier import ClBarrier
from .command_buffer import CommandBuffers
from .commands import ClCommandList
from .fence import ClFence
from .one_dispatch import record_as_one
from .recording import ClKernel, Recording, record_separately

_READ_WRITE, _IMAGE2D = cl.mem_flags.READ_WRITE, cl.mem_object_type.IMAGE2D
_ZEROS = np.zeros(4, np.float32)
_POINTER_BYTES, _BYTES_FOR_VALUES = 8, 512
_LAST_FLOAT = (1 << 31) - 1
"""Kernels count in ints."""


class ClDevice:
    """Implements interop.device.Device on a ClContext. ``owns_context``: close the context with the device."""

    def __init__(self, context: ClContext, owns_context: bool = False) -> None:
        self.context, self._owns_context = context, owns_context
        self._kernels: dict[KernelSource, ClKernel] = {}
        self.dispatches: Dispatches = "auto"
        self.users = 0
        """How many have opened it (see devices.open_device); the last one to close it closes it."""
        self.closed = False
        self._gl_partners: dict[GlContext, GlPartner] = {}
        self._command_buffers = CommandBuffers.on(context.queue)
        self._barrier = ClBarrier(context)
        device = context.device
        self.traits = Traits(
            name=context.name,
            api="opencl",
            driver=f"{device.version.strip()}, driver {device.driver_version.strip()}",
            # A CPU runs a group's work-items in turn; GPUs want a few warps to hide memory latency.
            group_size=min(64 if context.software else 256, device.max_work_group_size),
            max_group_size=device.max_work_group_size,
            invocations=1 if context.software else device.max_compute_units * 2048,
            local_bytes=device.local_mem_size,
            max_buffer_bytes=min(device.max_mem_alloc_size, 4 * _LAST_FLOAT),
            offset_alignment=16,  # buffers are bound whole, so only the largest element, a float4, counts
            max_memories=(device.max_parameter_size - _BYTES_FOR_VALUES) // _POINTER_BYTES,
            software=context.software,
            write_formats=_formats(context, cl.mem_flags.WRITE_ONLY),
            matrix_units=MATRIX_UNITS in compile_options(device),
        )
        self._read_formats = _formats(context, cl.mem_flags.READ_ONLY)

    def buffer(self, nbytes: int, label: str) -> ClBuffer:
        self.check()
        if nbytes > self.traits.max_buffer_bytes:
            raise DeviceError(
                f"'{label}' needs {nbytes} bytes, and kernels on {self.traits.name} address at most "
                f"{self.traits.max_buffer_bytes} in one buffer: use a smaller input, or f16 storage"
            )
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
        order, kind, _ = IMAGE_FORMATS[format]
        try:
            memory = cl.create_image(self.context.context, _READ_WRITE, cl.ImageFormat(order, kind), (width, height))
        except cl.Error as error:
            size = f"{width} x {height} texels"
            raise BindingError(f"{self.context} makes no image '{label}' of {size}, {format}: {error}") from error
        return ClImage(memory, label)

    def borrow(self, native: Any) -> ClBuffer | ClImage | StagedTexture:
        """A pyopencl Buffer, Image or Array, or a ClBuffer or ClImage, of this context; or an object of the GL context
        that is current, where the two share memory.
        """
        self.check()
        ours = isinstance(native, ClBuffer | ClImage)
        if not ours and is_gl_object(native):
            return self._gl_partner().borrow(native)
        resource = native if ours else as_cl_object(native)
        if not resource.released and not resource.belongs_to(self.context):
            raise BindingError(
                f"{resource.label} belongs to another OpenCL context than the model, which runs in {self.context}: "
                "apply the delegate inside 'with fb.ClContext(queue=...):' with your own queue"
            )
        return resource

    def _gl_partner(self) -> GlPartner:
        context = GlContext.current()
        self._gl_partners = {gl: partner for gl, partner in self._gl_partners.items() if not gl.closed}
        if context not in self._gl_partners:
            self._gl_partners[context] = GlPartner(context, self.context)
        return self._gl_partners[context]

    def kernel(self, source: KernelSource) -> ClKernel:
        kernel = self._kernels.get(source)
        if kernel is None:
            self.check()
            check_formats(source, self.traits)
            kernel = self._kernels[source] = ClKernel(self.context, source)
        return kernel

    def compile(
        self, steps: Sequence[Step], dispatches: Dispatches | None = None, store: BinaryStore | None = None
    ) -> None:
        self.check()
        if self._why_separate(steps, dispatches or self.dispatches, store):
            for kernel in {step.kernel for step in steps}:
                assert isinstance(kernel, ClKernel)
                kernel.program(store)

    def record(
        self,
        steps: Sequence[Step],
        dispatches: Dispatches | None = None,
        groups_per_unit: int = 0,
        store: BinaryStore | None = None,
    ) -> ClCommandList:
        self.check()
        dispatches = dispatches or self.dispatches
        reason = self._why_separate(steps, dispatches, store)
        if not reason:
            as_one = functools.partial(
                record_as_one, self.context, self._barrier, per_unit=groups_per_unit, store=store
            )
            return ClCommandList(self.context, self.traits, steps, as_one, self._record_separately)
        if dispatches == "one":
            raise BindingError(f"these steps cannot run as one dispatch on {self.context}: {reason}")
        separately = functools.partial(self._record_separately, store=store)
        return ClCommandList(self.context, self.traits, steps, separately)

    def _why_separate(self, steps: Sequence[Step], dispatches: Dispatches, store: BinaryStore | None) -> str:
        """Why these steps are a dispatch each; "" where they are one."""
        if dispatches == "separate" or (dispatches == "auto" and not self._prefers_one(steps)):
            return "separate dispatches were asked for, or are likely to be the faster ones"
        return why_not_one(steps, self.traits) or self._barrier.why_unusable(store)

    def _record_separately(self, steps: Sequence[Step], store: BinaryStore | None = None) -> Recording:
        return record_separately(self.context, steps, self._command_buffers, store)

    def _prefers_one(self, steps: Sequence[Step]) -> bool:
        """The rule: see one_dispatch.prefers_one; and not after it has failed here."""
        return not self._barrier.watch.failed and prefers_one(steps, self.traits.software, self._barrier.units)

    def write(self, resource: Resource, array: np.ndarray, reason: str, offset: int = 0) -> None:
        self.check()
        with own_errors(f"writing to {resource.label}"), _shared(resource, "rw"):
            if isinstance(resource, ClBuffer):
                resource.write(self.context.queue, array, reason, offset)
            else:
                _image(resource).write(self.context.queue, array, reason)

    def read(self, resource: Resource, array: np.ndarray, reason: str, offset: int = 0) -> None:
        self.check()
        with own_errors(f"reading {resource.label}"), _shared(resource, "r"):
            if isinstance(resource, ClBuffer):
                resource.read(self.context.queue, array, reason, offset)
            else:
                _image(resource).read(self.context.queue, array, reason)
        self._barrier.watch.waited()

    def fence(self) -> ClFence:
        self.check()
        return ClFence(self.context, self._barrier.watch)

    def wait_for(self, events: Sequence[Any]) -> None:
        """Let everything submitted from now on begin after these pyopencl events. The CPU does not wait."""
        self.check()
        wrong = [event for event in events if not isinstance(event, cl.Event)]
        if wrong:
            raise BindingError(f"wait_for takes pyopencl events, and was given a {type(wrong[0]).__name__}")
        if not events:
            return
        try:
            cl.enqueue_barrier(self.context.queue, wait_for=list(events))
        except cl.Error as error:
            raise BindingError(f"{self.context} cannot wait for these events: {error}") from error

    def event(self) -> cl.Event:
        """An event that completes when everything submitted so far has."""
        self.check()
        return ClFence(self.context, self._barrier.watch).event

    def check(self) -> None:
        self.context.check()

    def finish(self) -> None:
        self.context.finish()
        self._barrier.watch.waited()

    def close(self) -> None:
        """Drop the kernels, and close the context where the device made it. Of several users the last one does it."""
        self.users -= 1
        if self.users > 0 or self.closed:
            return
        self.closed = True
        self._kernels.clear()
        for partner in self._gl_partners.values():
            partner.close()
        self._gl_partners.clear()
        if self._owns_context:
            self.context.close()


@contextlib.contextmanager
def _shared(resource: Resource, access: str) -> Iterator[None]:
    """Within the block the resource is OpenCL's, where its memory is another API's too."""
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


def _image(resource: Resource) -> ClImage:
    if not isinstance(resource, ClImage):
        raise BindingError(f"'{resource.label}' is no OpenCL object")
    return resource


def _formats(context: ClContext, access: Any) -> frozenset[str]:
    """The formats of 2-D images that kernels can read, or write."""
    if not context.device.image_support:
        return frozenset()
    supported = cl.get_supported_image_formats(context.context, access, _IMAGE2D)
    pairs = {(image.channel_order, image.channel_data_type) for image in supported}
    return frozenset(name for name, (order, kind, _) in IMAGE_FORMATS.items() if (order, kind) in pairs)
