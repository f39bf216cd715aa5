"""Text, boxes, lines and points over a picture, drawn by GL."""

from __future__ import annotations

import ctypes
import functools
import weakref

import numpy as np

from ...gl.context import GlContext
from ...gl.khronos import GL
from ...gl.program import build_program
from ...gl.state import framebuffers, kept, pixel_operations, prepare_to_draw, program, texture_units, vertex_array
from ...gl.texture import GlTexture, linear_sampler
from ..capture.opencv import load_cv2
from .draw import Surface

_BATCH = 64
"""Strokes a draw call: three vec4 each, of the 256 that every driver has room for."""
_FIRST, _LAST, _CELL, _BASELINE = 32, 126, (32, 48), 36
"""First and last character of the font; width and height of each in the atlas, and the baseline in it, in texels."""

# Everything is a stroke: a segment with a thickness. A glyph is one as thick as a line of text is high.
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
  float margin = look.y == -1.0 ? 0.5 : 0.0;  // the edges of a plain stroke fade over one pixel
  vec2 cap = direction * (look.y < -1.0 ? look.x * 0.5 : margin);
  extent = vec2(length(ends.zw - ends.xy), look.x) + 2.0 * margin;
  vec2 middle = mix(ends.xy - cap, ends.zw + cap, along.x);
  vec2 place = (middle + vec2(-direction.y, direction.x) * extent.y * (along.y - 0.5)) / size * 2.0 - 1.0;
  gl_Position = vec4(place.x, bottom_up > 0.5 ? -place.y : place.y, 0.0, 1.0);
}
"""
# look is the thickness, then the glyph's column in the atlas (-1 for a plain stroke, -2 for a disc), its width.
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
    cover = texture(font, vec2(look.y + along.x * look.z, along.y)).r;
  } else if (look.y < -1.0) {
    cover = clamp((0.5 - length(along - 0.5)) * look.x, 0.0, 1.0);
  } else {
    vec2 inside = clamp((0.5 - abs(along - 0.5)) * extent, 0.0, 1.0);
    cover = inside.x * inside.y;
  }
  color = vec4(tint.rgb, tint.a * cover);
}
"""

Color = tuple[float, float, float] | tuple[float, float, float, float]
"""Red, green, blue and optionally opacity, from 0 to 1."""


class Overlay:
    """Lines, points, boxes and text, collected and then drawn over a texture or window.

    It belongs to the context that is current when it is made. Places and sizes are in pixels of the target, from its
    top left corner. Colours are (red, green, blue) or (red, green, blue, alpha), each from 0 to 1. Strokes go to the
    GPU as uniforms of the draw call; the font is one texture, uploaded when the overlay is made.

    Raises
    ------
    SourceError
        If OpenCV, whose font it uses, cannot be loaded.

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
        atlas, self._widths = _font()
        self._font = GlTexture(atlas.shape[1], atlas.shape[0], "r8", label="the overlay's font")
        self._font.write(atlas, "font")
        self._values = (ctypes.c_float * (_BATCH * 12))()
        self._waiting: list[float] = []

    def line(self, x0: float, y0: float, x1: float, y1: float, color: Color, thickness: float = 2.0) -> None:
        """Add a straight line. Its edges fade over one pixel, so that a slight move changes it slightly."""
        self._add((x0, y0, x1, y1), thickness, -1.0, 0.0, color)

    def point(self, x: float, y: float, color: Color, diameter: float = 8.0) -> None:
        """Add a disc around a place."""
        self._add((x, y, x, y), diameter, -2.0, 0.0, color)

    def fill(self, x: float, y: float, width: float, height: float, color: Color) -> None:
        """Add a filled rectangle; x and y are its top left corner."""
        self._add((x, y + height / 2, x + width, y + height / 2), height, -1.0, 0.0, color)

    def box(self, x: float, y: float, width: float, height: float, color: Color, thickness: float = 2.0) -> None:
        """Add the outline of a rectangle; x and y are its top left corner, in the middle of the outline."""
        half = thickness / 2
        for edge in (y, y + height):
            self.line(x - half, edge, x + width + half, edge, color, thickness)
        for edge in (x, x + width):
            self.line(edge, y + half, edge, y + height - half, color, thickness)

    def text(self, text: str, x: float, y: float, color: Color = (1.0, 1.0, 1.0), height: float = 20.0) -> None:
        """Add lines of ASCII text, separated by newlines; other characters are shown as "?".

        ``x`` and ``y`` are the top left corner of the first line, ``height`` is the height of a line.
        """
        for number, line in enumerate(text.split("\n")):
            left, middle = x, y + (number + 0.5) * height
            for glyph in map(_glyph, line):
                width = self._widths[glyph]
                right = left + width * height / _CELL[1]
                if glyph:
                    column = glyph * _CELL[0] / self._font.size[0]
                    self._add((left, middle, right, middle), height, column, width / self._font.size[0], color)
                left = right

    def text_width(self, text: str, height: float = 20.0) -> float:
        """Width of the longest line of ``text`` in pixels."""
        return max(sum(self._widths[_glyph(c)] for c in line) for line in text.split("\n")) * height / _CELL[1]

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
            gl.glBindTexture(GL.TEXTURE_2D, self._font.id)
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

    def _add(self, ends: tuple[float, ...], thickness: float, column: float, width: float, color: Color) -> None:
        self._waiting += (*ends, thickness, column, width, 0.0, *color, *(1.0,) * (4 - len(color)))


def _glyph(character: str) -> int:
    code = ord(character)
    return (code if _FIRST <= code <= _LAST else ord("?")) - _FIRST


@functools.cache
def _font() -> tuple[np.ndarray, list[int]]:
    """The atlas, with the cells of all characters side by side, and the width of each character in texels."""
    cv2, (width, height) = load_cv2(), _CELL
    atlas, widths = np.zeros((height, (_LAST - _FIRST + 1) * width), np.uint8), list[int]()
    for glyph in range(_LAST - _FIRST + 1):
        cell, character = np.zeros((height, width), np.uint8), chr(_FIRST + glyph)
        (advance, _), _ = cv2.getTextSize(character, cv2.FONT_HERSHEY_DUPLEX, 1.1, 2)
        cv2.putText(cell, character, (1, _BASELINE), cv2.FONT_HERSHEY_DUPLEX, 1.1, 255, 2, cv2.LINE_AA)
        atlas[:, glyph * width : (glyph + 1) * width] = cell
        widths.append(min(advance + 2, width))
    return atlas, widths
