"""Detectors of queries (transformers): DETR, YOLOS, Deformable and Conditional DETR, RT-DETR, D-FINE, RF-DETR.

Each query has logits and a box of centre x, centre y, width and height from 0 to 1. There is no suppression.

- "End-to-End Object Detection with Transformers" (DETR, Carion et al., 2020), YOLOS (Fang et al., 2021): softmax, of
  which the last class is "no object"; a query is one object. Both have 100 queries.
- "Deformable DETR" (Zhu et al., 2021), "DETRs Beat YOLOs on Real-time Object Detection" (RT-DETR, Zhao et al., 2024),
  D-FINE (Peng et al., 2024), RF-DETR (Robinson et al., 2025): a sigmoid for each class; each pair of query and class
  may be an object, and as many of the best pairs as there are queries are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..head import Decoder, Found, Head
from ..network import Values
from ..task import Fit, Match, Model, picture_of
from ..vision import ssd
from ..vision.boxes import corners
from ..vision.yolo import as_numbers, find_rows

Array = npt.NDArray[Any]
LEAST, MOST_QUERIES = 0.5, 1000
SOFTMAX_QUERIES = 100
"""Queries of the models whose last class is "no object"."""
COCO_CLASSES = (91, 92)
"""Classes of models trained on COCO's numbers, without and with "no object"; they take ImageNet's normalization."""
IMAGENET: tuple[Values, Values] = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RTDETR = "RTDETRDecoder"
"""Ultralytics' name of RT-DETR's head: its one output has rows of a box, the score and the class."""


class _Outputs(NamedTuple):
    """The numbers of the outputs with boxes and with logits, the number of queries, and of values of the logits."""

    boxes: int
    logits: int
    queries: int
    values: int


def fits(model: Model) -> Fit | None:
    """Whether the outputs are logits and boxes of up to 1000 queries."""
    if _is_ultralytics(model):
        return Fit(Match.METADATA, "its file says that it is ultralytics' RT-DETR")
    found = _outputs_of(model)
    return None if found is None else Fit(Match.OUTPUTS, f"its outputs are logits and boxes of {found.queries} queries")


def decoder(model: Model) -> Decoder:
    """1xQx4 and 1xQxC, boxes and logits of queries (DETR, RT-DETR, D-FINE, RF-DETR)."""
    if _is_ultralytics(model):
        return Decoder(_selected, len(model.metadata.classes) or None, LEAST, "stretched")
    found = _outputs_of(model)
    assert found is not None, "the model fits"
    is_softmax = found.queries == SOFTMAX_QUERIES
    classes = found.values - is_softmax

    def decode(outputs: Sequence[Array], least: float) -> Found:
        logits = outputs[found.logits].reshape(found.queries, found.values)
        scores = _softmax(logits)[:, :-1] if is_softmax else _probabilities(logits)
        rows, numbers = _likely(scores, least, each_query_once=is_softmax)
        boxes = outputs[found.boxes].reshape(found.queries, 4)[rows]
        return Found(corners(boxes), numbers, scores[rows, numbers])

    is_imagenet = is_softmax or found.values in COCO_CLASSES
    return Decoder(decode, classes, LEAST, "stretched", IMAGENET if is_imagenet else (0.0, 1.0))


def _likely(scores: Array, least: float, *, each_query_once: bool) -> tuple[Array, Array]:
    """The numbers of queries and classes with the score ``least`` or more, the best first, as many as queries."""
    if each_query_once:
        rows, numbers = np.arange(len(scores)), scores.argmax(axis=1)
    else:
        rows, numbers = np.indices(scores.shape).reshape(2, scores.size)
    best = scores[rows, numbers]
    order = np.argsort(-best, kind="stable")[: len(scores)]
    order = order[best[order] >= least]
    return rows[order], numbers[order]


def _selected(outputs: Sequence[Array], least: float) -> Found:
    """The objects in ultralytics' rows: box, score and class."""
    rows = outputs[0].reshape(-1, 6)
    rows = rows[rows[:, 4] >= least]
    rows = rows[np.argsort(-rows[:, 4], kind="stable")]
    return Found(corners(rows[:, :4]), as_numbers(rows[:, 5]), rows[:, 4])


def _softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _probabilities(values: Array) -> Array:
    """Logits as probabilities. Some exports have these in the outputs already: no value is below 0 then."""
    return ssd.sigmoid(values) if (values < 0).any() else values


def _is_ultralytics(model: Model) -> bool:
    shapes = list(model.outputs.values())
    return model.metadata.head == RTDETR and len(shapes) == 1 and len(shapes[0]) == 3 and shapes[0][2] == 6


def _outputs_of(model: Model) -> _Outputs | None:
    """The outputs of queries; None for another model. Names decide which one has boxes, if both have four values."""
    picture, shapes = picture_of(model), list(model.outputs.values())
    if picture is None or len(shapes) != 2 or any(len(shape) != 3 or shape[0] != 1 for shape in shapes):
        return None
    queries = shapes[0][1]
    if queries != shapes[1][1] or queries > MOST_QUERIES or find_rows(shapes, picture, 1):
        return None
    of_boxes = [number for number in (0, 1) if shapes[number][2] == 4]
    if len(of_boxes) == 2:
        of_boxes = [number for number in (0, 1) if "box" in model.names[list(model.outputs)[number]].lower()]
    if len(of_boxes) != 1:
        return None
    boxes, logits = of_boxes[0], 1 - of_boxes[0]
    return _Outputs(boxes, logits, queries, shapes[logits][2])


HEAD = Head("detect", fits, decoder)
