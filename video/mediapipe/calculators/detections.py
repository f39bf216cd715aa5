"""From the outputs of a detector at anchors to detections (TensorsToDetectionsCalculator)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...basic_types import Array
from .c_math import sigmoid

MOST_LOGIT = 100.0
"""The limit of a score before the sigmoid (``score_clipping_thresh``)."""


class Detections(NamedTuple):
    """Detections as rows."""

    places: Array
    """(n, 4 + 2k): left, top, right, bottom, then x and y of k key points."""
    scores: Array
    """(n)."""


def decode_detections(boxes: Array, logits: Array, anchors: Array, side: int, threshold: float) -> Detections:
    """The detections whose score is ``threshold`` or more, in the order of the anchors.

    ``boxes`` (n, 4 + 2k) has the middle, the size and key points in pixels of the input, a square of ``side``, as
    distances from the anchors' middles (n, 2). ``logits`` (n) are the scores before the sigmoid.
    """
    scores = sigmoid(np.clip(logits, -MOST_LOGIT, MOST_LOGIT))
    chosen = np.flatnonzero(scores >= threshold)
    raw = boxes[chosen].astype(np.float32) / np.float32(side)
    middles = raw[:, :2] + anchors[chosen]
    halves = raw[:, 2:4] / 2
    points = raw[:, 4:] + np.tile(anchors[chosen], (raw.shape[1] - 4) // 2)
    first = middles - halves
    places = np.concatenate([first, first + (middles + halves - first), points], axis=1)  # MediaPipe keeps sizes
    sound = np.isfinite(places).all(axis=1) & (halves >= 0).all(axis=1)
    return Detections(places[sound], scores[chosen][sound].astype(np.float32))


def without_bars(found: Detections, size: tuple[int, int]) -> Detections:
    """The detections in a whole picture of ``size`` that a square network saw with bars, in the picture's coordinates
    (DetectionLetterboxRemovalCalculator): as ``project_detections``, with other roundings.
    """
    one, aspect = np.float32(1), np.float32(size[1]) / np.float32(size[0])
    bars = np.array([max(one - one / aspect, 0), max(one - aspect, 0)], np.float32) / np.float32(2)
    twice = np.tile(bars, found.places.shape[1] // 2)
    return Detections((found.places - twice) / (one - (twice + twice)), found.scores)


def project_detections(found: Detections, matrix: Array) -> Detections:
    """The detections in the picture from which a region was cropped (DetectionProjectionCalculator).

    ``matrix`` (2, 3) takes a point of the region to the picture (``regions.region_matrix``). A box becomes the smallest
    upright box around its four corners.
    """
    places = found.places
    if not len(places):
        return found
    corners = places[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2)
    points = np.concatenate([corners, places[:, 4:].reshape(len(places), -1, 2)], axis=1)
    points = np.stack(
        [points[..., 0] * across + points[..., 1] * down + start for across, down, start in matrix], axis=-1
    )
    corners = points[:, :4]
    boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    return Detections(
        np.concatenate([boxes, points[:, 4:].reshape(len(places), -1)], axis=1).astype(np.float32), found.scores
    )
