"""Slots in the GPU's own memory: Vulkan allocates it, and GL of both processes imports it by file descriptors."""

from __future__ import annotations

from dataclasses import replace

from ..errors import BindingError, DeviceError
from ..gl import external_memory as gl_memory
from ..gl import vulkan
from ..gl.buffer import GlBuffer
from ..gl.context import GlContext
from ..gl.khronos import GL
from ..gl.query import has_extension
from ..gl.texel_copies import copy_from_buffer, copy_to_buffer
from ..gl.texture import GlTexture
from .messages import Description, close_all
from .slots import Slots

SEMAPHORE = "importers wait for a semaphore"
_TRIAL, _TRIAL_SECONDS = 1, 2.0
"""The value to which GL sets a new semaphore once, to see that it arrives, and the time that it has."""


class DeviceSlots(Slots):
    """Allocations of Vulkan on the GL context's GPU.

    If the drivers have semaphores that count up, the exporter's GPU sets one to the number of each frame. The CPU of
    each importer waits for it, not its GPU, which would hang if the exporter is killed. Else the exporter's CPU waits.
    """

    road = "the GPU's memory"

    def __init__(
        self,
        context: GlContext,
        description: Description,
        memory: list[int],
        allocations: list[vulkan.Allocation],
        timeline: vulkan.Timeline | None = None,
    ) -> None:
        super().__init__(context, description)
        self._allocations = allocations  # empty in a process that adopts them, maybe with a frame in them already
        self._timeline, self._signal = timeline, None
        nbytes, allocated = description.slot_nbytes, description.allocated
        self._buffers, self._written = list[GlBuffer](), 0
        try:
            for slot in range(description.slots):
                label = f"slot {slot} of a shared texture"
                self._buffers.append(
                    gl_memory.import_buffer(
                        context, nbytes, memory.pop(0), allocated, label, has_content=not allocations
                    )
                )
        except BaseException:
            close_all(memory)
            raise

    @classmethod
    def allocate(cls, context: GlContext, description: Description) -> DeviceSlots:
        if not has_extension(context, gl_memory.MEMORY_EXTENSION):
            raise DeviceError(f"{context} has no {gl_memory.MEMORY_EXTENSION}")
        uuid, device = _gpu(context)
        allocations = [device.allocate(description.slot_nbytes) for _ in range(description.slots)]
        description = replace(description, allocated=allocations[0].nbytes, gpu=uuid.hex())
        slots = cls(context, description, _exported(allocations), allocations)
        try:
            slots._signal_by(device)
        except DeviceError as error:
            slots.order = f"{cls.order} ({error})"
        return slots

    def _signal_by(self, device: vulkan.VulkanDevice) -> None:
        """Let the GPU tell importers of frames. Raises DeviceError if it cannot."""
        if not has_extension(self.context, gl_memory.TIMELINE_EXTENSION):
            raise DeviceError(f"{self.context} has no {gl_memory.TIMELINE_EXTENSION}")
        timeline = device.timeline()
        signal = gl_memory.GlTimeline(self.context, timeline.export())
        signal.signal(_TRIAL, [])
        if not timeline.wait(_TRIAL, _TRIAL_SECONDS):
            raise DeviceError(f"a semaphore that {self.context} sets does not arrive in Vulkan")
        self._timeline, self._signal = timeline, signal
        self.order = SEMAPHORE
        self.description = replace(self.description, order=SEMAPHORE)

    @classmethod
    def adopt(cls, context: GlContext, description: Description, descriptors: list[int]) -> DeviceSlots:
        _check_memory(context, description, descriptors)
        timeline = None
        if description.order == SEMAPHORE:
            try:
                device = vulkan.open_device(bytes.fromhex(description.gpu))
                timeline = device.timeline(descriptors.pop())
            except DeviceError:
                close_all(descriptors)
                raise
        return cls(context, description, descriptors, [], timeline)

    def descriptors(self) -> list[int]:
        memory = _exported(self._allocations)
        if self._timeline is None:
            return memory
        try:
            return [*memory, self._timeline.export()]
        except DeviceError:
            close_all(memory)
            raise

    def put(self, slot: int, texture: GlTexture) -> None:
        self._written = self._buffers[slot].id
        copy_to_buffer(texture, self._written)

    def get(self, slot: int, texture: GlTexture) -> None:
        copy_from_buffer(texture, self._buffers[slot].id)

    def finish(self, number: int) -> list[int]:
        if self._signal is None:
            return super().finish(number)
        self.context.gl.glMemoryBarrier(GL.ALL_BARRIER_BITS)
        self._signal.signal(_value(number), [self._written])
        return []

    def await_frame(self, number: int, seconds: float) -> bool:
        return self._timeline is None or self._timeline.wait(_value(number), seconds)

    def release(self) -> None:
        self._allocations, self._timeline, self._signal = [], None, None
        for buffer in self._buffers:
            buffer.release()


def _value(number: int) -> int:
    """The semaphore's value once the frame of that number is written."""
    return _TRIAL + 1 + number


def _exported(allocations: list[vulkan.Allocation]) -> list[int]:
    """A file descriptor of each. Raises DeviceError, and leaves none then."""
    descriptors = list[int]()
    try:
        for allocation in allocations:
            descriptors.append(allocation.export())
    except DeviceError:
        close_all(descriptors)
        raise
    return descriptors


def _gpu(context: GlContext) -> tuple[bytes, vulkan.VulkanDevice]:
    """The GPU of a context that has one only, as Vulkan sees it."""
    uuids = gl_memory.device_uuids(context)
    if len(uuids) != 1:
        raise DeviceError(f"{context} uses {len(uuids)} GPUs, and memory is shared on one only")
    return uuids[0], vulkan.open_device(uuids[0])


def _check_memory(context: GlContext, description: Description, descriptors: list[int]) -> None:
    problem, count = "", description.slots + (description.order == SEMAPHORE)
    if len(descriptors) != count:
        problem = f"the exporter sent {len(descriptors)} file descriptors in place of {count}"
    elif not has_extension(context, gl_memory.MEMORY_EXTENSION):
        problem = f"{context} has no {gl_memory.MEMORY_EXTENSION}: export the texture with copies_allowed=True"
    elif description.gpu not in [uuid.hex() for uuid in gl_memory.device_uuids(context)]:
        problem = f"the texture lies on another GPU than that of {context}: import it on the exporter's GPU"
    elif description.allocated < description.slot_nbytes:
        problem = f"the exporter's memory has {description.allocated} bytes a slot, not {description.slot_nbytes}"
    if problem:
        close_all(descriptors)
        raise BindingError(problem)
