"""Non-maximum suppression: of boxes of one class that overlap, the one with the best score is kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..basic_types import Array

_TINY = np.finfo(np.float32).tiny


def suppress(
    boxes: Array,
    scores: Array,
    classes: npt.NDArray[np.int64],
    overlap: float,
    most: int,
    measure: Callable[[Array, Array], Array] | None = None,
) -> list[int]:
    """Non-maximum suppression: the numbers of the boxes (n, 4) to keep, the best score first, at most ``most``.

    If two boxes of the same class overlap by more than ``overlap``, only the one with the better score is kept.
    ``measure`` gives the overlaps of a box with others, for boxes of other kinds.
    """
    measure = measure or overlaps
    kept: list[int] = []
    left = (-scores).argsort(kind="stable")
    while left.size and len(kept) < most:
        best, others = int(left[0]), left[1:]
        kept.append(best)
        same = (measure(boxes[best], boxes[others]) > overlap) & (classes[others] == classes[best])
        left = others[~same]
    return kept


def overlaps(box: Array, boxes: Array) -> Array:
    """Intersection over union of a box (4) with each of ``boxes`` (n, 4), from 0 to 1."""
    common = _area(np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2]))
    one, others = _area(box[2:] - box[:2]), _area(boxes[:, 2:] - boxes[:, :2])
    return common / np.maximum(one + others - common, _TINY)


def _area(sizes: Array) -> Array:
    """The areas of sizes (..., 2); 0 for those that are negative."""
    sizes = np.maximum(sizes, 0)
    return sizes[..., 0] * sizes[..., 1]
