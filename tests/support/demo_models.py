"""Small models with the inputs and outputs that the demos expect, and what the GPU makes of a detector's, in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from framebind.demos.vision.ssd import FACE_SIDE, overlaps
from support import tiny_models
from support.tiny_models import G, Op, T

Array = npt.NDArray[Any]


def color_classifier() -> bytes:
    """Probabilities (1, 6) of red, green, blue, and three that are none: softmax of 4 times the picture's mean."""
    weights = np.zeros((6, 1, 1, 3), np.float32)
    weights[:3, 0, 0] = 4 * np.eye(3)
    reducer, convolution = schema.ReducerOptionsT(), schema.Conv2DOptionsT()
    reducer.keepDims, convolution.strideH, convolution.strideW = True, 1, 1
    softmax = schema.SoftmaxOptionsT()
    softmax.beta = 1.0
    tensors = [
        T("picture", (1, 16, 16, 3)), T("axes", (2,), [1, 2], "int32"), T("mean", (1, 1, 1, 3)),
        T("weights", (6, 1, 1, 3), weights), T("bias", (6,), [0.0]), T("logits", (1, 1, 1, 6)),
        T("shape", (2,), [1, 6], "int32"), T("flat", (1, 6)), T("probabilities", (1, 6)),
    ]  # fmt: skip
    operators = [
        Op("MEAN", [0, 1], [2], reducer), Op("CONV_2D", [2, 3, 4], [5], convolution),
        Op("RESHAPE", [5, 6], [7], schema.ReshapeOptionsT()), Op("SOFTMAX", [7], [8], softmax),
    ]  # fmt: skip
    return tiny_models.build(G(tensors, operators, [0], [8]))


def object_model(path: Path, logits: bool) -> Path:
    """The outputs of mobile_ssd_v2_float_coco: two boxes of class 3 on one place, two of class 7 on different ones."""
    boxes = np.random.default_rng(0).normal(0, 1, (1, 2034, 4)).astype(np.float32)
    scores = np.full((1, 2034, 91), 0.01, np.float32)
    scores[..., 0] = 0.99  # the background's
    boxes[0, 2028] = 0, 0, 5 * np.log(0.5), 5 * np.log(0.5)  # the middle, half of 0.95 on each side
    boxes[0, 2029] = boxes[0, 2030] = 0, 0, 0, 0
    scores[0, 2028, 3], scores[0, 2029, 7], scores[0, 2030, 7] = 0.9, 0.8, 0.6
    boxes[0, 2033] = 0, 0, 5 * np.log(0.475 / np.sqrt(0.95)), 5 * np.log(0.475 / np.sqrt(0.95))
    scores[0, 2033, 3] = 0.7  # the same box as 2028's
    values = np.log(scores / (1 - scores)) if logits else scores
    path.write_bytes(tiny_models.constants(boxes, values.astype(np.float32)))
    return path


# What demos/vision/selection.py computes, in NumPy --------------------------------------------------------------------


def decode_faces(values: Array, anchors: Array) -> tuple[Array, Array]:
    """Boxes (n, 4) and points (n, 6, 2) of face_detection_front's output (n, 16), x before y.

    A row is the box's centre and size, then six points: right eye, left eye, nose, mouth, right ear, left ear. All are
    in pixels of the model's input; the centre and the points are relative to the anchor's centre (MediaPipe's
    tensors_to_detections_calculator).
    """
    pairs = values.reshape(-1, 8, 2) / np.float32(FACE_SIDE)
    centres, halves = pairs[:, 0] + anchors[:, :2], pairs[:, 1] / 2
    return np.hstack([centres - halves, centres + halves]), pairs[:, 2:] + anchors[:, None, :2]


def decode_boxes(values: Array, anchors: Array) -> Array:
    """Boxes (n, 4) from the Object Detection API's box encodings (n, 4): y, x, height, width.

    This is its faster_rcnn_box_coder with the scales 10, 10, 5, 5: a centre is in tenths of the anchor's size, a size
    is 5 times the logarithm of its ratio to the anchor's.
    """
    places, sizes = values[:, 1::-1] / 10, values[:, :1:-1] / 5
    centres, halves = anchors[:, :2] + places * anchors[:, 2:], np.exp(sizes) * anchors[:, 2:] / 2
    return np.hstack([centres - halves, centres + halves])


def suppress(boxes: Array, scores: Array, classes: npt.NDArray[np.int64], overlap: float, most: int) -> list[int]:
    """Non-maximum suppression: the numbers of the boxes (n, 4) to keep, the best score first, at most ``most``.

    If two boxes of the same class overlap by more than ``overlap``, only the one with the better score is kept.
    """
    kept: list[int] = []
    left = np.argsort(-scores, kind="stable")
    while left.size and len(kept) < most:
        best, others = int(left[0]), left[1:]
        kept.append(best)
        same = (overlaps(boxes[best], boxes[others]) > overlap) & (classes[others] == classes[best])
        left = others[~same]
    return kept
