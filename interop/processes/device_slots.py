"""Slots in the GPU's own memory: Vulkan allocates it, and GL of both processes imports it by file descriptors."""

from __future__ import annotations

from dataclasses import replace

from ..errors import BindingError, DeviceError
from ..gl import memory as gl_memory
from ..gl import vulkan
from ..gl.context import GlContext
from ..gl.query import has_extension
from ..gl.texel_copies import copy_from_buffer, copy_to_buffer
from ..gl.texture import GlTexture
from .messages import Description, close_all
from .slots import Slots


class DeviceSlots(Slots):
    """Allocations of Vulkan on the GL context's GPU. The exporter's CPU waits before a frame is announced.

    Semaphores in place of the wait (GL_EXT_semaphore_fd) were tried: on NVIDIA 580 readers of an export with one or two
    slots got frames that were not written yet.
    """

    road = "the GPU's memory"

    def __init__(
        self, context: GlContext, description: Description, memory: list[int], allocations: list[vulkan.Allocation]
    ) -> None:
        super().__init__(context, description)
        self._allocations = allocations  # empty in a process that adopts them, maybe with a frame in them already
        nbytes, allocated = description.slot_nbytes, description.allocated
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

    @classmethod
    def allocate(cls, context: GlContext, description: Description) -> DeviceSlots:
        if not has_extension(context, gl_memory.MEMORY_EXTENSION):
            raise DeviceError(f"{context} has no {gl_memory.MEMORY_EXTENSION}")
        uuid, device = _gpu(context)
        allocations = [device.allocate(description.slot_nbytes) for _ in range(description.slots)]
        description = replace(description, allocated=allocations[0].nbytes, gpu=uuid.hex())
        return cls(context, description, _exported(allocations), allocations)

    @classmethod
    def adopt(cls, context: GlContext, description: Description, descriptors: list[int]) -> DeviceSlots:
        _check_memory(context, description, descriptors)
        return cls(context, description, descriptors, [])

    def descriptors(self) -> list[int]:
        return _exported(self._allocations)

    def put(self, slot: int, texture: GlTexture) -> None:
        copy_to_buffer(texture, self._buffers[slot].id)

    def get(self, slot: int, texture: GlTexture) -> None:
        copy_from_buffer(texture, self._buffers[slot].id)

    def release(self) -> None:
        self._allocations = []
        for buffer in self._buffers:
            buffer.release()


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
    problem = ""
    if len(descriptors) != description.slots:
        problem = f"the exporter sent {len(descriptors)} file descriptors in place of {description.slots}"
    elif not has_extension(context, gl_memory.MEMORY_EXTENSION):
        problem = f"{context} has no {gl_memory.MEMORY_EXTENSION}: export the texture with copies_allowed=True"
    elif description.gpu not in [uuid.hex() for uuid in gl_memory.device_uuids(context)]:
        problem = f"the texture lies on another GPU than that of {context}: import it on the exporter's GPU"
    elif description.allocated < description.slot_nbytes:
        problem = f"the exporter's memory has {description.allocated} bytes a slot, not {description.slot_nbytes}"
    if problem:
        close_all(descriptors)
        raise BindingError(problem)
