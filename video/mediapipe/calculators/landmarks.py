"""Landmarks: from a network's output to the picture (TensorsToLandmarks-, LandmarkProjectionCalculator)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ...vision.ssd import sigmoid

Array = npt.NDArray[Any]


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
    projected = landmarks.copy()
    projected[:, :2] = landmarks[:, :2] @ matrix[:, :2].T + matrix[:, 2]
    projected[:, 2] *= np.float32(math.hypot(matrix[0, 0], matrix[1, 0]))
    return projected


def turn_world_landmarks(landmarks: Array, rotation: float) -> Array:
    """World landmarks (n, 3 or more), in metres, turned with their region (WorldLandmarkProjectionCalculator)."""
    turned = landmarks.copy()
    cosine, sine = math.cos(rotation), math.sin(rotation)
    turned[:, 0] = cosine * landmarks[:, 0] - sine * landmarks[:, 1]
    turned[:, 1] = sine * landmarks[:, 0] + cosine * landmarks[:, 1]
    return turned
