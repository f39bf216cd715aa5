"""Detectors of queries (transformers): DETR, YOLOS, Deformable and Conditional DETR, RT-DETR, D-FINE, RF-DETR.

Each query has logits and a box of centre x, centre y, width and height from 0 to 1. There is no suppression.

- "End-to-End Object Detection with Transformers" (DETR, Carion et al., 2020), YOLOS (Fang et al., 2021): softmax, of
  which the last class is "no object"; a query is one object. Both have 100 queries.
- "Deformable DETR" (Zhu et al., 2021), "DETRs Beat YOLOs on Real-time Object Detection" (RT-DETR, Zhao et al., 2024),
  D-FINE (Peng et al., 2024), RF-DETR (Robinson et al., 2025): a sigmoid for each class; each pair of query and class
  may be an object, and as many of the best pairs as there are queries are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..answers.selection import Columns, Selection
from ..basic_types import Array
from ..head import Decoder, Found, Head, Probability
from ..network_outputs import candidates_of
from ..sampling import Values
from ..task import Fit, Match, Model, picture_of
from ..vision.boxes import corners
from ..vision.yolo import as_numbers, find_rows

LEAST, MOST_QUERIES = 0.5, 1000
SOFTMAX_QUERIES = 100
"""Queries of the models whose last class is "no object"."""
COCO_CLASSES = (91, 92)
"""Classes of models trained on COCO's numbers, without and with "no object"; they take ImageNet's normalization."""
IMAGENET: tuple[Values, Values] = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RTDETR = "RTDETRDecoder"
"""Ultralytics' name of RT-DETR's head: its one output has rows of a box, the score and the class."""


class QueryOutputs(NamedTuple):
    """The numbers of the outputs with boxes and with logits, the number of queries, and of values of the logits."""

    boxes: int
    logits: int
    queries: int
    values: int


def fits(model: Model) -> Fit | None:
    """Whether the outputs are logits and boxes of up to 1000 queries."""
    if _is_ultralytics(model):
        return Fit(Match.METADATA, "its file says that it is ultralytics' RT-DETR")
    found = _of_two(model)
    return None if found is None else Fit(Match.OUTPUTS, f"its outputs are logits and boxes of {found.queries} queries")


def decoder(model: Model) -> Decoder:
    """1xQx4 and 1xQxC, boxes and logits of queries (DETR, RT-DETR, D-FINE, RF-DETR)."""
    if _is_ultralytics(model):
        return Decoder(_selected, len(model.metadata.classes) or None, LEAST, "stretched")
    found = _of_two(model)
    assert found is not None, "the model fits"
    is_softmax = found.queries == SOFTMAX_QUERIES
    is_imagenet = is_softmax or found.values in COCO_CLASSES
    decode = _of_softmax(found) if is_softmax else _without_queries(by_sigmoids(found))
    usual = IMAGENET if is_imagenet else (0.0, 1.0)
    return Decoder(decode, found.values - is_softmax, LEAST, "stretched", usual)


def _of_softmax(found: QueryOutputs) -> Callable[[Sequence[Array], float], Found]:
    """Each query is one object, of its best class; the last class is none."""

    def decode(outputs: Sequence[Array], least: float) -> Found:
        logits = outputs[found.logits].reshape(found.queries, found.values)
        scores = _softmax(logits)[:, :-1]
        numbers, best = scores.argmax(axis=1), scores.max(axis=1)
        order = np.argsort(-best, kind="stable")
        order = order[best[order] >= least]
        boxes = outputs[found.boxes].reshape(found.queries, 4)[order]
        return Found(corners(boxes), numbers[order], best[order])

    return decode


_Find = Callable[[Sequence[Array], float], tuple[Found, npt.NDArray[np.int64]]]
"""Finds the objects, and the number of each one's query."""


def by_sigmoids(found: QueryOutputs) -> _Find:
    """Each pair of a query and a class may be an object; the best ones count, as many as there are queries."""
    logits, probability = Columns(found.logits, 0, found.values), Probability(found.logits)
    boxes = (Columns(found.boxes, 0, 4),)
    selection = Selection(found.queries, logits, boxes, found.queries, has_pairs=True)

    def find(outputs: Sequence[Array], least: float) -> tuple[Found, npt.NDArray[np.int64]]:
        likely = candidates_of(outputs, selection, probability.raw(outputs, least))
        return Found(corners(likely.values), likely.classes, probability.of(likely.scores)), likely.numbers

    return find


def _without_queries(find: _Find) -> Callable[[Sequence[Array], float], Found]:
    return lambda outputs, least: find(outputs, least)[0]


def _selected(outputs: Sequence[Array], least: float) -> Found:
    """The objects in ultralytics' rows: box, score and class."""
    rows = outputs[0].reshape(-1, 6)
    rows = rows[rows[:, 4] >= least]
    rows = rows[np.argsort(-rows[:, 4], kind="stable")]
    return Found(corners(rows[:, :4]), as_numbers(rows[:, 5]), rows[:, 4])


def _softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _is_ultralytics(model: Model) -> bool:
    shapes = list(model.outputs.values())
    return model.metadata.head == RTDETR and len(shapes) == 1 and len(shapes[0]) == 3 and shapes[0][2] == 6


def _of_two(model: Model) -> QueryOutputs | None:
    """The outputs of a model that has no others; None for another model."""
    return outputs_of(model, (0, 1)) if len(model.outputs) == 2 else None


def outputs_of(model: Model, numbers: Sequence[int]) -> QueryOutputs | None:
    """Boxes and logits of queries in two outputs; None for others. Names decide which has boxes, if both have four
    values.
    """
    picture, tensors = picture_of(model), list(model.outputs)
    shapes = {number: model.outputs[tensors[number]] for number in numbers}
    if picture is None or any(len(shape) != 3 or shape[0] != 1 for shape in shapes.values()):
        return None
    one, other = shapes.values()
    if one[1] != other[1] or one[1] > MOST_QUERIES or find_rows([one, other], picture, 1):
        return None
    of_boxes = [number for number in numbers if shapes[number][2] == 4]
    if len(of_boxes) == 2:
        of_boxes = [number for number in numbers if "box" in model.names[tensors[number]].lower()]
    if len(of_boxes) != 1:
        return None
    (logits,) = (number for number in numbers if number != of_boxes[0])
    return QueryOutputs(of_boxes[0], logits, one[1], shapes[logits][2])


HEAD = Head("detect", fits, decoder)
