"""Landmarks moved to the means of their heat maps."""

from __future__ import annotations

import numpy as np

from ...answers.graph import AnswerGraph
from ...basic_types import Array
from ..calculators.heat_maps import KERNEL, LEAST_CONFIDENCE
from .detections import LEAST

REACH = KERNEL // 2
NOTHING = -1e3
"""A logit whose probability is 0 in float32."""


def refine(graph: AnswerGraph, landmarks: int, heat_maps: int, side: int) -> int:
    """The landmarks (n, count, 2 or more), as ``refine_landmarks`` of the calculators. Their x and y, the first two
    numbers, are in pixels of a square of ``side``.

    ``heat_maps`` (n, height, width, count) are before the sigmoid. Only the cells around each landmark are read.
    """
    columns = graph.shape(landmarks)[2]
    size = np.array(graph.shape(heat_maps)[2:0:-1])
    to_cells = np.eye(columns, 2) * size / side
    places = graph.binary("MINIMUM", graph.unary("RELU", graph.linear(landmarks, to_cells)), _constant(graph, size - 1))
    cells = graph.cast(graph.cast(places, "int32"), "float32")
    weights = graph.unary("LOGISTIC", _around(graph, heat_maps, cells))
    down, across = np.mgrid[:KERNEL, :KERNEL].reshape(2, -1) - REACH
    total = graph.binary("MAXIMUM", graph.linear(weights, np.ones((KERNEL**2, 1))), LEAST)
    apart = graph.binary("DIV", graph.linear(weights, np.stack([across, down], axis=1)), total)
    # A place beyond -1 or the size is outside: cells are truncated.
    beyond = graph.unary("ABS", graph.linear(landmarks, to_cells / (size + 1) * 2, (1 - size) / (size + 1)))
    inside = graph.binary("GREATER", graph.number(1.0), graph.reduced("REDUCE_MAX", beyond, 2))
    sure = graph.binary("GREATER_EQUAL", graph.reduced("REDUCE_MAX", weights, 2), LEAST_CONFIDENCE)
    means = graph.linear(graph.binary("ADD", apart, cells), np.eye(2, columns) * side / size[:, None])
    step = graph.binary("MUL", graph.binary("SUB", means, landmarks), graph.binary("MUL", sure, inside))
    return graph.binary("ADD", landmarks, graph.binary("MUL", step, _constant(graph, np.arange(columns) < 2)))


def _around(graph: AnswerGraph, heat_maps: int, cells: int) -> int:
    """The logits (n, count, KERNEL^2) around the cell (n, count, 2) of each landmark in its map; nothing outside."""
    n, height, width, count = graph.shape(heat_maps)
    rows, columns = height + 2 * REACH, width + 2 * REACH
    borders = graph.constant(np.array([[0, 0], [REACH, REACH], [REACH, REACH], [0, 0]], np.int32))
    padded = graph.apply("PADV2", [heat_maps, borders, graph.number(NOTHING)], (n, rows, columns, count))
    window = (np.arange(KERNEL)[:, None] * columns + np.arange(KERNEL)).ravel() * count
    step = np.repeat([[count], [columns * count]], KERNEL**2, axis=1)
    first = np.arange(n)[:, None, None] * rows * columns * count + np.arange(count)[:, None]
    numbers = graph.binary("ADD", graph.linear(cells, step, window), _constant(graph, first))
    flat = graph.reshape(padded, (n * rows * columns * count,))
    return graph.apply("GATHER", [flat, graph.cast(numbers, "int32")], graph.shape(numbers), axis=0)


def _constant(graph: AnswerGraph, values: Array) -> int:
    return graph.constant(values.astype(np.float32))
