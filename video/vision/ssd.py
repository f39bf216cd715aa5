"""Arithmetic of single-shot detectors (SSD): anchors and scores. boxes.py decodes and selects.

Anchors are boxes at fixed places in the picture. For each anchor, a detector puts out the offset of the object there
from the anchor. Boxes are float32 rows (left, top, right, bottom), anchors are rows (centre x, centre y, width,
height); both are from 0 to 1 over the model's input.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..basic_types import Array

FACE_SIDE = 128
"""Side of face_detection_front's input in pixels; its outputs are in these units."""


def grid(cells: int, sizes: Sequence[tuple[float, float]]) -> Array:
    """Anchors (cells * cells * len(sizes), 4), row after row of ``cells`` x ``cells`` cells.

    In the middle of each cell is one anchor of each size (width, height).
    """
    middles = (np.arange(cells, dtype=np.float32) + 0.5) / cells
    y, x, size = np.meshgrid(middles, middles, np.arange(len(sizes)), indexing="ij")
    return np.column_stack([x.ravel(), y.ravel(), np.array(sizes, np.float32)[size.ravel()]])


def face_anchors() -> Array:
    """The 896 anchors of MediaPipe's face_detection_front: 2 in each of 16 x 16 cells, 6 in each of 8 x 8.

    All have the size 1 ("fixed_anchor_size" in MediaPipe's ssd_anchors_calculator, strides 8, 16, 16, 16).
    """
    return np.concatenate([grid(16, [(1, 1)] * 2), grid(8, [(1, 1)] * 6)])


def coco_layers(side: int) -> list[int]:
    """The cells per side of the 6 layers of SSD MobileNet for a square of ``side`` pixels: 20, 10, 5, 3, 2, 1 for 320.

    The first layer has a cell for 16 pixels; each further one has half as many, rounded up.
    """
    cells = [-(-side // 16)]
    while len(cells) < 6:
        cells.append(-(-cells[-1] // 2))
    return cells


def coco_anchors(side: int = 320) -> Array:
    """The anchors of SSD MobileNet v1 and v2: 2034 for a square of 320 pixels, 1917 for 300.

    After "SSD: Single Shot MultiBox Detector" (Liu et al., 2016, section 2.2): layer k of 6 has the scale
    s(k) = 0.2 + 0.75 * k / 5, the sizes s(k) * (sqrt(a), 1 / sqrt(a)) for a = 1, 2, 1/2, 3, 1/3, and a square of
    sqrt(s(k) * s(k + 1)). The first layer has three: a square of 0.1, and a = 2 and 1/2; both as in the Object
    Detection API's multiple_grid_anchor_generator ("reduce_boxes_in_lowest_layer").
    """
    scales = [0.2 + 0.75 * k / 5 for k in range(6)] + [1.0]
    layers: list[Array] = []
    for k, cells in enumerate(coco_layers(side)):
        ratios = (2, 1 / 2) if k == 0 else (1, 2, 1 / 2, 3, 1 / 3)
        sizes = [(scales[k] * math.sqrt(a), scales[k] / math.sqrt(a)) for a in ratios]
        square = math.sqrt(scales[k] * scales[k + 1])
        layers.append(grid(cells, [(0.1, 0.1), *sizes] if k == 0 else [*sizes, (square, square)]))
    return np.concatenate(layers)


def coco_count(side: int) -> int:
    """The number of ``coco_anchors``."""
    first, *others = coco_layers(side)
    return 3 * first**2 + 6 * sum(cells**2 for cells in others)


def places_and_scores(shapes: Sequence[tuple[int, ...]], anchors: int) -> tuple[int, int, int] | None:
    """The numbers of the outputs with boxes (..., anchors, 4) and with scores (..., anchors, classes), and the classes.

    None if the outputs of these shapes are others.
    """
    ends = [shape[-2:] for shape in shapes]
    if len(ends) != 2 or any(len(end) != 2 or end[0] != anchors for end in ends):
        return None
    places = next((number for number in (0, 1) if ends[number][1] == 4), None)
    return None if places is None else (places, 1 - places, ends[1 - places][1])


class Selected(NamedTuple):
    """The boxes that TFLite_Detection_PostProcess selected: places (n, 4), classes (n) from 0 on, and scores (n)."""

    places: Array
    """Left, top, right and bottom, from 0 to 1."""
    classes: Array
    scores: Array


def is_selected(shapes: Sequence[tuple[int, ...]]) -> bool:
    """True if outputs of these shapes are TFLite_Detection_PostProcess's, in its order: boxes (1, N, 4), classes
    (1, N), scores (1, N) and the number of boxes (1).
    """
    return len(shapes) == 4 and shapes[0][-1:] == (4,) and math.prod(shapes[1]) * 4 == math.prod(shapes[0])


def selected(outputs: Sequence[Array]) -> Selected:
    """The boxes in the outputs of TFLite_Detection_PostProcess, which are top, left, bottom, right."""
    boxes, classes, scores, number = outputs
    count = min(int(number.ravel()[0]), boxes.size // 4)
    places = boxes.reshape(-1, 4)[:count, [1, 0, 3, 2]]
    return Selected(places, classes.ravel()[:count].astype(int), scores.ravel()[:count])


def sigmoid(values: Array) -> Array:
    """1 / (1 + exp(-values)), without overflow."""
    return 0.5 + 0.5 * np.tanh(0.5 * values)


def logit(probability: float) -> float:
    """The value whose ``sigmoid`` is ``probability``, from -16 for 0 to 16 for 1."""
    inside = min(max(probability, 1e-7), 1 - 1e-7)
    return math.log(inside / (1 - inside))
