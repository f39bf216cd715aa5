"""A hand's landmarks as the network of gestures reads them (LandmarksToMatrixCalculator)."""

from __future__ import annotations

import math

import numpy as np

from ...basic_types import Array


def gesture_landmarks(landmarks: Array, rotation: float, size: tuple[int, int] | None = None) -> Array:
    """The landmarks (n, 3), float32, from the first one, in sizes of the hand, turned back by ``rotation``.

    With ``size`` they are normalized over a picture of it, whose longer side then is 1; without they are in metres.
    """
    points = landmarks[:, :3].astype(np.float32).copy()
    if size is not None:
        points[:, :2] = (points[:, :2] - 0.5) * np.array(size, np.float32) / max(size) + 0.5
    cosine, sine = math.cos(rotation), math.sin(-rotation)
    x, y = points[:, 0] - 0.5, points[:, 1] - 0.5
    points[:, 0], points[:, 1] = x * cosine - y * sine + 0.5, y * cosine + x * sine + 0.5
    points -= points[0]
    extent = (points[:, :2].max(axis=0) - points[:, :2].min(axis=0)).max()
    return points / np.float32(extent + 1e-5)
