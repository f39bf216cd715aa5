"""Slots in the GPU's own memory: Vulkan allocates it, and GL of both processes imports it by file descriptors."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from ..errors import BindingError, DeviceError
from ..gl import memory as gl_memory
from ..gl import vulkan
from ..gl.buffer import GlBuffer
from ..gl.context import GlContext
from ..gl.query import has_extension
from ..gl.texel_copies import copy_from_buffer, copy_to_buffer
from ..gl.texture import GlTexture
from .messages import Description, close_all
from .slots import Slots


class DeviceSlots(Slots):
    """Allocations of Vulkan on the GL context's GPU. The exporter's CPU waits before a frame is announced.

    Texels go through a buffer of the context's own: NVIDIA 580 moves a few texels by the CPU, as soon as the call is
    made, and then knows of no other process that the GPU still has to wait for.
    """

    road = "the GPU's memory"

    def __init__(
        self, context: GlContext, description: Description, memory: list[int], allocations: list[vulkan.Allocation]
    ) -> None:
        super().__init__(context, description)
        self._allocations = allocations  # empty in a process that adopts them, maybe with a frame in them already
        nbytes, allocated = description.slot_nbytes, description.allocated
        self._staging = GlBuffer(description.slot_nbytes, label="staging memory of a shared texture")
        self._buffers = []
        try:
            for slot in range(description.slots):
                label = f"slot {slot} of a shared texture"
                self._buffers.append(
                    gl_memory.import_buffer(
                        context, nbytes, memory.pop(0), allocated, label, has_content=not allocations
                    )
                )
        except DeviceError:
            close_all(memory)
            raise

    @staticmethod
    def why_not(context: GlContext) -> str | None:
        if not has_extension(context, gl_memory.MEMORY_EXTENSION):
            return f"{context} has no {gl_memory.MEMORY_EXTENSION}"
        try:
            _gpu(context)
        except DeviceError as error:
            return str(error)
        return None

    @classmethod
    def allocate(cls, context: GlContext, description: Description) -> DeviceSlots:
        uuid, device = _gpu(context)
        allocations = [device.allocate(description.slot_nbytes) for _ in range(description.slots)]
        description = replace(description, allocated=allocations[0].nbytes, gpu=uuid.hex())
        return cls(context, description, [allocation.export() for allocation in allocations], allocations)

    @classmethod
    def adopt(cls, context: GlContext, description: Description, descriptors: list[int]) -> DeviceSlots:
        _check_memory(context, description, descriptors, description.slots)
        return cls(context, description, descriptors, [])

    def connect(self) -> tuple[list[int], tuple[object, ...]]:
        return [allocation.export() for allocation in self._allocations], ()

    def put(self, slot: int, texture: GlTexture) -> None:
        copy_to_buffer(texture, self._staging.id)
        gl_memory.copy_buffer(self._staging, self._buffers[slot])

    def get(self, slot: int, texture: GlTexture) -> None:
        gl_memory.copy_buffer(self._buffers[slot], self._staging)
        copy_from_buffer(texture, self._staging.id)

    def release(self) -> None:
        self._allocations = []
        for buffer in (self._staging, *self._buffers):
            buffer.release()


class OrderedDeviceSlots(DeviceSlots):
    """Such allocations with a semaphore for each slot and importer, so that the GPU waits and not the CPU."""

    road = "the GPU's memory and semaphores"
    _semaphores: tuple[gl_memory.GlSemaphore, ...] = ()
    """An importer's semaphores, one a slot."""

    @staticmethod
    def why_not(context: GlContext) -> str | None:
        reason = DeviceSlots.why_not(context)
        if reason is not None:
            return reason
        if not has_extension(context, gl_memory.SEMAPHORE_EXTENSION):
            return f"{context} has no {gl_memory.SEMAPHORE_EXTENSION}"
        try:
            close_all(list(_gpu(context)[1].semaphore()))
        except DeviceError as error:
            return str(error)
        return None

    @classmethod
    def adopt(cls, context: GlContext, description: Description, descriptors: list[int]) -> OrderedDeviceSlots:
        _check_memory(context, description, descriptors, 2 * description.slots)
        memory, semaphores = descriptors[: description.slots], descriptors[description.slots :]
        try:
            slots = cls(context, description, memory, [])
        except DeviceError:
            close_all(semaphores)
            raise
        slots._semaphores = _import_all(context, semaphores)
        return slots

    def connect(self) -> tuple[list[int], tuple[object, ...]]:
        pairs = [_gpu(self.context)[1].semaphore() for _ in self._buffers]
        theirs = [second for _, second in pairs]
        try:
            ours = _import_all(self.context, [first for first, _ in pairs])
            return [*super().connect()[0], *theirs], ours
        except DeviceError:
            close_all(theirs)
            raise

    def finish(self) -> None:
        """Nothing: the semaphores are signalled when the GPU is done."""

    def announce(self, importer: tuple[object, ...], slot: int) -> None:
        cast("gl_memory.GlSemaphore", importer[slot]).signal([self._buffers[slot].id])

    def get(self, slot: int, texture: GlTexture) -> None:
        self._semaphores[slot].wait([self._buffers[slot].id])
        super().get(slot, texture)


def _gpu(context: GlContext) -> tuple[bytes, vulkan.VulkanDevice]:
    """The GPU of a context that has one only, as Vulkan sees it."""
    uuids = gl_memory.device_uuids(context)
    if len(uuids) != 1:
        raise DeviceError(f"{context} uses {len(uuids)} GPUs, and memory is shared on one only")
    return uuids[0], vulkan.open_device(uuids[0])


def _check_memory(context: GlContext, description: Description, descriptors: list[int], wanted: int) -> None:
    problem = ""
    if len(descriptors) != wanted:
        problem = f"the exporter sent {len(descriptors)} file descriptors in place of {wanted}"
    elif not has_extension(context, gl_memory.MEMORY_EXTENSION):
        problem = f"{context} has no {gl_memory.MEMORY_EXTENSION}: export the texture with copies_allowed=True"
    elif description.gpu not in [uuid.hex() for uuid in gl_memory.device_uuids(context)]:
        problem = f"the texture lies on another GPU than that of {context}: import it on the exporter's GPU"
    elif description.allocated < description.slot_nbytes:
        problem = f"the exporter's memory has {description.allocated} bytes a slot, not {description.slot_nbytes}"
    if problem:
        close_all(descriptors)
        raise BindingError(problem)


def _import_all(context: GlContext, descriptors: list[int]) -> tuple[gl_memory.GlSemaphore, ...]:
    waiting, semaphores = list(descriptors), []
    try:
        while waiting:
            semaphores.append(gl_memory.GlSemaphore(context, waiting.pop(0)))
    except DeviceError:
        close_all(waiting)
        raise
    return tuple(semaphores)
