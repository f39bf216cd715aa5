"""Rotated rectangles around what was found: where the next network looks.

A rectangle is a row of five: x and y of its middle, width, height (all normalized), rotation. ``size`` is the
picture's (width, height) in pixels.
"""

from __future__ import annotations

import math

import numpy as np

from ...basic_types import Array, Size
from .c_math import angle_of, cosine, sine

HAND_KNUCKLES = (0, 1, 2, 3, 5, 6, 9, 10, 13, 14, 17, 18)
"""The landmarks of a hand that bound its rectangle: wrist, thumb's base, and two joints of each finger."""


def wrapped(angles: Array) -> Array:
    """The angles from -pi to pi."""
    return angles - 2 * math.pi * np.floor((angles + math.pi) / (2 * math.pi))


def rotations(start: Array, end: Array, size: Size, target: float) -> Array:
    """The rotations (n) that turn the lines from ``start`` (n, 2) to ``end`` (n, 2) to the angle ``target``.

    ``target`` is counter-clockwise from the x axis: pi / 2 is upwards.
    """
    pixels = np.array(size, np.float32)
    x, y = (end.astype(np.float32) * pixels - start.astype(np.float32) * pixels).T
    return wrapped((np.float32(target) - angle_of(x, -y)).astype(np.float64)).astype(np.float32)


def box_rectangles(places: Array, start: int, end: int, size: Size, target: float) -> Array:
    """The rectangles (n, 5) of detections' boxes (DetectionsToRectsCalculator).

    ``places`` (n, 4 + 2k) are those of ``Detections``; key point ``start`` to ``end`` is the line of ``rotations``.
    """
    points = places[:, 4:].reshape(len(places), (places.shape[1] - 4) // 2, 2)
    angles = rotations(points[:, start], points[:, end], size, target)
    first, sides = places[:, :2], places[:, 2:4] - places[:, :2]
    return np.column_stack([first + sides / 2, sides, angles])


def landmark_rectangle(landmarks: Array, start: int, end: int, size: Size, target: float) -> Array:
    """The rectangle (5) around landmarks (n, 2 or more), as ``box_rectangles`` of their bounds.

    Bounds to the right and below are not less than 0, as those of LandmarksToDetectionCalculator.
    """
    points = landmarks[:, :2]
    place = np.concatenate([points.min(axis=0), np.maximum(points.max(axis=0), 0), points.ravel()])
    return box_rectangles(place[None], start, end, size, target)[0]


def alignment_rectangles(middles: Array, ends: Array, size: Size, target: float = math.pi / 2) -> Array:
    """The squares (n, 5) around ``middles`` (n, 2), which reach to ``ends`` (AlignmentPointsRectsCalculator)."""
    pixels = np.array(size, np.float32)
    start, end = (each.astype(np.float32) * pixels for each in (middles, ends))
    across, down = (end - start).T
    sides = np.sqrt(across * across + down * down)[:, None] * np.float32(2)
    return np.column_stack([start / pixels, sides / pixels, rotations(middles, ends, size, target)])


def hand_rectangle(landmarks: Array, size: Size) -> Array:
    """The rectangle (5) around a hand's 21 landmarks, turned so that its fingers point up.

    It is HandLandmarksToRectCalculator: the line from the wrist to the mean of the knuckles (half the middle finger's,
    a quarter each of its neighbours') is upright, and the bounds are those in the turned picture.
    """
    columns, rows = (np.float32(each) for each in size)
    points = landmarks[:, :2].astype(np.float32)
    knuckles = ((points[5] + points[13]) / 2 + points[9]) / 2
    x, y = knuckles * (columns, rows) - points[0] * (columns, rows)
    angle = wrapped((np.float32(math.pi / 2) - angle_of(x, -y)).astype(np.float64)).astype(np.float32)
    right, up = cosine(angle), sine(angle)
    bounding = points[list(HAND_KNUCKLES)]
    origin = (bounding.max(axis=0) + bounding.min(axis=0)) / 2
    across, down = ((bounding - origin) * (columns, rows)).T
    turned = np.stack([across * right + down * up, down * right - across * up])
    high, low = turned.max(axis=1), turned.min(axis=1)
    middle, sides = (high + low) / 2, high - low
    moved = (
        middle[0] * right - middle[1] * up + columns * origin[0],
        middle[0] * up + middle[1] * right + rows * origin[1],
    )
    return np.array([moved[0] / columns, moved[1] / rows, sides[0] / columns, sides[1] / rows, angle], np.float32)


def transform_rectangles(
    rectangles: Array, size: Size, scale: float, *, shift_y: float = 0.0, square: bool = True
) -> Array:
    """The rectangles (n, 5), moved by ``shift_y`` of their height, then made square and larger.

    It is RectTransformationCalculator; ``square`` is ``square_long``: the longer side in pixels is both.
    """
    x, y, width, height, angle = rectangles.astype(np.float32).T
    columns, rows = size
    if shift_y:
        x = x - rows * height * shift_y * sine(angle) / columns
        y = y + rows * height * shift_y * cosine(angle) / rows
    if square:
        long = np.maximum(width * columns, height * rows)
        width, height = long / columns, long / rows
    return np.column_stack([x, y, width * scale, height * scale, angle]).astype(np.float32)
