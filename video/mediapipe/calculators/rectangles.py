"""Rotated rectangles around what was found: where the next network looks.

A rectangle is a row of five: x and y of its middle, width, height (all normalized), rotation. ``size`` is the
picture's (width, height) in pixels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Size = tuple[int, int]

HAND_KNUCKLES = (0, 1, 2, 3, 5, 6, 9, 10, 13, 14, 17, 18)
"""The landmarks of a hand that bound its rectangle: wrist, thumb's base, and two joints of each finger."""


def wrapped(angles: Array) -> Array:
    """The angles from -pi to pi."""
    return angles - 2 * math.pi * np.floor((angles + math.pi) / (2 * math.pi))


def rotations(start: Array, end: Array, size: Size, target: float) -> Array:
    """The rotations (n) that turn the lines from ``start`` (n, 2) to ``end`` (n, 2) to the angle ``target``.

    ``target`` is counter-clockwise from the x axis: pi / 2 is upwards.
    """
    x, y = ((end - start) * np.array(size, np.float32)).T
    return wrapped(target - np.arctan2(-y, x)).astype(np.float32)


def box_rectangles(places: Array, start: int, end: int, size: Size, target: float) -> Array:
    """The rectangles (n, 5) of detections' boxes (DetectionsToRectsCalculator).

    ``places`` (n, 4 + 2k) are those of ``Detections``; key point ``start`` to ``end`` is the line of ``rotations``.
    """
    points = places[:, 4:].reshape(len(places), (places.shape[1] - 4) // 2, 2)
    angles = rotations(points[:, start], points[:, end], size, target)
    corners = places[:, :4]
    return np.column_stack([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2], angles])


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
    sides = 2 * np.sqrt((((ends - middles) * pixels) ** 2).sum(axis=1, keepdims=True))
    return np.column_stack([middles, sides / pixels, rotations(middles, ends, size, target)])


def hand_rectangle(landmarks: Array, size: Size) -> Array:
    """The rectangle (5) around a hand's 21 landmarks, turned so that its fingers point up.

    It is HandLandmarksToRectCalculator: the line from the wrist to the mean of the knuckles (half the middle finger's,
    a quarter each of its neighbours') is upright, and the bounds are those in the turned picture.
    """
    pixels = np.array(size, np.float32)
    points = landmarks[:, :2] * pixels
    knuckles = (points[5] + points[13]) / 2
    x, y = (knuckles + points[9]) / 2 - points[0]
    angle = float(wrapped(np.float32(math.pi / 2) - np.arctan2(-y, x)))
    bounding = points[list(HAND_KNUCKLES)]
    origin = (bounding.min(axis=0) + bounding.max(axis=0)) / 2
    back = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]], np.float32)
    turned = (bounding - origin) @ back.T
    low, high = turned.min(axis=0), turned.max(axis=0)
    middle = (low + high) / 2 @ back + origin
    return np.array([*(middle / pixels), *((high - low) / pixels), angle], np.float32)


def transform_rectangles(
    rectangles: Array, size: Size, scale: float, *, shift_y: float = 0.0, square: bool = True
) -> Array:
    """The rectangles (n, 5), moved by ``shift_y`` of their height, then made square and larger.

    It is RectTransformationCalculator; ``square`` is ``square_long``: the longer side in pixels is both.
    """
    x, y, width, height, angle = rectangles.astype(np.float32).T
    columns, rows = size
    x = x - rows * height * shift_y * np.sin(angle) / columns
    y = y + height * shift_y * np.cos(angle)
    if square:
        long = np.maximum(width * columns, height * rows)
        width, height = long / columns, long / rows
    return np.column_stack([x, y, width * scale, height * scale, angle]).astype(np.float32)
