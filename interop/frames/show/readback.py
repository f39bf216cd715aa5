"""Reads textures back for a video file without stalling the GPU: a frame is fetched two frames after it was drawn."""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from collections.abc import Iterator

import numpy as np

from ...errors import DeviceError
from ...gl.context import GlContext
from ...gl.objects import PIXEL_PACK_BUFFER, GlTexture
from ...transfers import transfers
from ..capture.readers import Frame
from ..capture.upload import make_fence, wait_and_delete

VIDEO_FRAME = "video frame"
"""The reason under which ``transfers`` counts these copies."""

_READ_FRAMEBUFFER, _READ_FRAMEBUFFER_BINDING = 0x8CA8, 0x8CAA
_RGBA, _UNSIGNED_BYTE, _STREAM_READ, _MAP_READ = 0x1908, 0x1401, 0x88E1, 0x01
_WRITTEN_BARRIER = 0x400 | 0x80  # framebuffer, pixel buffer
_PACK = ((0x0D02, 0), (0x0D03, 0), (0x0D04, 0), (0x0D05, 4))  # row length, skipped rows, skipped pixels, alignment
_DEPTH = 2


class ReadbackRing:
    """Copies RGBA8 textures of ``width`` x ``height`` texels to the CPU, ``_DEPTH`` frames late.

    ``push(texture)`` starts a copy and returns the frame pushed two calls before, or None at first; ``drain`` gives the
    remaining ones. A frame is RGBA, uint8, (height, width, 4), row 0 on top; it is overwritten by the next.
    """

    def __init__(self, context: GlContext, width: int, height: int) -> None:
        context.check()
        self._context, self._size, self._nbytes = context, (width, height), width * height * 4
        self._buffers = [context.generate("buffer") for _ in range(_DEPTH + 1)]
        self._finalizer = weakref.finalize(self, _free, context, self._buffers)
        self._finalizer.atexit = False
        self._frame = np.empty((height, width, 4), np.uint8)
        self._pending: deque[tuple[int, int]] = deque()
        self._next = 0
        gl = context.gl
        for buffer in self._buffers:
            gl.glBindBuffer(PIXEL_PACK_BUFFER, buffer)
            gl.glBufferData(PIXEL_PACK_BUFFER, self._nbytes, None, _STREAM_READ)
        gl.glBindBuffer(PIXEL_PACK_BUFFER, 0)

    def push(self, texture: GlTexture) -> Frame | None:
        """Start to copy ``texture``, counted as "video frame"; give the frame of two pushes ago."""
        self._context.check()
        transfers.count("download", self._nbytes, VIDEO_FRAME)
        buffer, gl = self._buffers[self._next], self._context.gl
        self._next = (self._next + 1) % len(self._buffers)
        previous = gl.integer(_READ_FRAMEBUFFER_BINDING)
        gl.glMemoryBarrier(_WRITTEN_BARRIER)
        gl.glBindFramebuffer(_READ_FRAMEBUFFER, texture.framebuffer())
        for name, value in _PACK:
            gl.glPixelStorei(name, value)
        gl.glBindBuffer(PIXEL_PACK_BUFFER, buffer)
        gl.glReadPixels(0, 0, *self._size, _RGBA, _UNSIGNED_BYTE, None)
        gl.glBindBuffer(PIXEL_PACK_BUFFER, 0)
        gl.glBindFramebuffer(_READ_FRAMEBUFFER, previous)
        self._pending.append((buffer, make_fence(self._context)))
        return self._fetch() if len(self._pending) > _DEPTH else None

    def drain(self) -> Iterator[Frame]:
        """The frames that are still on their way, oldest first."""
        while self._pending:
            yield self._fetch()

    def release(self) -> None:
        """Free the buffers. Frames still on their way are lost."""
        for _, fence in self._pending:
            self._context.defer_delete("sync", fence)
        self._pending.clear()
        self._finalizer()

    def _fetch(self) -> Frame:
        self._context.check()
        buffer, fence = self._pending.popleft()
        wait_and_delete(self._context, fence)
        gl = self._context.gl
        gl.glBindBuffer(PIXEL_PACK_BUFFER, buffer)
        address = gl.glMapBufferRange(PIXEL_PACK_BUFFER, 0, self._nbytes, _MAP_READ)
        if not address:
            raise DeviceError(f"{self._context} cannot map a frame that was read back: is its memory full?")
        ctypes.memmove(self._frame.ctypes.data, address, self._nbytes)
        gl.glUnmapBuffer(PIXEL_PACK_BUFFER)
        gl.glBindBuffer(PIXEL_PACK_BUFFER, 0)
        return self._frame


def _free(context: GlContext, buffers: list[int]) -> None:
    for buffer in buffers:
        context.defer_delete("buffer", buffer)
