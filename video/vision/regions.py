"""Regions of a picture for landmark models: the turned square around a person or a hand, from the last landmarks.

Points are rows of x and y in pixels of the picture, y down. A rotation is in degrees clockwise.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..network import Crop

Array = npt.NDArray[Any]

PALM = (0, 1, 2, 3, 5, 6, 9, 10, 13, 14, 17, 18)
"""The points of a hand that stay in place when the fingers move."""


class Region(NamedTuple):
    """A square of the picture, turned around its centre, as Network.bind takes it."""

    crop: Crop
    rotation: float = 0.0


def whole(size: tuple[int, int]) -> Region:
    """The smallest square around the middle that holds a picture of ``size`` (width, height)."""
    return _around((size[0] / 2, size[1] / 2), float(max(size)), 0.0)


def fitted(size: tuple[int, int], model: tuple[int, int]) -> Crop:
    """The smallest part (x, y, width, height) around a picture that has the model's proportions (width, height)."""
    factor = max(size[0] / model[0], size[1] / model[1])
    width, height = model[0] * factor, model[1] * factor
    return (size[0] - width) / 2, (size[1] - height) / 2, width, height


def upper_body(size: tuple[int, int]) -> Region:
    """The region of a person who sits before the camera: most of it, from the waist down, is below the picture."""
    width, height = size
    return _around((width / 2, 1.15 * height), 2.5 * height, 0.0)


def disagreement(shown: Region, found: Region) -> float:
    """Distance between the region that the model got and the region that it found: in size, and in position.

    The size counts as the logarithm of the ratio, the place in sides of ``shown``. A model is best in the middle of its
    input: if it finds the region that it was shown, the region is right.
    """
    (x, y, side, _), (left, top, other, _) = shown.crop, found.crop
    return (
        abs(math.log(other / side)) + math.hypot(left + other / 2 - x - side / 2, top + other / 2 - y - side / 2) / side
    )


def to_picture(points: Array, region: Region) -> Array:
    """Turn points (n, 2) in a region, from 0 to 1, into pixels of the picture."""
    x, y, width, height = region.crop
    offsets = (points - 0.5) * [width, height]
    return (offsets @ _turn(region.rotation).T + [x + width / 2, y + height / 2]).astype(np.float32)


def pose_region(points: Array) -> Region:
    """The region of a person, from the points (39, 2) of pose_landmark_lite.

    Point 33 is the middle of the hips, 34 lies above the head. A circle around 33 through 34 holds the person; the
    region is a quarter larger, and has 34 above 33 (MediaPipe's AlignmentPointsRectsCalculator and
    pose_landmarks_to_roi).
    """
    middle, top = points[33], points[34]
    side = 2 * 1.25 * math.dist(middle, top)
    return _around((float(middle[0]), float(middle[1])), side, _angle(middle, top))


def hand_region(points: Array) -> Region:
    """The region of a hand, from its points (21, 2).

    It is the square around the palm and the fingers' first joints, twice as large, moved towards the fingers by a tenth
    of its height, and turned so that the fingers are above the wrist (MediaPipe's HandLandmarksToRectCalculator and
    hand_landmark_landmarks_to_roi).
    """
    fingers = ((points[5] + points[13]) / 2 + points[9]) / 2
    rotation = _angle(points[0], fingers)
    upright = points[list(PALM)] @ _turn(rotation)
    low, high = upright.min(axis=0), upright.max(axis=0)
    centre = (low + high) / 2 - [0, 0.1 * (high - low)[1]]
    centre = _turn(rotation) @ centre
    return _around((float(centre[0]), float(centre[1])), 2 * float((high - low).max()), rotation)


def _around(centre: tuple[float, float], side: float, rotation: float) -> Region:
    side = max(side, 1.0)
    return Region((centre[0] - side / 2, centre[1] - side / 2, side, side), rotation)


def _angle(start: Array, end: Array) -> float:
    """The rotation that moves ``end`` from above ``start`` to its position."""
    return math.degrees(math.atan2(end[0] - start[0], start[1] - end[1]))


def _turn(degrees: float) -> Array:
    """The matrix that turns a column (x, y) clockwise; y points down."""
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return np.array([[cosine, -sine], [sine, cosine]])
