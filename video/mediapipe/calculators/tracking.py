"""Regions that are the same thing as in the previous frame, and landmarks that are the same hand's."""

from __future__ import annotations

import numpy as np

from ...basic_types import Array, Size
from .suppression import overlaps

NO_RECTANGLES = np.zeros((0, 5), np.float32)
LIKE = 0.2
"""Share of a hand's breadth within which two landmarks count as one, and the least overlap of two like hands."""
LIKE_LANDMARKS = 10
"""Landmarks of 21 that two like hands have in common."""


def _bounds(rectangles: Array) -> Array:
    """Left, top, right, bottom (n, 4), without the rotation."""
    return np.concatenate(
        [rectangles[:, :2] - rectangles[:, 2:4] / 2, rectangles[:, :2] + rectangles[:, 2:4] / 2], axis=1
    )


def associate(previous: Array, found: Array, threshold: float) -> Array:
    """The rectangles (n, 5) of both; of two that overlap by more than ``threshold`` the later one stays.

    It is AssociationNormRectCalculator: what was just found replaces what it overlaps, and comes last.
    """
    kept = NO_RECTANGLES
    for rectangle in (*previous, *found):
        row = rectangle[None]
        apart = overlaps(_bounds(row)[0], _bounds(kept)) <= threshold
        kept = np.concatenate([kept[apart], row])
    return kept


def associate_hands(previous: Array, found: Array, threshold: float) -> Array:
    """The previous rectangles, and those found that overlap none of them by more than ``threshold``.

    It is HandAssociationCalculator: what is tracked stays.
    """
    kept = previous
    for row in found[:, None]:
        if not (overlaps(_bounds(row)[0], _bounds(kept)) > threshold).any():
            kept = np.concatenate([kept, row])
    return kept


def distinct_hands(hands: list[Array], size: Size) -> list[int]:
    """The numbers of the hands (21, 2 or more) that are not like an earlier one.

    It is HandLandmarksDeduplicationCalculator: two are alike if ten landmarks are nearer than a fifth of the larger
    hand's breadth, and their bounds overlap by more than a fifth.
    """
    pixels = np.array(size, np.float32)
    points = [hand[:, :2] for hand in hands]
    breadths = [_breadth(each * pixels) for each in points]
    bounds = [np.concatenate([each.min(axis=0), each.max(axis=0)]) for each in points]
    kept: list[int] = []
    for number, hand in enumerate(points):
        for other in kept:
            near = max(breadths[number], breadths[other]) * LIKE
            distances = np.sqrt((((hand - points[other]) * pixels) ** 2).sum(axis=1))
            overlap = overlaps(bounds[number], bounds[other][None])[0]
            if (distances < near).sum() >= LIKE_LANDMARKS and overlap > LIKE:
                break
        else:
            kept.append(number)
    return kept


def _breadth(points: Array) -> float:
    """The longest side of the triangle of wrist, index finger's and little finger's base, in pixels."""
    corners = points[[0, 5, 17]]
    return float(np.sqrt(((corners - np.roll(corners, 1, axis=0)) ** 2).sum(axis=1)).max())
