"""Text, boxes, lines and points over a picture, drawn by GL."""

from __future__ import annotations

import ctypes
import weakref

from ...gl.context import GlContext
from ...gl.khronos import GL
from ...gl.program import build_program
from ...gl.state import framebuffers, kept, pixel_operations, prepare_to_draw, program, texture_units, vertex_array
from ...gl.texture import GlTexture, linear_sampler
from .draw import Surface
from .font import MARGIN, font, spelled

_BATCH = 64
"""Strokes a draw call: three vec4 each, of the 256 that every driver has room for."""

# Everything is a stroke: a segment with a thickness. A glyph is one as thick as its line of text is high.
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
# look is the thickness, and for a glyph its place in the atlas and the number of texels per pixel; for a shape -1, the
# radius of its corners, and the thickness of its outline or 0 if it is filled. A shape covers a pixel by the distance
# of the pixel's centre from its edge ("signed distance"): that is its antialiasing.
_FRAGMENT = """
uniform sampler2D font;
in vec2 along;
flat in vec4 look;
flat in vec4 tint;
flat in vec2 extent;
out vec4 color;
void main() {
  float cover;
  if (look.y >= 0.0) {
    cover = texture(font, (look.yz + along * extent * look.w) / vec2(textureSize(font, 0))).r;
  } else {
    vec2 beyond = abs((along - 0.5) * extent) - 0.5 * (extent - 1.0) + look.z;
    float distance = length(max(beyond, 0.0)) + min(max(beyond.x, beyond.y), 0.0) - look.z;
    cover = clamp(0.5 - distance, 0.0, 1.0);
    if (look.w > 0.0) cover -= clamp(0.5 - distance - look.w, 0.0, 1.0);
  }
  color = vec4(tint.rgb, tint.a * cover);
}
"""

Color = tuple[float, float, float] | tuple[float, float, float, float]
"""Red, green, blue and optionally opacity, from 0 to 1."""


class Overlay:
    """Lines, points, boxes and text, collected and then drawn over a texture or window.

    It belongs to the context that is current when it is made. Places and sizes are in pixels of the target, from its
    top left corner. Colours are (red, green, blue) or (red, green, blue, alpha), each from 0 to 1. Edges are
    antialiased. Strokes go to the GPU as uniforms of the draw call; the font is one texture, uploaded when the overlay
    is made.

    Examples
    --------
    >>> with fb.GlContext.headless():
    ...     picture, overlay = fb.GlTexture.from_array(np.zeros((32, 64, 3), np.uint8)), fb.Overlay()
    ...     overlay.fill(0, 0, 64, 16, (1.0, 0.0, 0.0))
    ...     overlay.text("24 fps", 2, 16, height=16)
    ...     overlay.draw(picture)
    ...     picture.read()[8, 32]
    array([255,   0,   0, 255], dtype=uint8)
    """

    def __init__(self) -> None:
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
        self._font = font()
        rows, columns = self._font.atlas.shape
        self._atlas = GlTexture(columns, rows, "r8", label="the overlay's font")
        self._atlas.write(self._font.atlas, "font")
        self._values = (ctypes.c_float * (_BATCH * 12))()
        self._waiting: list[float] = []

    def __repr__(self) -> str:
        return f"<Overlay: shapes and letters to draw: {len(self._waiting) // 12}>"

    def line(self, x0: float, y0: float, x1: float, y1: float, color: Color, thickness: float = 2.0) -> None:
        """Add a straight line. Its edges fade over one pixel, so that a slight move changes it slightly."""
        self._add((x0, y0, x1, y1), (thickness, -1.0, 0.0, 0.0), color)

    def point(self, x: float, y: float, color: Color, diameter: float = 8.0) -> None:
        """Add a disc around a place."""
        radius = diameter / 2
        self._add((x - radius, y, x + radius, y), (diameter, -1.0, radius, 0.0), color)

    def fill(self, x: float, y: float, width: float, height: float, color: Color, radius: float = 0.0) -> None:
        """Add a filled rectangle; x and y are its top left corner, ``radius`` is that of its rounded corners."""
        self._add((x, y + height / 2, x + width, y + height / 2), (height, -1.0, radius, 0.0), color)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        color: Color,
        thickness: float = 2.0,
        radius: float = 0.0,
    ) -> None:
        """Add the outline of a rectangle; x and y are its top left corner, in the middle of the outline.

        ``radius`` is that of the rounded corners, at the outside of the outline.
        """
        half, middle = thickness / 2, y + height / 2
        shape = (height + thickness, -1.0, radius, thickness)
        self._add((x - half, middle, x + width + half, middle), shape, color)

    def text(self, text: str, x: float, y: float, color: Color = (1.0, 1.0, 1.0), height: float = 20.0) -> None:
        """Add lines of text, separated by newlines.

        ``x`` and ``y`` are the top left corner of the first line, ``height`` is the height of a line. Text is sharpest
        if all three are whole numbers. The font has ASCII, "·", "°" and "…". Other characters are transliterated: "é"
        is drawn as "e", "猫" as "Mao".
        """
        drawn, glyphs = self._font.at(height)
        scale, other = height / drawn, glyphs["?"]
        for number, line in enumerate(spelled(text).split("\n")):
            left, middle = x, y + (number + 0.5) * height
            for character in line:
                glyph = glyphs.get(character, other)
                if character != " ":
                    start = left - MARGIN * scale
                    place = (start, middle, start + glyph.width * scale, middle)
                    self._add(place, (height, glyph.x, glyph.y, 1 / scale), color)
                left += glyph.advance * scale

    def text_width(self, text: str, height: float = 20.0) -> float:
        """Width of the longest line of ``text`` in pixels."""
        drawn, glyphs = self._font.at(height)
        other = glyphs["?"]
        widest = max(sum(glyphs.get(c, other).advance for c in line) for line in spelled(text).split("\n"))
        return widest * height / drawn

    def draw(self, target: GlTexture | Surface) -> None:
        """Draw everything added since the last draw, in that order, over a texture or window.

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
            for start in range(0, len(self._waiting), len(self._values)):
                batch = self._waiting[start : start + len(self._values)]
                self._values[: len(batch)] = batch
                gl.glUniform4fv(self._strokes, len(batch) // 4, self._values)
                gl.glDrawArraysInstanced(GL.TRIANGLE_STRIP, 0, 4, len(batch) // 12)
            gl.glDisable(GL.BLEND)
            gl.glBindSampler(0, 0)
        self._waiting.clear()

    def _add(self, ends: tuple[float, ...], look: tuple[float, ...], color: Color) -> None:
        self._waiting += (*ends, *look, *color, *(1.0,) * (4 - len(color)))
