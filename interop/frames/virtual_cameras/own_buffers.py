"""Buffers of PipeWire whose memory the camera brings along: textures as DMA-BUFs, or memory of the host."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

import numpy as np

from ...errors import SourceError
from ...gl.texture import GlTexture
from ...processes.dma_buf_slots import DmaBufSlots
from ...processes.messages import await_fences, close_all
from . import libpipewire as pw
from . import pods
from .camera import FrameLayout

_NO_MODIFIER = (1 << 56) - 1
"""DRM_FORMAT_MOD_INVALID of drm_fourcc.h: the driver's own layout."""


class OwnBuffers:
    """The memory of a camera's buffers. PipeWire's thread adds and removes buffers, with the camera's lock held."""

    def __init__(self, slots: DmaBufSlots) -> None:
        self._slots, description = slots, slots.description
        self._planes, self._height = description.planes, description.height
        self.modifier = _NO_MODIFIER if description.modifier < 0 else description.modifier
        self._descriptors = slots.descriptors()  # PipeWire sends duplicates, and leaves these here
        self._free = list(range(description.slots))
        self._host = dict[int, np.ndarray]()
        """The mappings of buffers of host memory, by descriptor."""

    def asked(self) -> bytes:
        """The parameter that asks for buffers of textures."""
        _, _, pitch = self._planes[0]
        count = self._slots.description.slots
        return pods.buffers(pitch * self._height, pitch, pods.DMA_BUF, len(self._planes), count)

    def add(self, buffer: Any, layout: FrameLayout | None) -> None:
        """Give a new buffer (POINTER(Buffer)) the memory of a texture, or of the host for frames of a layout."""
        spa = buffer.contents.buffer.contents
        if layout is not None:
            buffer.contents.user_data = None  # PipeWire uses the structures again
            self._add_host(spa.datas[0], layout)
            return
        slot = self._free.pop()
        buffer.contents.user_data = slot + 1
        per_slot = len(self._descriptors) // self._slots.description.slots
        for n, (place, offset, pitch) in enumerate(self._planes):
            data, chunk = spa.datas[n], spa.datas[n].chunk.contents
            data.type, data.flags, data.data, data.mapoffset = pw.DATA_DMA_BUF, pw.DATA_READABLE, None, 0
            data.fd, data.maxsize = self._descriptors[slot * per_slot + place], offset + pitch * self._height
            chunk.offset, chunk.stride, chunk.size, chunk.flags = offset, pitch, 0, 0

    def _add_host(self, data: Any, layout: FrameLayout) -> None:
        descriptor = os.memfd_create("framebind camera", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, layout.nbytes)
        memory = np.frombuffer(mmap.mmap(descriptor, layout.nbytes), np.uint8)
        self._host[descriptor] = memory
        data.type, data.flags, data.fd = pw.DATA_MEM_FD, pw.DATA_READABLE | pw.DATA_WRITABLE, descriptor
        data.mapoffset, data.maxsize, data.data = 0, layout.nbytes, memory.ctypes.data_as(ctypes.c_void_p)

    def remove(self, buffer: Any) -> None:
        """Take the memory back."""
        slot = buffer.contents.user_data
        if slot:
            self._free.append(slot - 1)
            return
        descriptor = buffer.contents.buffer.contents.datas[0].fd
        del self._host[descriptor]
        os.close(descriptor)

    def copy(self, texture: GlTexture, buffer: Any) -> None:
        """Write a texture's texels to a buffer, and wait until the GPU has done so: programs get no fence.

        If that fails, the buffer is empty.
        """
        chunks = [buffer.contents.buffer.contents.datas[n].chunk.contents for n in range(len(self._planes))]
        for chunk in chunks:
            chunk.size = 0
        self._slots.put(buffer.contents.user_data - 1, texture)
        if not await_fences(self._slots.finish(0)):
            raise SourceError("the GPU did not copy a picture to PipeWire's buffer: it was reset, or is lost")
        for chunk, (_, _, pitch) in zip(chunks, self._planes, strict=True):
            chunk.size = pitch * self._height

    def close(self) -> None:
        """Close all memory that is left, after the stream."""
        close_all(self._descriptors)
        close_all(list(self._host))
        self._descriptors = []
        self._host.clear()
        self._slots.release()
