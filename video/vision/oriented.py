"""Boxes with an angle: rows of centre x, centre y, width, height, and the angle in radians, clockwise, of the width."""

from __future__ import annotations

import numpy as np

from ..basic_types import Array

_TINY = 1e-7


def corners_of(boxes: Array) -> Array:
    """The corners (n, 4, 2) of boxes (n, 5), one after the other around each."""
    cosine, sine = np.cos(boxes[:, 4]), np.sin(boxes[:, 4])
    along = np.stack([cosine, sine], 1) * boxes[:, 2:3] / 2
    across = np.stack([-sine, cosine], 1) * boxes[:, 3:4] / 2
    offsets = [along + across, along - across, -along - across, across - along]
    return np.stack([boxes[:, :2] + each for each in offsets], 1)


def bounds_of(corners: Array) -> Array:
    """The upright boxes (n, 4) around corners (n, 4, 2): left, top, right, bottom."""
    return np.hstack([corners.min(axis=1), corners.max(axis=1)])


def overlaps(box: Array, boxes: Array) -> Array:
    """The ProbIoU of a box (5) with each of ``boxes`` (n, 5), from 0 to 1.

    A box is a Gaussian distribution of its centre and its sides' variances. The result is 1 minus the Hellinger
    distance of two (Llerena et al., "Gaussian Bounding Boxes and Probabilistic Intersection-over-Union for Object
    Detection", 2021, equations 3, 6 and 8), as ultralytics' suppression has it.
    """
    box, boxes = box.astype(np.float64), boxes.astype(np.float64)  # thin boxes have products that nearly cancel
    (a, b, c), (others_a, others_b, others_c) = _covariances(box[None]), _covariances(boxes)
    x, y = box[0] - boxes[:, 0], box[1] - boxes[:, 1]
    sum_a, sum_b, sum_c = a + others_a, b + others_b, c + others_c
    whole = sum_a * sum_b - sum_c**2
    means = (sum_a * y**2 + sum_b * x**2 - 2 * sum_c * x * y) / (4 * (whole + _TINY))
    each = np.maximum(a * b - c**2, 0) * np.maximum(others_a * others_b - others_c**2, 0)
    shapes = 0.5 * np.log(np.maximum(whole, 0) / (4 * np.sqrt(each) + _TINY) + _TINY)
    distance = np.clip(means + shapes, _TINY, 100)
    return 1 - np.sqrt(1 - np.exp(-distance) + _TINY)


def _covariances(boxes: Array) -> tuple[Array, Array, Array]:
    """The variances of x and of y, and the covariance, of boxes (n, 5): those of even distributions along the sides."""
    along, across = boxes[:, 2] ** 2 / 12, boxes[:, 3] ** 2 / 12
    cosine, sine = np.cos(boxes[:, 4]), np.sin(boxes[:, 4])
    return (
        along * cosine**2 + across * sine**2, along * sine**2 + across * cosine**2, (along - across) * cosine * sine,
    )  # fmt: skip
