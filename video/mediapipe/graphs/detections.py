"""Detections at anchors: decoded, and those that overlap made one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...answer_graph import AnswerGraph

Array = npt.NDArray[Any]
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
    their weighted mean, as ``suppress_weighted`` makes it: one round for each, best first.
    """
    boxes, logits = outputs
    _, n, columns = graph.shape(boxes)
    matrix, addends = decoded
    places = graph.binary("ADD", graph.linear(graph.reshape(boxes, (n, columns)), matrix), graph.constant(addends))
    scores = graph.unary("LOGISTIC", graph.reshape(logits, (1, n)))
    corners = graph.part(places, 1, 0, 4)
    areas = graph.reshape(box_areas(graph, corners), (1, n))
    likely = graph.binary("MUL", graph.binary("GREATER_EQUAL", scores, confidence), scores)
    rest = graph.binary("MUL", likely, graph.binary("GREATER", areas, 0.0))  # of those that are in no group yet
    found, weights = list[int](), list[int]()
    for _ in range(count):
        number = graph.apply("ARG_MAX", [rest, graph.integers(1)], (1,), "int32", outputType=2)
        best = graph.apply("GATHER", [corners, number], (1, 4), axis=0)
        area = graph.apply("GATHER", [areas, number], (1, 1), axis=1)
        shared = graph.reshape(box_areas(graph, graph.binary("MAXIMUM", corners, best)), (1, n))
        group = graph.binary("MUL", rest, is_above(graph, shared, graph.binary("ADD", areas, area), overlap))
        rest = graph.binary("SUB", rest, group)
        weights.append(graph.reduced("SUM", group, 1))
        total = graph.binary("MAXIMUM", weights[-1], LEAST)
        found.append(graph.binary("DIV", graph.product(group, places), total))
    there = graph.binary("GREATER", graph.join(weights, 0), 0.0)
    return graph.join(found, 0), there


def box_areas(graph: AnswerGraph, corners: int) -> int:
    """The areas (..., 1) of boxes (..., 4), as places have them; 0 if there is none between the sides."""
    across = np.array([[-1, 0], [0, -1], [-1, 0], [0, -1]])
    lengths = graph.unary("RELU", graph.linear(corners, across))
    return graph.reduced("REDUCE_PROD", lengths, len(graph.shape(corners)) - 1)


def is_above(graph: AnswerGraph, shared: int, areas: int, overlap: float) -> int:
    """1 if the intersection over union is above ``overlap``, else 0. ``areas`` are sums of those of the two boxes."""
    return graph.binary("GREATER", graph.binary("MUL", shared, (1 + overlap) / max(overlap, LEAST)), areas)
