"""Slots in memory of the host: read and written by GL in place if it can (GL_AMD_pinned_memory), else copied."""

from __future__ import annotations

import fcntl
import mmap
import os

import numpy as np

from ..errors import BindingError, DeviceError
from ..gl.buffer import GlBuffer
from ..gl.context import GlContext
from ..gl.external_memory import PINNED_EXTENSION, pin_buffer
from ..gl.query import FORMATS, has_extension
from ..gl.texel_copies import copy_from_buffer, copy_to_buffer
from ..gl.texture import GlTexture
from .messages import Description, close_all, duplicates
from .slots import Slots

COPY_REASON = "shared texture"
"""The reason under which copies through the CPU are counted."""


class PinnedSlots(Slots):
    """Memory of the host that both processes' GL reads and writes in place: for GPUs that are the CPU, or near it."""

    road = "pinned host memory"

    def __init__(self, context: GlContext, description: Description, memory: int) -> None:
        super().__init__(context, description)
        self._buffers, size = list[GlBuffer](), description.slot_nbytes
        self._memory, texels = memory, _mapped(memory, description)
        try:
            for slot in range(description.slots):
                texels_of_slot, label = texels[slot * size : (slot + 1) * size], f"slot {slot} of a shared texture"
                self._buffers.append(pin_buffer(context, texels_of_slot, label))
        except BaseException:
            self.release()
            raise

    @classmethod
    def allocate(cls, context: GlContext, description: Description) -> PinnedSlots:
        _check_pinning(context)
        return cls(context, description, _new_memory(description))

    @classmethod
    def adopt(cls, context: GlContext, description: Description, descriptors: list[int]) -> PinnedSlots:
        try:
            _check_pinning(context)
        except DeviceError:
            close_all(descriptors)
            raise
        return cls(context, description, _only(descriptors))

    def descriptors(self) -> list[int]:
        return duplicates([self._memory])

    def put(self, slot: int, texture: GlTexture) -> None:
        copy_to_buffer(texture, self._buffers[slot].id)

    def get(self, slot: int, texture: GlTexture) -> None:
        copy_from_buffer(texture, self._buffers[slot].id)

    def release(self) -> None:
        while self._buffers:
            self._buffers.pop().release()
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1


class CopiedSlots(Slots):
    """Memory of the host, to and from which the CPU copies. Each copy is counted in ``fb.transfers``."""

    road = "copies through the CPU"

    def __init__(self, context: GlContext, description: Description, memory: int) -> None:
        super().__init__(context, description)
        self._memory, size = memory, description.slot_nbytes
        texels, pixels = _mapped(memory, description), FORMATS[description.format]
        shape = description.height, description.width, pixels.channels
        nbytes = int(np.prod(shape)) * pixels.dtype().itemsize
        self._arrays = [
            texels[slot * size : slot * size + nbytes].view(pixels.dtype).reshape(shape)
            for slot in range(description.slots)
        ]

    @classmethod
    def allocate(cls, context: GlContext, description: Description) -> CopiedSlots:
        return cls(context, description, _new_memory(description))

    @classmethod
    def adopt(cls, context: GlContext, description: Description, descriptors: list[int]) -> CopiedSlots:
        return cls(context, description, _only(descriptors))

    def descriptors(self) -> list[int]:
        return duplicates([self._memory])

    def put(self, slot: int, texture: GlTexture) -> None:
        texture.read(self._arrays[slot], reason=COPY_REASON)

    def get(self, slot: int, texture: GlTexture) -> None:
        texture.write(self._arrays[slot], reason=COPY_REASON)

    def finish(self, number: int) -> list[int]:
        """Do nothing: a read ends when the texels are there."""
        return []

    def release(self) -> None:
        self._arrays.clear()
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1


def _check_pinning(context: GlContext) -> None:
    if not has_extension(context, PINNED_EXTENSION):
        raise DeviceError(f"{context} has no {PINNED_EXTENSION}")


def _new_memory(description: Description) -> int:
    """Memory for all slots, of a size that nobody can change: reading beyond a file's end kills a process."""
    memory = -1
    try:
        memory = os.memfd_create("framebind texture", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(memory, description.slots * description.slot_nbytes)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    except OSError as error:
        if memory >= 0:
            os.close(memory)
        raise _no_memory(description, error) from error
    return memory


def _mapped(memory: int, description: Description) -> np.ndarray:
    """The bytes of all slots. Raises BindingError if the memory is smaller, or may become so, and DeviceError if there
    is no room for it; it is then closed.
    """
    nbytes = description.slots * description.slot_nbytes
    try:
        sealed = bool(fcntl.fcntl(memory, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK)
    except OSError:
        sealed = False
    is_whole = description.slot_nbytes % mmap.PAGESIZE == 0
    if not (sealed and is_whole) or os.fstat(memory).st_size < nbytes:
        os.close(memory)
        raise BindingError(f"the exporter's memory is no sealed file of {nbytes} bytes: it is not framebind's")
    try:
        return np.frombuffer(mmap.mmap(memory, nbytes), np.uint8)
    except (OSError, ValueError, OverflowError) as error:
        os.close(memory)
        raise _no_memory(description, error) from error


def _no_memory(description: Description, error: Exception) -> DeviceError:
    return DeviceError(f"no memory for {description.slots} frames of a shared texture: {error}")


def _only(descriptors: list[int]) -> int:
    if len(descriptors) != 1:
        close_all(descriptors)
        raise BindingError(f"the exporter sent {len(descriptors)} file descriptors for its memory in place of 1")
    return descriptors[0]
