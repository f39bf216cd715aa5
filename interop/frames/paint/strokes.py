"""Strokes, of which all marks are made, and the share of each pixel that one covers.

The formulas are here once for each renderer, side by side: in GLSL for ``marks_on_textures.py``, in NumPy for
``marks_on_planes.py``. Their numbers and the font are the same.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .font import font

Cover = npt.NDArray[np.float32]
"""The share of each pixel that is covered, from 0 to 1."""


class Stroke(NamedTuple):
    """The numbers of a stroke in pixels: a segment with a thickness, and a colour.

    A filled rectangle is a segment through its middle, as thick as it is high; a letter is one as thick as its line of
    text is high. A shape covers a pixel by the distance of the pixel's centre from its edge ("signed distance"): that
    is its antialiasing. A letter covers what the font's atlas says there.
    """

    x0: float
    y0: float
    x1: float
    y1: float
    thickness: float
    glyph_x: float
    """The column of a glyph in the atlas; -1 of a shape."""
    glyph_y: float
    """The row of a glyph in the atlas; of a shape the radius of its corners."""
    texels: float
    """Texels of the atlas per pixel; of a shape the thickness of its outline, or 0 if it is filled."""
    red: float
    green: float
    blue: float
    opacity: float

    @property
    def is_glyph(self) -> bool:
        return self.glyph_x >= 0

    @property
    def radius(self) -> float:
        return self.glyph_y

    @property
    def outline(self) -> float:
        return self.texels


STROKE = len(Stroke._fields)
"""Numbers of a stroke."""


class Part(NamedTuple):
    """A rectangle of pixels: the first and the one behind the last of columns and rows."""

    left: int
    top: int
    right: int
    bottom: int


# Shapes ---------------------------------------------------------------------------------------------------------------

COVERAGE = """
uniform sampler2D font;
float shape_coverage(vec2 from_middle, vec2 size, float radius, float outline) {
  vec2 beyond = abs(from_middle) - 0.5 * size + radius;  // beyond the straight part of each side
  float distance = length(max(beyond, 0.0)) + min(max(beyond.x, beyond.y), 0.0) - radius;
  float cover = clamp(0.5 - distance, 0.0, 1.0);
  return outline > 0.0 ? cover - clamp(0.5 - distance - outline, 0.0, 1.0) : cover;
}
float letter_coverage(vec2 glyph, vec2 from_corner, float texels) {
  return texture(font, (glyph + from_corner * texels) / vec2(textureSize(font, 0))).r;
}
"""
"""GLSL that gives the share of a pixel, by its centre's place in pixels along and across the stroke."""


def shape_coverage(part: Part, stroke: Stroke) -> Cover:
    """The share of each pixel of a part that a shape covers."""
    length = math.hypot(stroke.x1 - stroke.x0, stroke.y1 - stroke.y0)
    cosine, sine = ((stroke.x1 - stroke.x0) / length, (stroke.y1 - stroke.y0) / length) if length else (1.0, 0.0)
    x = np.arange(part.left, part.right, dtype=np.float32) + np.float32(0.5 - (stroke.x0 + stroke.x1) / 2)
    y = np.arange(part.top, part.bottom, dtype=np.float32)[:, None] + np.float32(0.5 - (stroke.y0 + stroke.y1) / 2)
    # A row and a column alone if the shape is upright.
    along, across = (x, y) if not sine else (cosine * x + sine * y, cosine * y - sine * x)
    along = np.abs(along) + np.float32(stroke.radius - length / 2)
    across = np.abs(across) + np.float32(stroke.radius - stroke.thickness / 2)
    distance = np.minimum(np.maximum(along, across), 0)
    distance += np.hypot(np.maximum(along, 0), np.maximum(across, 0))
    np.subtract(np.float32(0.5 + stroke.radius), distance, out=distance)
    cover = _clipped(distance)
    if stroke.outline:
        distance -= np.float32(stroke.outline)
        cover -= _clipped(distance)
    return cover


def _clipped(values: Cover) -> Cover:
    """The values, between 0 and 1: faster than np.clip for few."""
    clipped = np.maximum(values, np.float32(0))
    return np.minimum(clipped, np.float32(1), out=clipped)


# Letters --------------------------------------------------------------------------------------------------------------


def letters_coverage(part: Part, letters: list[Stroke]) -> Cover:
    """The share of each pixel of a part that letters of one opacity cover: where two overlap, what neither leaves."""
    free = np.ones((part.bottom - part.top, part.right - part.left), np.float32)
    opacity = np.float32(letters[0].opacity)
    for each in letters:
        top = each.y0 - each.thickness / 2
        left, above = math.ceil(each.x0 - 0.5), math.ceil(top - 0.5)
        place = (each.glyph_x, each.glyph_y), (each.x1 - each.x0, each.thickness)
        seen = _letter_coverage(*place, each.texels, (each.x0 - left, top - above))
        right, below = min(left + seen.shape[1], part.right), min(above + seen.shape[0], part.bottom)
        first, first_row = max(left, part.left), max(above, part.top)
        if first < right and first_row < below:
            inside = free[first_row - part.top : below - part.top, first - part.left : right - part.left]
            inside *= 1 - seen[first_row - above : below - above, first - left : right - left] * opacity
    cover = np.subtract(1, free, out=free)
    cover /= opacity or 1
    return cover


@functools.lru_cache(1024)
def _letter_coverage(
    glyph: tuple[float, float], size: tuple[float, float], texels: float, corner: tuple[float, float]
) -> Cover:
    """The coverage of a letter's pixels, by linear filtering. Captions have the same letters in each frame.

    ``glyph`` is its place in the atlas (column, row), ``size`` its width and height in pixels. ``corner``: pixels from
    the corner of its first pixel to that of the letter, from -0.5 to 0.5.
    """
    atlas = font().atlas
    columns, rows = math.ceil(corner[0] + size[0] - 0.5), math.ceil(corner[1] + size[1] - 0.5)
    x = glyph[0] + (np.arange(columns) + (0.5 - corner[0])) * texels - 0.5
    y = glyph[1] + (np.arange(rows) + (0.5 - corner[1])) * texels - 0.5
    left, top = np.floor(x).astype(np.intp), np.floor(y).astype(np.intp)
    across, down = (x - left).astype(np.float32), (y - top).astype(np.float32)[:, None]
    last_row, last = atlas.shape[0] - 1, atlas.shape[1] - 1
    above, below = atlas[np.clip(top, 0, last_row)], atlas[np.clip(top + 1, 0, last_row)]
    lines = above * (1 - down) + below * down
    values = lines[:, np.clip(left, 0, last)] * (1 - across) + lines[:, np.clip(left + 1, 0, last)] * across
    return (values / 255).astype(np.float32)
