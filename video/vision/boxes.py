"""Boxes of a detector, decoded by NumPy; non_max_suppression.py selects the best of those that overlap."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .non_max_suppression import suppress
from .ssd import FACE_SIDE

Array = npt.NDArray[Any]

MOST_BOXES = 50
"""The most boxes that are kept."""
CANDIDATES = 128
"""The most anchors that suppression examines, the likeliest first: an object has about ten above the least score."""


def select(
    scores: Array,
    values: Array,
    anchors: Array,
    *,
    least: float,
    first: int,
    overlap: float,
    coding: Literal["faces", "objects"],
) -> Array:
    """Decode the boxes of likely anchors, and keep the best of those that overlap (non-maximum suppression).

    ``scores`` are (anchors, classes), and ``values`` (anchors, 4 or 16) a box and six points each, as the model puts
    them out; ``anchors`` are rows (centre x, centre y, width, height). ``least`` is the least score of a box, ``first``
    the number of the first class that is not the background, ``overlap`` the largest overlap (intersection over union)
    of two boxes of one class.

    Returns texels (1 + values / 4, MOST_BOXES, 4), the best box first. Row 0 has score, class and 1, or 0 behind the
    last box; row 1 the box (left, top, right, bottom); further rows two points each.
    """
    texels = np.zeros((1 + values.shape[1] // 4, MOST_BOXES, 4), np.float32)
    likely = np.flatnonzero(scores[:, first:].max(axis=1) >= least)
    if not likely.size:
        return texels
    numbers = scores[likely, first:].argmax(axis=1) + first
    best = scores[likely, numbers]
    order = np.argsort(-best, kind="stable")[:CANDIDATES]
    likely, numbers, best = likely[order], numbers[order], best[order]
    places = (decode_faces if coding == "faces" else decode_boxes)(values[likely], anchors[likely])
    kept = suppress(places[:, :4], best, numbers, overlap, MOST_BOXES)
    texels[0, : len(kept), 0], texels[0, : len(kept), 1], texels[0, : len(kept), 2] = best[kept], numbers[kept], 1
    texels[1:, : len(kept)] = places[kept].reshape(len(kept), values.shape[1] // 4, 4).transpose(1, 0, 2)
    return texels


def decode_faces(values: Array, anchors: Array) -> Array:
    """Boxes and six points (n, 4 + 12) of face_detection_front's output (n, 16), x before y.

    A row is the box's centre and size, then six points: right eye, left eye, nose, mouth, right ear, left ear. All are
    in pixels of the model's input; the centre and the points are relative to the anchor's centre (MediaPipe's
    tensors_to_detections_calculator).
    """
    pairs = values.reshape(-1, 8, 2) / np.float32(FACE_SIDE)
    centres, halves = pairs[:, 0] + anchors[:, :2], pairs[:, 1] / 2
    points = pairs[:, 2:] + anchors[:, None, :2]
    return np.hstack([centres - halves, centres + halves, points.reshape(len(values), 12)])


def decode_boxes(values: Array, anchors: Array) -> Array:
    """Boxes (n, 4) from the Object Detection API's box encodings (n, 4): y, x, height, width.

    This is its faster_rcnn_box_coder with the scales 10, 10, 5, 5: a centre is in tenths of the anchor's size, a size
    is 5 times the logarithm of its ratio to the anchor's.
    """
    places, sizes = values[:, 1::-1] / 10, values[:, :1:-1] / 5
    centres, halves = anchors[:, :2] + places * anchors[:, 2:], np.exp(sizes) * anchors[:, 2:] / 2
    return np.hstack([centres - halves, centres + halves])
