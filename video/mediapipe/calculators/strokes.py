"""Strokes of a user as the input of a network (HeatmapFromStrokesCalculator).

What MediaPipe 1.2.2 draws was found by looking at it: its bundles ran with networks that put their inputs out, and
OpenCV's shapes below give exactly the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import cv2
import numpy as np

from ...basic_types import Array, Size

Point = tuple[float, float]

ADDS, REMOVES, LASSO = 0, 1, 2
"""The planes of a heat map."""
DOT, LINE = 2, 2
"""The radius of a stroke's first point and the thickness of its lines, in pixels of the heat map."""
CLEARED_DOT, CLEARED_LINE = 16, 16
"""Radius and thickness of what a stroke clears in the plane of the other kind."""


def heat_map(strokes: Iterable[tuple[int, Sequence[Point], bool]], size: Size) -> Array:
    """The heat map (height, width, 3), float32 from 0 to 1, of strokes: plane, points from 0 to 1, is complete.

    A stroke that adds or removes is drawn into its plane, and clears a wider trace in the other one, so that later
    strokes win. A lasso is the box around its points, once it is complete and has more than one.
    """
    planes = [np.zeros(size[::-1], np.uint8) for _ in range(3)]
    for kind, points, is_complete in strokes:
        pixels = [_pixel(point, size) for point in points]
        if kind == LASSO:
            if is_complete and len(pixels) > 1:
                corners = np.array(pixels)
                least, most = (tuple(map(int, each)) for each in (corners.min(axis=0), corners.max(axis=0)))
                cv2.rectangle(planes[LASSO], least, most, 255, cv2.FILLED, cv2.LINE_AA)
        elif pixels:
            _trace(planes[kind], pixels, 255, DOT, LINE)
            _trace(planes[REMOVES if kind == ADDS else ADDS], pixels, 0, CLEARED_DOT, CLEARED_LINE)
    return np.stack(planes, axis=2) / np.float32(255)


def _trace(plane: Array, pixels: Sequence[tuple[int, int]], value: int, radius: int, thickness: int) -> None:
    cv2.circle(plane, pixels[0], radius, value, cv2.FILLED, cv2.LINE_AA)
    for start, end in pairwise(pixels):
        cv2.line(plane, start, end, value, thickness, cv2.LINE_AA)


def _pixel(point: Point, size: Size) -> tuple[int, int]:
    """The pixel of a point, the nearest one for a point outside; the first for NaN, as max(0, NaN) is 0."""
    x, y = (min(side - 1.0, max(0.0, value * side)) for value, side in zip(point, size, strict=True))
    return int(x), int(y)
