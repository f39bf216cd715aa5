"""Landmarks moved to the means of their heat maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...answer_graph import AnswerGraph
from ..calculators.heat_maps import KERNEL, LEAST_CONFIDENCE
from .detections import LEAST

Array = npt.NDArray[Any]


def refine(graph: AnswerGraph, landmarks: int, heat_maps: int, side: int) -> int:
    """The landmarks (n, count, 3), in pixels of a square of ``side``, as ``refine_landmarks`` of the calculators.

    ``heat_maps`` (n, height, width, count) are before the sigmoid. Only the cells around each landmark are read.
    """
    _, height, width, _ = graph.shape(heat_maps)
    places = graph.linear(landmarks, np.array([[width, 0], [0, height], [0, 0]]) / side)
    indices = graph.cast(places, "int32")
    cells = graph.cast(indices, "float32")
    down, across = np.mgrid[:KERNEL, :KERNEL].reshape(2, -1).astype(np.float32) - KERNEL // 2
    column, beside = _kept(graph, graph.part(cells, 2, 0, 1), across, width)
    row, above = _kept(graph, graph.part(cells, 2, 1, 2), down, height)
    inside = graph.binary("GREATER", graph.number(0.5), graph.binary("ADD", beside, above))
    values = _gathered(graph, heat_maps, row, column)
    weights = graph.binary("MUL", graph.unary("LOGISTIC", values), inside)
    sums = graph.linear(weights, np.stack([across, down, np.ones_like(down)], axis=1))
    total = graph.binary("MAXIMUM", graph.part(sums, 2, 2, 3), LEAST)
    mean = graph.binary("ADD", cells, graph.binary("DIV", graph.part(sums, 2, 0, 2), total))
    sure = graph.binary("GREATER_EQUAL", graph.reduced("REDUCE_MAX", weights, 2), LEAST_CONFIDENCE)
    middle = KERNEL**2 // 2
    moves = graph.binary("MUL", sure, graph.part(inside, 2, middle, middle + 1))
    step = graph.binary("MUL", graph.binary("SUB", mean, places), moves)
    return graph.binary("ADD", landmarks, graph.linear(step, np.array([[side / width, 0, 0], [0, side / height, 0]])))


def _kept(graph: AnswerGraph, cells: int, reach: Array, size: int) -> tuple[int, int]:
    """The positions (n, count, cells) in reach of ``cells`` (n, count, 1), moved into the map, and how far they were
    outside.
    """
    positions = graph.binary("ADD", cells, graph.constant(reach))
    kept = graph.binary("MINIMUM", graph.unary("RELU", positions), float(size - 1))
    return kept, graph.unary("ABS", graph.binary("SUB", positions, kept))


def _gathered(graph: AnswerGraph, heat_maps: int, row: int, column: int) -> int:
    """The values (n, count, cells) of each landmark's map at rows and columns."""
    n, height, width, count = graph.shape(heat_maps)
    first = np.arange(n)[:, None, None] * height * width * count + np.arange(count)[:, None]
    cell = graph.binary("ADD", graph.binary("MUL", row, float(width)), column)
    number = graph.binary("ADD", graph.binary("MUL", cell, float(count)), graph.constant(first.astype(np.float32)))
    flat = graph.reshape(heat_maps, (n * height * width * count,))
    return graph.apply("GATHER", [flat, graph.cast(number, "int32")], graph.shape(number), axis=0)
