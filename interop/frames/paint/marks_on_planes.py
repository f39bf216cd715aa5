"""Marks painted by the CPU on the planes of decoded frames, of luma and chroma, and on arrays.

Painted videos of ``process`` come here: their frames are in the CPU's memory, and so go from the decoder to the encoder
without a copy to the GPU and back. Only pixels near a stroke are computed. ``marks_on_textures.py`` is the renderer for
pictures on the GPU; what a stroke covers is in ``strokes.py`` for both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from .planes import Planes, mix
from .strokes import STROKE, Part, Stroke, letters_coverage, shape_coverage

_STEP = 32
"""Pixels of a slanting line's longer side in a part: its bounding box would be the square of the line. Not measured."""


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
    """Paint a run of strokes of one colour in a part of a picture, in whole pixels of chroma."""
    columns, rows = picture.columns, picture.rows
    left, top = part.left - part.left % columns, part.top - part.top % rows
    part = Part(left, top, part.right + part.right % columns, part.bottom + part.bottom % rows)
    coverage = letters_coverage(part, run) if run[0].is_glyph else shape_coverage(part, run[0])
    coverage *= np.float32(run[0].opacity)
    mix(picture, left, top, coverage, picture.colours.numbers(*run[0][8:11]))
