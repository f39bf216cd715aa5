"""A ring of upload buffers in mapped memory: a decoder writes frames, and the GPU makes RGBA8 textures of them."""

from __future__ import annotations

import ctypes
import weakref

import numpy as np

from ...errors import DeviceError
from ...gl.context import GlContext
from ...gl.fences import make_fence, wait_and_delete
from ...gl.khronos import GL
from ...gl.mapping import map_buffer, unmap_buffer
from ...gl.program import build_program
from ...gl.query import has_extension
from ...gl.state import (
    framebuffers,
    kept,
    pixel_operations,
    pixel_uploads,
    prepare_to_draw,
    program,
    texture_units,
    vertex_array,
)
from ...gl.state import texture as bound_texture
from ...gl.texture import GlTexture
from ...transfers import CAMERA_FRAME, transfers
from .frame_reader import Pixels
from .yuv_to_rgb import Layout, layout_of

_MAP_ANEW = GL.MAP_WRITE_BIT | GL.MAP_INVALIDATE_BUFFER_BIT | GL.MAP_UNSYNCHRONIZED_BIT
_UNPACK = (
    (GL.UNPACK_ROW_LENGTH, 0), (GL.UNPACK_SKIP_ROWS, 0), (GL.UNPACK_SKIP_PIXELS, 0), (GL.UNPACK_ALIGNMENT, 1),
)  # fmt: skip
_UNPACK_ALIGNMENT_DEFAULT = (GL.UNPACK_ALIGNMENT, 4)
_CHANGED = (program, pixel_uploads, texture_units(1), framebuffers, vertex_array, pixel_operations)
"""The parts of the GL state that converting a frame changes."""
_VERTEX = """
void main() { gl_Position = vec4(float((gl_VertexID & 1) * 4 - 1), float((gl_VertexID >> 1) * 4 - 1), 0.0, 1.0); }
"""
# A triangle, not a dispatch: llvmpipe converts a frame of 720p in 11.5 ms of CPU time, and took 18.0 by imageStore
# (medians of 25 by turns with glFinish, 2 cores, 2026-11-22; benchmarks/video/process.py prints "upload", which has
# more in it; the dispatch is in commit d1ff5e0). A GPU was not measured.
_TO_RGBA = """
precision highp float;
precision highp int;
precision highp sampler2D;
layout(binding = 0) uniform sampler2D raw;
layout(location = 0) uniform bool mirror;
layout(location = 1) uniform ivec2 size;
layout(location = 0) out vec4 color;
FETCH
void main() {
    ivec2 pixel = ivec2(gl_FragCoord.xy);
    vec3 rgb = fetch(ivec2(mirror ? size.x - 1 - pixel.x : pixel.x, pixel.y));
    color = vec4(floor(clamp(rgb, 0.0, 1.0) * 255.0 + 0.5) / 255.0, 1.0);  // a GPU may round to a neighbour
}
"""


class UploadRing:
    """A ring of ``slots`` buffers of one frame each, and as many RGBA8 textures of ``width`` x ``height`` texels.

    A slot goes round: ``view`` gives its memory, which any thread may fill; ``to_texture`` (owner thread) lets the GPU
    read it; after ``wait`` (owner thread) it may be filled again. If the driver can keep a buffer mapped while the GPU
    uses it, the memory of a view stays the same; else, or if ``persistent`` is False, each ``view`` maps the buffer and
    ``to_texture`` unmaps it.

    In a context of framebind's own it leaves this GL state changed: no program; no buffer for pixel transfers; texture
    unit 0, which is active and has no texture or sampler; pixel storage at its defaults; framebuffer, viewport, vertex
    array; blending and all that drops pixels is off.
    """

    def __init__(
        self,
        context: GlContext,
        width: int,
        height: int,
        slots: int = 3,
        layout: Layout | None = None,
        *,
        persistent: bool | None = None,
    ) -> None:
        """``layout`` is the layout of frames in the buffers; BGR by default."""
        context.check()
        self._layout = layout = layout or layout_of("bgr", width, height)
        self._context, self._width, self._height, self._nbytes = context, width, height, layout.nbytes
        self.persistent = _can_map_persistently(context) if persistent is None else persistent
        self._buffers = [context.objects.generate("buffer") for _ in range(slots)]
        self._raw = context.objects.generate("texture")
        self._finalizer = weakref.finalize(self, _free, context, self._buffers, self._raw)
        self._finalizer.atexit = False
        self._program = context.objects.once("program", layout.glsl, lambda: _build(context, layout))
        objects = context.objects
        self._vertex_array = objects.once("vertex array", "empty", lambda: objects.generate("vertex array"))
        self.textures = [GlTexture(width, height, "rgba8", label=f"camera frame {slot}") for slot in range(slots)]
        for texture in self.textures:
            texture.framebuffer()  # made now, not in the first frames
        self._fences: list[int | None] = [None] * slots
        self._views: list[Pixels | None] = [None] * slots
        self._make_raw_texture()
        for slot in range(slots):
            self._make_buffer(slot)

    def view(self, slot: int) -> Pixels:
        """The slot's memory: uint8, of the layout's shape. Only write it: reading mapped memory may be very slow."""
        view = self._views[slot]
        if view is None:
            view = self._views[slot] = self._map(slot, _MAP_ANEW)
        return view

    def to_texture(self, slot: int, mirror: bool = False) -> GlTexture:
        """Let the GPU convert the slot to its RGBA8 texture, mirrored if ``mirror``. Does not wait for the GPU.

        Counted as "camera frame".
        """
        context, gl, texture = self._context, self._context.gl, self.textures[slot]
        context.check()
        transfers.count("upload", self._nbytes, CAMERA_FRAME)
        with kept(context, *_CHANGED):
            gl.glBindBuffer(GL.PIXEL_UNPACK_BUFFER, self._buffers[slot])
            if not self.persistent:
                self._views[slot] = None
                if not unmap_buffer(context, GL.PIXEL_UNPACK_BUFFER, self._buffers[slot]):
                    raise DeviceError(
                        f"{context} lost the memory of a camera frame (the display changed?): read it again"
                    )
            gl.glActiveTexture(GL.TEXTURE0)
            gl.glBindTexture(GL.TEXTURE_2D, self._raw)
            for name, value in _UNPACK:
                gl.glPixelStorei(name, value)
            layout = self._layout
            gl.glTexSubImage2D(GL.TEXTURE_2D, 0, 0, 0, *layout.texture, layout.external, GL.UNSIGNED_BYTE, None)
            gl.glPixelStorei(*_UNPACK_ALIGNMENT_DEFAULT)
            gl.glBindBuffer(GL.PIXEL_UNPACK_BUFFER, 0)
            self._fences[slot] = make_fence(context)
            self._draw(texture, mirror)
            gl.glBindTexture(GL.TEXTURE_2D, 0)
        return texture

    def _draw(self, texture: GlTexture, mirror: bool) -> None:
        """Convert the raw texture, which is bound to the first unit. Call it inside a block that keeps ``_CHANGED``."""
        gl, size = self._context.gl, (self._width, self._height)
        gl.glUseProgram(self._program)
        gl.glUniform1i(0, int(mirror))
        gl.glUniform2i(1, *size)
        gl.glBindSampler(0, 0)
        gl.glBindFramebuffer(GL.FRAMEBUFFER, texture.framebuffer())
        prepare_to_draw(self._context, 0, 0, *size, blended=False)
        gl.glBindVertexArray(self._vertex_array)
        gl.glDrawArrays(GL.TRIANGLES, 0, 3)
        gl.glUseProgram(0)

    def wait(self, slot: int) -> None:
        """Block until the GPU has read the slot."""
        fence, self._fences[slot] = self._fences[slot], None
        if fence is not None:
            wait_and_delete(self._context, fence)

    def release(self) -> None:
        """Free the buffers: no thread may write to a view from now on. Textures live as long as somebody holds them.

        Any thread may call this, also after the context is closed.
        """
        for fence in filter(None, self._fences):
            self._context.objects.defer_delete("sync", fence)
        self._fences = [None] * len(self._buffers)
        self._views = [None] * len(self._buffers)
        self._finalizer()

    def _make_raw_texture(self) -> None:
        gl = self._context.gl
        with kept(self._context, bound_texture):
            gl.glBindTexture(GL.TEXTURE_2D, self._raw)
            gl.glTexStorage2D(GL.TEXTURE_2D, 1, self._layout.internal, *self._layout.texture)
            gl.glTexParameteri(GL.TEXTURE_2D, GL.TEXTURE_MIN_FILTER, GL.NEAREST)
            gl.glBindTexture(GL.TEXTURE_2D, 0)

    def _make_buffer(self, slot: int) -> None:
        gl = self._context.gl
        with kept(self._context, pixel_uploads):
            gl.glBindBuffer(GL.PIXEL_UNPACK_BUFFER, self._buffers[slot])
            if self.persistent:
                storage = gl.glBufferStorageEXT if self._context.is_es else gl.glBufferStorage
                flags = GL.MAP_WRITE_BIT | GL.MAP_PERSISTENT_BIT | GL.MAP_COHERENT_BIT
                storage(GL.PIXEL_UNPACK_BUFFER, self._nbytes, None, flags)
                self._views[slot] = self._map(slot, flags)
            else:
                gl.glBufferData(GL.PIXEL_UNPACK_BUFFER, self._nbytes, None, GL.STREAM_DRAW)
            gl.glBindBuffer(GL.PIXEL_UNPACK_BUFFER, 0)

    def _map(self, slot: int, flags: int) -> Pixels:
        gl = self._context.gl
        with kept(self._context, pixel_uploads):
            gl.glBindBuffer(GL.PIXEL_UNPACK_BUFFER, self._buffers[slot])
            address = map_buffer(self._context, GL.PIXEL_UNPACK_BUFFER, self._buffers[slot], self._nbytes, flags)
            gl.glBindBuffer(GL.PIXEL_UNPACK_BUFFER, 0)
        if not address:
            raise DeviceError(f"{self._context} cannot map {self._nbytes} bytes for camera frames: is its memory full?")
        memory = (ctypes.c_ubyte * self._nbytes).from_address(address)
        return np.ctypeslib.as_array(memory).reshape(self._layout.shape)


def _can_map_persistently(context: GlContext) -> bool:
    if not context.is_es and context.version >= (4, 4):
        return True
    return has_extension(context, "GL_EXT_buffer_storage" if context.is_es else "GL_ARB_buffer_storage")


def _build(context: GlContext, layout: Layout) -> int:
    version = "#version 310 es" if context.is_es else "#version 430 core"
    texts = {
        GL.VERTEX_SHADER: version + _VERTEX,
        GL.FRAGMENT_SHADER: version + _TO_RGBA.replace("FETCH", layout.glsl),
    }
    return build_program(context, f"{layout.name} to rgba", texts)


def _free(context: GlContext, buffers: list[int], raw: int) -> None:
    for buffer in buffers:
        context.objects.defer_delete("buffer", buffer)
    context.objects.defer_delete("texture", raw)
