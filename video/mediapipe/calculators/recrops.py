"""Regions of a face and of hands that a person's landmarks name, and whether the previous frame's regions still hold.

Rectangles are those of ``rectangles.py``; ``size`` is the picture's (width, height) in pixels.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...basic_types import Array, Size
from .rectangles import box_rectangles, landmark_rectangle, rotations, transform_rectangles

FACE_POINTS = 11
"""The first landmarks of a person are those of the face."""
RIGHT_EYE, LEFT_EYE = 5, 2
"""The landmarks of a person whose line is level in the region of the face."""


class Requirements(NamedTuple):
    """The most by which a region may differ from the one that this frame names (RoiTrackingCalculator)."""

    degrees: float
    translation: float
    scale: float
    margin: float
    """Share of its sides by which the named region grows before it has to hold all previous landmarks."""


FACE = Requirements(15.0, 0.1, 0.3, -0.2)
HAND = Requirements(40.0, 0.2, 0.4, -0.1)


def still_holds(landmarks: Array, previous: Array, named: Array, size: Size, most: Requirements) -> bool:
    """Whether a region (5) around the previous frame's landmarks (n, 2 or more) is near the one that is named now."""
    pixels = np.array(size, np.float32)
    cosine, sine = math.cos(named[4]), math.sin(named[4])
    back = np.array([[cosine, sine], [-sine, cosine]], np.float32).T  # as the named region lies
    middle, before = (named[:2] * pixels) @ back, (previous[:2] * pixels) @ back
    sides = named[2:4] * pixels
    turned = abs(math.remainder(math.degrees(previous[4] - named[4]), 360))
    near = (np.abs(before - middle) <= most.translation * sides).all()
    like = (np.abs(previous[2:4] * pixels - sides) <= most.scale * sides).all()
    points = (landmarks[:, :2] * pixels) @ back
    inside = (np.abs(points - middle) < sides * (1 + most.margin) / 2).all()
    return bool(turned <= most.degrees and near and like and inside)


def face_rectangle_of_pose(landmarks: Array, size: Size) -> Array:
    """The rectangle (5) in which a person's face is detected, of the landmarks (33, 2 or more)."""
    rectangle = landmark_rectangle(landmarks[:FACE_POINTS], RIGHT_EYE, LEFT_EYE, size, 0.0)
    return transform_rectangles(rectangle[None], size, 3.0)[0]


def face_rectangle_of_detection(place: Array, size: Size) -> Array:
    """The rectangle (5) of a detected face (4 + 2k): the bounds of its key points, doubled."""
    points = place[4:].reshape(-1, 2)
    bounds = np.concatenate([points.min(axis=0), points.max(axis=0), place[4:]])
    return transform_rectangles(box_rectangles(bounds[None], 0, 1, size, 0.0), size, 2.0)[0]


def hand_rectangle_of_pose(wrist: Array, little: Array, index: Array, size: Size) -> Array:
    """The rectangle (5) of a hand, of three landmarks (2) of a person (HandDetectionsFromPoseToRectsCalculator)."""
    pixels = np.array(size, np.float32)
    middle = (2 * index + little) / 3
    side = 2 * np.sqrt((((middle - wrist) * pixels) ** 2).sum())
    angle = rotations(wrist[None], middle[None], size, math.pi / 2)
    rectangle = np.concatenate([middle, side / pixels, angle])
    return transform_rectangles(rectangle[None], size, 2.7, shift_y=-0.1)[0]
