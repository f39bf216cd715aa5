"""Marks drawn by GL over textures and windows.

Pictures on the GPU stay there, and strokes are uniforms of the draw call: if the CPU painted a layer of marks, each
frame would upload it. ``marks_on_planes.py`` is the renderer for frames in the CPU's memory, which needs no GPU; what a
stroke covers is in ``strokes.py`` for both.
"""

from __future__ import annotations

import ctypes
import weakref

from ...gl.context import GlContext
from ...gl.draw.draw import Surface
from ...gl.khronos import GL
from ...gl.program import build_program
from ...gl.state import framebuffers, kept, pixel_operations, prepare_to_draw, program, texture_units, vertex_array
from ...gl.texture import GlTexture, linear_sampler
from ...uncopied import Uncopied
from .marks import Marks
from .strokes import COVERAGE, STROKE

_BATCH = 64
"""Strokes a draw call: three vec4 each, of the 256 that every driver has room for."""

# The numbers of a stroke come as three vec4: ends, look and tint.
_VERTEX = """
uniform vec4 strokes[STROKES * 3];
uniform vec2 size;
uniform float bottom_up;
out vec2 along;
flat out vec4 look;
flat out vec4 tint;
flat out vec2 extent;
void main() {
  vec4 ends = strokes[gl_InstanceID * 3];
  look = strokes[gl_InstanceID * 3 + 1];
  tint = strokes[gl_InstanceID * 3 + 2];
  along = vec2(float(gl_VertexID & 1), float(gl_VertexID >> 1));
  vec2 direction = ends.zw - ends.xy;
  direction = dot(direction, direction) > 0.0 ? normalize(direction) : vec2(1.0, 0.0);
  float margin = look.y < 0.0 ? 0.5 : 0.0;  // the edges of a shape fade over one pixel
  extent = vec2(length(ends.zw - ends.xy), look.x) + 2.0 * margin;
  vec2 middle = mix(ends.xy - direction * margin, ends.zw + direction * margin, along.x);
  vec2 place = (middle + vec2(-direction.y, direction.x) * extent.y * (along.y - 0.5)) / size * 2.0 - 1.0;
  gl_Position = vec4(place.x, bottom_up > 0.5 ? -place.y : place.y, 0.0, 1.0);
}
"""
_FRAGMENT = f"""
in vec2 along;
flat in vec4 look;
flat in vec4 tint;
flat in vec2 extent;
out vec4 color;
{COVERAGE}
void main() {{
  float cover = look.y < 0.0
    ? shape_coverage((along - 0.5) * extent, extent - 1.0, look.z, look.w)
    : letter_coverage(look.yz, along * extent, look.w);
  color = vec4(tint.rgb, tint.a * cover);
}}
"""


class Overlay(Uncopied, Marks):
    """Marks that GL draws over a texture or window.

    It belongs to the context that is current when it is made. Strokes go to the GPU as uniforms of the draw call; the
    font is one texture, uploaded when the overlay is made.

    Examples
    --------
    >>> with fb.GlContext.headless():
    ...     picture, overlay = fb.GlTexture.from_array(np.zeros((32, 64, 3), np.uint8)), fb.video.Overlay()
    ...     overlay.fill(0, 0, 64, 16, (1.0, 0.0, 0.0))
    ...     overlay.text("24 fps", 2, 16, height=16)
    ...     overlay.draw(picture)
    ...     picture.read()[8, 32]
    array([255,   0,   0, 255], dtype=uint8)
    """

    def __init__(self) -> None:
        super().__init__()
        self.context = context = GlContext.current()
        head = "#version 430 core\n"
        if context.is_es:
            head = "#version 310 es\n" + "".join(f"precision highp {t};\n" for t in ("float", "int", "sampler2D"))
        vertex = f"{head}const int STROKES = {_BATCH};{_VERTEX}"
        texts = {GL.VERTEX_SHADER: vertex, GL.FRAGMENT_SHADER: head + _FRAGMENT}
        self._program = build_program(context, "overlay", texts)
        weakref.finalize(self, context.objects.defer_delete, "program", self._program).atexit = False
        locate = context.gl.glGetUniformLocation
        self._strokes, self._size, self._bottom_up = (
            locate(self._program, name) for name in (b"strokes", b"size", b"bottom_up")
        )
        objects = context.objects
        self._vertex_array = objects.once("vertex array", "empty", lambda: objects.generate("vertex array"))
        atlas = self._font.drawn()
        rows, columns = atlas.shape
        self._atlas = GlTexture(columns, rows, "r8", label="the overlay's font")
        self._atlas.write(atlas, reason="font")
        self._values = (ctypes.c_float * (_BATCH * STROKE))()

    def draw(self, target: GlTexture | Surface, marks: Marks | None = None) -> None:
        """Draw everything added since the last draw, in that order, over a texture or window: here, or to ``marks``.

        In a context of framebind's own it leaves changed: framebuffer, viewport, program, vertex array, the texture of
        unit 0 (active); blending and all that drops pixels is off. In somebody else's all GL state is as it was.
        """
        self.context.check()
        context, gl, on_texture = self.context, self.context.gl, isinstance(target, GlTexture)
        width, height = target.size if isinstance(target, GlTexture) else target.framebuffer_size
        with kept(context, framebuffers, program, vertex_array, pixel_operations, texture_units(1)):
            gl.glUseProgram(self._program)
            gl.glUniform2f(self._size, width, height)
            gl.glUniform1f(self._bottom_up, float(not on_texture))
            gl.glActiveTexture(GL.TEXTURE0)
            gl.glBindTexture(GL.TEXTURE_2D, self._atlas.id)
            gl.glBindSampler(0, linear_sampler(context))
            gl.glBindFramebuffer(GL.FRAMEBUFFER, target.framebuffer() if isinstance(target, GlTexture) else 0)
            prepare_to_draw(context, 0, 0, width, height, blended=True)
            gl.glBindVertexArray(self._vertex_array)
            strokes = (self if marks is None else marks).take()
            for start in range(0, len(strokes), len(self._values)):
                batch = strokes[start : start + len(self._values)]
                self._values[: len(batch)] = batch
                gl.glUniform4fv(self._strokes, len(batch) // 4, self._values)
                gl.glDrawArraysInstanced(GL.TRIANGLE_STRIP, 0, 4, len(batch) // STROKE)
            gl.glDisable(GL.BLEND)
            gl.glBindSampler(0, 0)
