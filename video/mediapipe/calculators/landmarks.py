"""Landmarks: from a network's output to the picture (TensorsToLandmarks-, LandmarkProjectionCalculator)."""

from __future__ import annotations

import math

import numpy as np

from ...basic_types import Array
from .c_math import cosine, sigmoid, sine


def decode_landmarks(values: Array, count: int, side: int, depth: float = 1.0) -> Array:
    """The landmarks (count, 3 or 5), normalized over the network's input, a square of ``side`` pixels.

    ``values`` has x, y and z in pixels for each, and may have visibility and presence before the sigmoid. z is divided
    by ``depth`` besides (``normalize_z``).
    """
    rows = values.reshape(count, -1).astype(np.float32)
    points = rows[:, :3] / np.array([side, side, side * depth], np.float32)
    return np.concatenate([points, sigmoid(rows[:, 3:])], axis=1).astype(np.float32)


def project_landmarks(landmarks: Array, matrix: Array) -> Array:
    """The landmarks in the picture. ``matrix`` (2, 3) is ``regions.region_matrix``; z scales as the region's width."""
    projected, (x, y) = landmarks.copy(), landmarks[:, :2].T
    for number, (across, down, start) in enumerate(matrix):
        projected[:, number] = x * across + y * down + start
    projected[:, 2] *= np.float32(math.hypot(matrix[0, 0], matrix[1, 0]))
    return projected


def project_in_square(landmarks: Array, rectangle: Array) -> Array:
    """The landmarks (n, 3 or more) in the picture, of a region that is a square: as ``project_landmarks``, with other
    roundings. ``rectangle`` (5) is the region's.
    """
    x, y, width, height, rotation = rectangle.astype(np.float32)
    right, up = cosine(rotation), sine(rotation)
    across, down = (landmarks[:, :2] - np.float32(0.5)).T
    projected = landmarks.copy()
    projected[:, 0] = (right * across - up * down) * width + x
    projected[:, 1] = (up * across + right * down) * height + y
    projected[:, 2] = landmarks[:, 2] * width
    return projected


def turn_world_landmarks(landmarks: Array, rotation: float) -> Array:
    """World landmarks (n, 3 or more), in metres, turned with their region (WorldLandmarkProjectionCalculator)."""
    turned = landmarks.copy()
    right, up = cosine(rotation), sine(rotation)
    turned[:, 0] = right * landmarks[:, 0] - up * landmarks[:, 1]
    turned[:, 1] = up * landmarks[:, 0] + right * landmarks[:, 1]
    return turned
