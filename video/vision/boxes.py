"""Boxes of a detector, decoded by NumPy; non_max_suppression.py selects the best of those that overlap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..answers.selection import Candidates
from ..basic_types import Array
from .non_max_suppression import suppress
from .ssd import FACE_SIDE

MOST_BOXES = 50
"""The most boxes that are kept."""
CANDIDATES = 128
"""The most anchors that suppression examines, the likeliest first: an object has about ten above the least score."""


def best_boxes(
    found: Candidates, anchors: Array, decode: Callable[[Array, Array], Array], overlap: float
) -> tuple[Array, npt.NDArray[np.int64], Array]:
    """Decode the boxes of likely anchors, and keep the best of those that overlap (non-maximum suppression).

    ``found`` has what ``decode`` takes, with rows (centre x, centre y, width, height) of ``anchors``. ``overlap`` is
    the largest overlap (intersection over union) of two boxes of one class.

    Returns what was decoded, classes and scores of at most MOST_BOXES, the best box first.
    """
    places = decode(found.values, anchors[found.numbers])
    kept = suppress(places[:, :4], found.scores, found.classes, overlap, MOST_BOXES)
    return places[kept], found.classes[kept], found.scores[kept]


def corners(boxes: Array) -> Array:
    """Boxes (n, 4) of centre x, centre y, width and height as left, top, right and bottom."""
    return np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], axis=1)


def decode_faces(values: Array, anchors: Array) -> Array:
    """Boxes and six points (n, 4 + 12) of face_detection_front's output (n, 16), x before y.

    A row is the box's centre and size, then six points: right eye, left eye, nose, mouth, right ear, left ear. All are
    in pixels of the model's input; the centre and the points are relative to the anchor's centre (MediaPipe's
    tensors_to_detections_calculator).
    """
    pairs = values.reshape(-1, 8, 2) / np.float32(FACE_SIDE)
    centres, halves = pairs[:, 0] + anchors[:, :2], pairs[:, 1] / 2
    points = pairs[:, 2:] + anchors[:, None, :2]
    return np.concatenate([centres - halves, centres + halves, points.reshape(len(values), 12)], axis=1)


def decode_boxes(values: Array, anchors: Array) -> Array:
    """Boxes (n, 4) from the Object Detection API's box encodings (n, 4): y, x, height, width.

    This is its faster_rcnn_box_coder with the scales 10, 10, 5, 5: a centre is in tenths of the anchor's size, a size
    is 5 times the logarithm of its ratio to the anchor's.
    """
    places, sizes = values[:, 1::-1] / 10, values[:, :1:-1] / 5
    centres, halves = anchors[:, :2] + places * anchors[:, 2:], np.exp(sizes) * anchors[:, 2:] / 2
    return np.concatenate([centres - halves, centres + halves], axis=1)
