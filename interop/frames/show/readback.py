"""Readback of textures for a video file: a frame is fetched two frames after it was drawn, so the GPU never waits."""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from collections.abc import Iterator

import numpy as np

from ...errors import DeviceError
from ...gl.context import GlContext
from ...gl.khronos import GL
from ...gl.query import raise_if_reset
from ...gl.state import kept, pixel_reads, read_framebuffer, restored
from ...gl.texture import GlTexture
from ...transfers import transfers
from ..capture.readers import Frame
from ..capture.upload import make_fence, wait_and_delete

VIDEO_FRAME = "video frame"
"""The reason under which ``transfers`` counts the copies."""

_WRITTEN_BARRIER = GL.FRAMEBUFFER_BARRIER_BIT | GL.PIXEL_BUFFER_BARRIER_BIT
_PACK = ((GL.PACK_ROW_LENGTH, 0), (GL.PACK_SKIP_ROWS, 0), (GL.PACK_SKIP_PIXELS, 0), (GL.PACK_ALIGNMENT, 4))
_DEPTH = 2
"""Number of frames after which a frame is fetched."""


class ReadbackRing:
    """A ring of buffers that copies RGBA8 textures of ``width`` x ``height`` texels to the CPU, two frames late.

    ``push(texture)`` starts a copy and returns the frame pushed two calls before, or None at first; ``drain`` gives the
    remaining frames. A frame is RGBA, uint8, (height, width, 4), row 0 on top. The next frame overwrites it.
    """

    def __init__(self, context: GlContext, width: int, height: int) -> None:
        context.check()
        self._context, self._size, self._nbytes = context, (width, height), width * height * 4
        self._buffers = [context.objects.generate("buffer") for _ in range(_DEPTH + 1)]
        self._finalizer = weakref.finalize(self, _free, context, self._buffers)
        self._finalizer.atexit = False
        self._frame = np.empty((height, width, 4), np.uint8)
        self._pending: deque[tuple[int, int]] = deque()
        self._next = 0
        gl = context.gl
        with kept(context, pixel_reads):
            for buffer in self._buffers:
                gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, buffer)
                gl.glBufferData(GL.PIXEL_PACK_BUFFER, self._nbytes, None, GL.STREAM_READ)
            gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, 0)

    def push(self, texture: GlTexture) -> Frame | None:
        """Start to copy ``texture``, counted as "video frame". Returns the frame of two pushes ago."""
        self._context.check()
        transfers.count("download", self._nbytes, VIDEO_FRAME)
        buffer, gl = self._buffers[self._next], self._context.gl
        self._next = (self._next + 1) % len(self._buffers)
        gl.glMemoryBarrier(_WRITTEN_BARRIER)
        with restored(self._context, read_framebuffer), kept(self._context, pixel_reads):
            gl.glBindFramebuffer(GL.READ_FRAMEBUFFER, texture.framebuffer())
            for name, value in _PACK:
                gl.glPixelStorei(name, value)
            gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, buffer)
            gl.glReadPixels(0, 0, *self._size, GL.RGBA, GL.UNSIGNED_BYTE, None)
            gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, 0)
        self._pending.append((buffer, make_fence(self._context)))
        return self._fetch() if len(self._pending) > _DEPTH else None

    def drain(self) -> Iterator[Frame]:
        """Yield the frames that are still on their way, oldest first."""
        while self._pending:
            yield self._fetch()

    def release(self) -> None:
        """Free the buffers. Frames that are still on their way are lost."""
        for _, fence in self._pending:
            self._context.objects.defer_delete("sync", fence)
        self._pending.clear()
        self._finalizer()

    def _fetch(self) -> Frame:
        self._context.check()
        buffer, fence = self._pending.popleft()
        wait_and_delete(self._context, fence)
        gl = self._context.gl
        with kept(self._context, pixel_reads):
            gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, buffer)
            address = gl.glMapBufferRange(GL.PIXEL_PACK_BUFFER, 0, self._nbytes, GL.MAP_READ_BIT)
            if not address:
                raise DeviceError(f"{self._context} cannot map a frame that was read back: is its memory full?")
            ctypes.memmove(self._frame.ctypes.data, address, self._nbytes)
            gl.glUnmapBuffer(GL.PIXEL_PACK_BUFFER)
            gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, 0)
        raise_if_reset(self._context)
        return self._frame


def _free(context: GlContext, buffers: list[int]) -> None:
    for buffer in buffers:
        context.objects.defer_delete("buffer", buffer)
