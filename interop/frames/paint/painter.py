"""Marks painted on planes by the CPU, as overlay.py draws them by GL: the same strokes and edges."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from .font import font
from .planes import Cover, Planes, blend

_STEP = 32
"""Pixels of a slanting line's longer side in a part: its bounding box would be the square of the line. Not measured."""


class Part(NamedTuple):
    """A rectangle of pixels of luma: the first and the one behind the last of columns and rows."""

    left: int
    top: int
    right: int
    bottom: int


class Stroke(NamedTuple):
    """The numbers of a stroke, from one end to the other, as the shader in overlay.py takes them."""

    x0: float
    y0: float
    x1: float
    y1: float
    thickness: float
    """The width of a line; of a glyph the height of its line of text."""
    glyph_x: float
    """The column of a glyph in the atlas; -1 of a shape."""
    glyph_y: float
    """The row of a glyph in the atlas; of a shape the radius of its corners."""
    texels: float
    """Texels of the atlas per pixel; of a shape the thickness of its outline, or 0."""
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


def paint(picture: Planes, numbers: Sequence[float]) -> None:
    """Paint strokes, ``STROKE`` numbers each, in their order.

    What they do not cover stays as it is, bit for bit. Chroma takes the mean of what is covered of its pixels.
    """
    strokes = (Stroke(*numbers[at : at + STROKE]) for at in range(0, len(numbers), STROKE))
    for run in _runs(strokes):
        whole = picture.planes[0].shape
        for part in _parts(run):
            inside = Part(max(part.left, 0), max(part.top, 0), min(part.right, whole[1]), min(part.bottom, whole[0]))
            if inside.left < inside.right and inside.top < inside.bottom:
                _paint_part(picture, inside, run)


def _runs(strokes: Iterator[Stroke]) -> Iterator[list[Stroke]]:
    """The letters of a line of text together, any other stroke alone.

    Letters of one colour may be painted at once: it makes no difference which of them is painted first.
    """

    def line(stroke: Stroke) -> object:
        return (stroke.y0, stroke.thickness, *stroke[8:]) if stroke.is_glyph else object()

    for _, run in itertools.groupby(strokes, line):
        yield list(run)


def _parts(run: list[Stroke]) -> Iterator[Part]:
    """Parts of a picture that together have all that strokes of a run cover. They do not overlap."""
    first, last = run[0], run[-1]
    if first.is_glyph:
        half = first.thickness / 2
        yield _part(min(each.x0 for each in run), first.y0 - half, max(each.x1 for each in run), last.y0 + half)
    elif first.y0 != first.y1:
        yield from _line_parts(first)
    else:
        reach = first.thickness / 2 + 0.5
        whole = _part(first.x0 - 0.5, first.y0 - reach, first.x1 + 0.5, first.y0 + reach)
        yield from _outline_parts(whole, first) if first.outline else (whole,)


def _part(left: float, top: float, right: float, bottom: float) -> Part:
    return Part(math.floor(left), math.floor(top), math.ceil(right), math.ceil(bottom))


def _outline_parts(whole: Part, stroke: Stroke) -> Iterator[Part]:
    """The four sides of a box, or the whole of a small one."""
    side = math.ceil(max(stroke.radius, stroke.outline)) + 2
    left, top, right, bottom = whole
    if right - left <= 2 * side or bottom - top <= 2 * side:
        yield whole
        return
    yield Part(left, top, right, top + side)
    yield Part(left, bottom - side, right, bottom)
    yield Part(left, top + side, left + side, bottom - side)
    yield Part(right - side, top + side, right, bottom - side)


def _line_parts(line: Stroke) -> Iterator[Part]:
    """Pieces along a slanting line, of _STEP pixels of its longer side."""
    reach = line.thickness / 2 + 1
    box = _part(
        min(line.x0, line.x1) - reach, min(line.y0, line.y1) - reach,
        max(line.x0, line.x1) + reach, max(line.y0, line.y1) + reach,
    )  # fmt: skip
    across, down = line.x1 - line.x0, line.y1 - line.y0
    if abs(across) < abs(down):
        turned = line._replace(x0=line.y0, y0=line.x0, x1=line.y1, y1=line.x1)
        for part in _line_parts(turned):
            yield Part(part.top, part.left, part.bottom, part.right)
        return
    slope, beyond = down / across, reach * math.hypot(across, down) / abs(across)
    for left in range(box.left, box.right, _STEP):
        right = min(left + _STEP, box.right)
        ends = line.y0 + slope * (left - line.x0), line.y0 + slope * (right - line.x0)
        top, bottom = max(box.top, math.floor(min(ends) - beyond)), min(box.bottom, math.ceil(max(ends) + beyond))
        if top < bottom:
            yield Part(left, top, right, bottom)


def _paint_part(picture: Planes, part: Part, run: list[Stroke]) -> None:
    """Paint a run of strokes of one colour in a part of a picture."""
    columns, rows = picture.columns, picture.rows
    # Whole pixels of chroma, also those of which the picture has a part only.
    chroma = Part(part.left // columns, part.top // rows, -(-part.right // columns), -(-part.bottom // rows))
    grown = Part(chroma.left * columns, chroma.top * rows, chroma.right * columns, chroma.bottom * rows)
    cover = _cover_letters(grown, run) if run[0].is_glyph else _cover_shape(grown, run[0])
    cover *= np.float32(run[0].opacity)
    of_chroma = picture.of_chroma(cover)
    luma, *both = picture.colours.numbers(*run[0][8:11])
    height, width = picture.planes[0].shape
    blend(
        picture.planes[0][grown.top : grown.bottom, grown.left : grown.right],
        cover[: height - grown.top, : width - grown.left], luma,
    )  # fmt: skip
    for plane, number in zip(picture.planes[1:], both, strict=True):
        blend(plane[chroma.top : chroma.bottom, chroma.left : chroma.right], of_chroma, number)


def _cover_shape(part: Part, stroke: Stroke) -> Cover:
    """The coverage of a shape: by the distance of a pixel's centre from its edge, as in overlay.py."""
    length = math.hypot(stroke.x1 - stroke.x0, stroke.y1 - stroke.y0)
    cosine, sine = ((stroke.x1 - stroke.x0) / length, (stroke.y1 - stroke.y0) / length) if length else (1.0, 0.0)
    x = np.arange(part.left, part.right, dtype=np.float32) + np.float32(0.5 - (stroke.x0 + stroke.x1) / 2)
    y = np.arange(part.top, part.bottom, dtype=np.float32)[:, None] + np.float32(0.5 - (stroke.y0 + stroke.y1) / 2)
    # Beyond the straight part of each side; a row and a column alone if the shape is upright.
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


def _cover_letters(part: Part, run: list[Stroke]) -> Cover:
    """The coverage of the letters of a line: where two overlap, what neither of them leaves free."""
    free = np.ones((part.bottom - part.top, part.right - part.left), np.float32)
    opacity = np.float32(run[0].opacity)
    for each in run:
        top = each.y0 - each.thickness / 2
        left, above = math.ceil(each.x0 - 0.5), math.ceil(top - 0.5)
        seen = _sample(
            Letter(
                each.glyph_x, each.glyph_y, each.x1 - each.x0, each.thickness, each.texels, each.x0 - left, top - above
            )
        )
        right, below = min(left + seen.shape[1], part.right), min(above + seen.shape[0], part.bottom)
        first, first_row = max(left, part.left), max(above, part.top)
        if first < right and first_row < below:
            place = free[first_row - part.top : below - part.top, first - part.left : right - part.left]
            place *= 1 - seen[first_row - above : below - above, first - left : right - left] * opacity
    cover = np.subtract(1, free, out=free)
    cover /= opacity or 1
    return cover


class Letter(NamedTuple):
    """A letter: its place in the font's atlas, its size in pixels, and how it lies in them."""

    column: float
    row: float
    width: float
    height: float
    texels: float
    """Texels of the atlas per pixel."""
    across: float
    down: float
    """``across`` and ``down``: pixels from the corner of its first pixel to that of the letter, -0.5 to 0.5."""


@functools.lru_cache(1024)
def _sample(letter: Letter) -> Cover:
    """The coverage of a letter's pixels, by linear filtering. Captions have the same letters in each frame."""
    atlas = font().atlas
    columns, rows = math.ceil(letter.across + letter.width - 0.5), math.ceil(letter.down + letter.height - 0.5)
    x = letter.column + (np.arange(columns) + (0.5 - letter.across)) * letter.texels - 0.5
    y = letter.row + (np.arange(rows) + (0.5 - letter.down)) * letter.texels - 0.5
    left, top = np.floor(x).astype(np.intp), np.floor(y).astype(np.intp)
    across, down = (x - left).astype(np.float32), (y - top).astype(np.float32)[:, None]
    last_row, last = atlas.shape[0] - 1, atlas.shape[1] - 1
    above, below = atlas[np.clip(top, 0, last_row)], atlas[np.clip(top + 1, 0, last_row)]
    lines = above * (1 - down) + below * down
    values = lines[:, np.clip(left, 0, last)] * (1 - across) + lines[:, np.clip(left + 1, 0, last)] * across
    return (values / 255).astype(np.float32)
