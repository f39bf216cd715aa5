"""Landmarks moved to the means of their heat maps (RefineLandmarksFromHeatmapCalculator)."""

from __future__ import annotations

import numpy as np

from ...basic_types import Array
from .c_math import sigmoid

KERNEL = 7
"""Cells of the square in which the mean is taken."""
LEAST_CONFIDENCE = 0.5
"""The confidence that a cell of the square must reach, or the landmark stays."""


def refine_landmarks(landmarks: Array, heat_maps: Array) -> Array:
    """The landmarks (n, 2 or more), each moved to the mean place, weighted by confidence, of the cells around it.

    ``heat_maps`` (height, width, n) has a map for each landmark, before the sigmoid. A landmark outside of its map
    stays.
    """
    height, width, count = heat_maps.shape
    reach = np.arange(KERNEL) - KERNEL // 2
    column = np.trunc(landmarks[:, 0] * width).astype(np.int64)[:, None, None] + reach[None, None, :]
    row = np.trunc(landmarks[:, 1] * height).astype(np.int64)[:, None, None] + reach[None, :, None]
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    values = heat_maps[np.clip(row, 0, height - 1), np.clip(column, 0, width - 1), np.arange(count)[:, None, None]]
    weights = np.where(inside, sigmoid(values), np.float32(0))
    total = _sums(weights)
    middle = inside[:, KERNEL // 2, KERNEL // 2]
    moved = middle & (weights.max(axis=(1, 2)) >= LEAST_CONFIDENCE)
    safe = np.where(total > 0, total, np.float32(1))
    refined = landmarks.copy()
    refined[moved, 0] = (_sums(weights * column.astype(np.float32)) / np.float32(width) / safe)[moved]
    refined[moved, 1] = (_sums(weights * row.astype(np.float32)) / np.float32(height) / safe)[moved]
    return refined


def _sums(values: Array) -> Array:
    """The sums (n) of float32 values (n, rows, columns), one added after the other."""
    return np.cumsum(values.reshape(len(values), -1), axis=1, dtype=np.float32)[:, -1]
