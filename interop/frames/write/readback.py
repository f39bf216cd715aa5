"""Readback of textures for a video file, through a bounded ring of buffers, while the next frames are drawn."""

from __future__ import annotations

import ctypes
import weakref
from collections import deque

import numpy as np

from ...errors import DeviceError
from ...gl.context import GlContext
from ...gl.fences import is_passed, make_fence, wait_and_delete
from ...gl.khronos import GL
from ...gl.mapping import map_buffer, unmap_buffer
from ...gl.query import raise_if_reset
from ...gl.state import kept, pixel_reads
from ...gl.texel_copies import copy_to_buffer
from ...gl.texture import GlTexture
from ...transfers import VIDEO_FRAME, transfers
from ..read.frame_reader import Pixels

_SLOTS = 4
"""Most frames between the GPU and the encoder: the GPU copies one, one is ready, one is encoded, and one more."""
_MAX_BYTES = 256 << 20
"""Most bytes of these frames, of which there are always two: more than two frames of 8K wait for nothing."""


class ReadbackRing:
    """A ring of buffers through which RGBA8 textures of ``width`` x ``height`` texels reach the CPU.

    An encoder's thread reads the mapped memory itself. (``ReadRing``, of buffers of any API, copies to arrays of the
    caller's.)

    ``push`` starts a copy. ``take`` gives the oldest frame that was copied, in mapped memory, which any thread may read
    until its slot is given back (``give_back``). All calls are the owner thread's. A frame is RGBA, uint8, (height,
    width, 4), row 0 on top.
    """

    def __init__(self, context: GlContext, width: int, height: int, reason: str = VIDEO_FRAME) -> None:
        """``reason`` is the phrase under which ``transfers`` counts the copies."""
        context.check()
        self._reason = reason
        self._context, self._size, self._nbytes = context, (width, height), width * height * 4
        self.slots = max(2, min(_SLOTS, _MAX_BYTES // self._nbytes))
        self._buffers = [context.objects.generate("buffer") for _ in range(self.slots)]
        self._finalizer = weakref.finalize(self, _free, context, self._buffers)
        self._finalizer.atexit = False
        self._pending: deque[tuple[int, int]] = deque()
        """The slots on their way, and their fences, oldest first."""
        self._taken: set[int] = set()
        """The slots that somebody reads. All others are free: an exception between two steps loses none."""
        gl = context.gl
        with kept(context, pixel_reads):
            for buffer in self._buffers:
                gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, buffer)
                gl.glBufferData(GL.PIXEL_PACK_BUFFER, self._nbytes, None, GL.STREAM_READ)
            gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, 0)

    @property
    def has_room(self) -> bool:
        """Whether ``push`` may be called."""
        return len(self._pending) + len(self._taken) < self.slots

    @property
    def taken(self) -> int:
        """The number of frames that were taken and not given back."""
        return len(self._taken)

    def push(self, texture: GlTexture) -> None:
        """Start to copy ``texture``."""
        self._context.check()
        transfers.count("download", self._nbytes, self._reason)
        used, gl = {*self._taken, *(slot for slot, _ in self._pending)}, self._context.gl
        slot = next(slot for slot in range(self.slots) if slot not in used)
        with kept(self._context, pixel_reads):  # what was interrupted may have left it mapped
            gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, self._buffers[slot])
            unmap_buffer(self._context, GL.PIXEL_PACK_BUFFER, self._buffers[slot])
            gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, 0)
        copy_to_buffer(texture, self._buffers[slot])
        self._pending.append((slot, make_fence(self._context)))

    def take(self, *, wait: bool) -> tuple[int, Pixels] | None:
        """The slot and the frame of the oldest copy.

        None if there is none, or if the GPU is not done with it and ``wait`` is False.
        """
        self._context.check()
        if not self._pending or not (wait or is_passed(self._context, self._pending[0][1])):
            return None
        slot, fence = self._pending.popleft()
        wait_and_delete(self._context, fence)
        gl = self._context.gl
        with kept(self._context, pixel_reads):
            gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, self._buffers[slot])
            buffer = self._buffers[slot]
            address = map_buffer(self._context, GL.PIXEL_PACK_BUFFER, buffer, self._nbytes, GL.MAP_READ_BIT)
            gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, 0)
        if not address:
            raise DeviceError(f"{self._context} cannot map a frame that was read back: is its memory full?")
        raise_if_reset(self._context)
        memory = (ctypes.c_ubyte * self._nbytes).from_address(address)
        self._taken.add(slot)
        return slot, np.ctypeslib.as_array(memory).reshape(self._size[1], self._size[0], 4)

    def give_back(self, slot: int) -> None:
        """Let the buffer of a frame that was taken be written again."""
        gl = self._context.gl
        self._taken.discard(slot)
        with kept(self._context, pixel_reads):
            gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, self._buffers[slot])
            unmap_buffer(self._context, GL.PIXEL_PACK_BUFFER, self._buffers[slot])
            gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, 0)

    def release(self) -> None:
        """Free the buffers, when nobody reads a frame any longer. Frames that are still on their way are lost.

        Any thread may call this.
        """
        for _, fence in self._pending:
            self._context.objects.defer_delete("sync", fence)
        self._pending.clear()
        self._finalizer()


def _free(context: GlContext, buffers: list[int]) -> None:
    for buffer in buffers:
        context.objects.defer_delete("buffer", buffer)
