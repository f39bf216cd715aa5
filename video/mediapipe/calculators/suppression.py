"""Weighted non-maximum suppression (NonMaxSuppressionCalculator, WEIGHTED).

It is the "blending" of "BlazeFace: Sub-millisecond Neural Face Detection on Mobile GPUs" (Bazarevsky et al., 2019,
section 3.3): a group of overlapping boxes becomes their mean, weighted by their scores.
"""

from __future__ import annotations

import numpy as np

from ...basic_types import Array
from .detections import Detections


def overlaps(box: Array, others: Array) -> Array:
    """The intersection over union (n) of one box (4) with others (n, 4): left, top, right, bottom."""
    sides = np.minimum(others[:, 2:4], box[2:4]) - np.maximum(others[:, :2], box[:2])
    shared = np.clip(sides, 0, None).prod(axis=1)
    union = (box[2:4] - box[:2]).prod() + (others[:, 2:4] - others[:, :2]).prod(axis=1) - shared
    return np.where(union > 0, shared / np.where(union > 0, union, 1), 0)


def suppress_weighted(found: Detections, threshold: float) -> Detections:
    """One detection for each group of boxes that overlap its best box by more than ``threshold``; best scores first."""
    rest = np.argsort(-found.scores, kind="stable")
    places: list[Array] = []
    kept: list[int] = []
    while len(rest):
        best = rest[0]
        near = overlaps(found.places[best], found.places[rest]) > threshold
        group = rest[near] if near.any() else rest[:1]
        weights = found.scores[group, None]
        mean = _sum(found.places[group] * weights) / _sum(weights)
        mean[2:4] = mean[:2] + (mean[2:4] - mean[:2])  # MediaPipe keeps sizes
        places.append(mean)
        kept.append(int(best))
        if not near.any():
            break  # a box without an area overlaps nothing, not even itself
        rest = rest[~near]
    if not kept:
        return found
    return Detections(np.stack(places).astype(np.float32), found.scores[kept])


def _sum(rows: Array) -> Array:
    """The sum of rows, one added after the other."""
    return np.cumsum(rows, axis=0, dtype=np.float32)[-1]
