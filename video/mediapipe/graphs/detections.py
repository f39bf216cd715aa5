"""Detections at anchors: decoded, and those that overlap made one."""

from __future__ import annotations

import numpy as np

from ...answers.graph import AnswerGraph
from ...basic_types import Array

LEAST = 1e-30
"""The least divisor."""


def decoding(anchors: Array, columns: int, side: int, matrix: Array) -> tuple[Array, Array]:
    """The matrix and addends that make places of ``columns`` outputs at anchors (n, 2): see ``decode_detections``.

    ``matrix`` (2, 3) takes a point of the network's square input, from 0 to 1, to the picture's pixels; it does not
    turn. A place is left, top, -right, -bottom, and the key points: so the box that two boxes share has the larger of
    both in each number.
    """
    corners = np.eye(columns, dtype=np.float64)  # from (x, y, width, height, points) in pixels of the input
    corners[:4, :4] = [[1, 0, -1, 0], [0, 1, 0, -1], [-0.5, 0, -0.5, 0], [0, -0.5, 0, -0.5]]
    scale = np.tile([matrix[0, 0], matrix[1, 1]], columns // 2)
    addends = np.tile(anchors, columns // 2) * scale + np.tile(matrix[:, 2], columns // 2)
    addends[:, 2:4] *= -1
    return corners * scale / side, addends.astype(np.float32)


def best_detections(
    graph: AnswerGraph,
    outputs: tuple[int, int],
    decoded: tuple[Array, Array],
    confidence: float,
    overlap: float,
    count: int,
) -> tuple[int, int]:
    """The ``count`` best detections: places (count, columns), and 1 or 0 (count, 1) for those that are there.

    ``outputs`` are boxes (1, n, columns) and logits (1, n, 1); ``decoded`` is ``decoding``. Groups of boxes become
    their weighted mean, as ``suppress_weighted`` makes it, best first: each box is in the group of the best box that it
    overlaps and that is itself in no better one's group.
    """
    boxes, logits = outputs
    _, n, columns = graph.shape(boxes)
    matrix, addends = decoded
    places = graph.binary("ADD", graph.linear(graph.reshape(boxes, (n, columns)), matrix), graph.constant(addends))
    scores = graph.unary("LOGISTIC", graph.reshape(logits, (1, n)))
    corners = graph.part(places, 1, 0, 4)
    areas = graph.reshape(box_areas(graph, corners), (1, n))
    likely = graph.binary("MUL", graph.binary("GREATER_EQUAL", scores, confidence), scores)
    weights = graph.binary("MUL", likely, graph.binary("GREATER", areas, 0.0))
    best, found = _best_boxes(graph, corners, weights, overlap, count)
    group = graph.binary("MUL", _first_that_overlaps(graph, corners, areas, (best, found), overlap), weights)
    total = graph.binary("MAXIMUM", graph.reduced("SUM", group, 1), LEAST)
    return graph.binary("DIV", graph.product(group, places), total), found


def _best_boxes(graph: AnswerGraph, corners: int, scores: int, overlap: float, count: int) -> tuple[int, int]:
    """The numbers (count) of the best boxes (n, 4) that overlap no better one, and 1 or 0 (count, 1): if it is there.

    ``scores`` (1, n) are above 0 for boxes that count.
    """
    n = graph.shape(corners)[0]
    opposite = graph.linear(corners, np.diag([1, 1, -1, -1]))
    above = np.nextafter(np.float32(overlap), np.float32(2))  # the operator's boxes overlap from its threshold on
    limits = graph.number(count, "int32"), graph.number(float(above)), graph.number(0.0)
    best, number = graph.apply_for(
        "NON_MAX_SUPPRESSION_V4", [opposite, graph.reshape(scores, (n,)), *limits], [((count,), "int32"), ((), "int32")]
    )
    ranks = graph.constant(np.arange(count, dtype=np.float32)[:, None])
    return best, graph.binary("GREATER", graph.cast(number, "float32"), ranks)


def _first_that_overlaps(graph: AnswerGraph, corners: int, areas: int, chosen: tuple[int, int], overlap: float) -> int:
    """1 (count, n) if a chosen box is the first one that overlaps a box, else 0. ``chosen`` are numbers (count) of
    boxes and 1 or 0 (count, 1): if they count.
    """
    (n, _), (best, found) = graph.shape(corners), chosen
    count = graph.shape(best)[0]
    box = graph.apply("GATHER", [corners, best], (count, 4), axis=0)
    area = graph.apply("GATHER", [graph.reshape(areas, (n, 1)), best], (count, 1), axis=0)
    pairs = graph.binary("MAXIMUM", graph.reshape(corners, (1, n, 4)), graph.reshape(box, (count, 1, 4)))
    shared = graph.reshape(box_areas(graph, pairs), (count, n))
    over = graph.binary("MUL", is_above(graph, shared, graph.binary("ADD", areas, area), overlap), found)
    if count == 1:
        return over
    earlier = graph.product(graph.constant(np.tri(count, k=-1, dtype=np.float32)), over)
    return graph.binary("MUL", over, graph.binary("GREATER", graph.number(0.5), earlier))


def box_areas(graph: AnswerGraph, corners: int) -> int:
    """The areas (..., 1) of boxes (..., 4), as places have them; 0 if there is none between the sides."""
    across = np.array([[-1, 0], [0, -1], [-1, 0], [0, -1]])
    lengths = graph.unary("RELU", graph.linear(corners, across))
    return graph.reduced("REDUCE_PROD", lengths, len(graph.shape(corners)) - 1)


def is_above(graph: AnswerGraph, shared: int, areas: int, overlap: float) -> int:
    """1 if the intersection over union is above ``overlap``, else 0. ``areas`` are sums of those of the two boxes."""
    return graph.binary("GREATER", graph.binary("MUL", shared, (1 + overlap) / max(overlap, LEAST)), areas)
