"""The selection of candidates as a model of a few operators, which runs on the GPU behind a detector."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ..copies import DETECTIONS
from .graph import AnswerGraph
from .postprocess import Postprocess
from .selection import Candidates, Columns, Selection

LEADING = 3
"""The first columns of a result: score, class and number of the row; the selection's values follow."""
BLOCK = 128
"""The rows that are read at once: the next ones are read only if all of these score enough."""


class Selector:
    """The selection on the GPU, behind a network's outputs."""

    def __init__(self, selection: Selection, postprocess: Postprocess) -> None:
        """``postprocess`` runs the ``candidate_graph`` of the selection."""
        self._postprocess = postprocess
        columns = LEADING + sum(each.last - each.first for each in selection.values)
        self._rows = np.empty((selection.count, columns), np.float32)

    def select(self, least: float) -> Candidates:
        """The candidates of the network's last run with the score ``least`` or more. Their reads are counted."""
        self._postprocess.run()
        (buffer,), rows = self._postprocess.outputs, self._rows
        for first in range(0, len(rows), BLOCK):
            block = rows[first : first + BLOCK]
            buffer.read(block, offset=rows[:first].nbytes, reason=DETECTIONS)
            if not block[-1, 0] >= least:
                rows = rows[: first + BLOCK]
                break
        likely = rows[rows[:, 0] >= least]
        numbers, classes = likely[:, 2].astype(np.int64), likely[:, 1].astype(np.int64)
        return Candidates(numbers, classes, likely[:, 0], likely[:, LEADING:])


def candidate_graph(selection: Selection, shapes: Mapping[int, tuple[int, ...]]) -> bytes:
    """A model that takes the selection's outputs, of ``shapes`` by number, and gives (count, LEADING + values) float32.

    Its rows are the best candidates, as ``selection.select`` orders them, whatever their score.
    """
    graph, count = AnswerGraph(), selection.count
    given = {number: graph.input((1, *shapes[number][-2:])) for number in selection.outputs}

    def part(columns: Columns) -> int:
        return graph.part(given[columns.output], 2 - columns.is_last, columns.first, columns.last)

    scores, is_last = part(selection.scores), selection.scores.is_last
    factor = None if selection.objectness is None else part(selection.objectness)
    best = _best(graph, selection, scores, factor)
    top = [((1, count), "float32"), ((1, count), "int32")]
    found, places = graph.apply_for("TOPK_V2", [best, graph.number(count, "int32")], top)
    numbers = graph.reshape(places, (count,))
    if selection.has_pairs:
        classes = graph.integers(selection.scores.last - selection.scores.first)
        kinds = graph.apply("FLOOR_MOD", [numbers, classes], (count,), "int32")
        numbers = graph.apply("FLOOR_DIV", [numbers, classes], (count,), "int32")
    else:
        likely, across = _taken(graph, scores, numbers, is_last=is_last), graph.integers(2 - is_last)
        kinds = graph.apply("ARG_MAX", [likely, across], (1, count), "int32", outputType=2)
    floats = [graph.apply("CAST", [each], graph.shape(each)) for each in (kinds, numbers)]
    columns = [graph.reshape(each, (count, 1)) for each in (found, *floats)]
    columns += [_rows(graph, part(each), numbers, is_last=each.is_last) for each in selection.values]
    shape = (count, sum(graph.shape(each)[1] for each in columns))
    return graph.build(graph.apply("CONCATENATION", columns, shape, axis=1))


def _best(graph: AnswerGraph, selection: Selection, scores: int, factor: int | None) -> int:
    """The scores (1, n) of all candidates: of their best classes, or of each of their classes."""
    if selection.has_pairs:
        by_row = graph.turn(scores, 0, 2, 1) if selection.scores.is_last else scores
        return graph.reshape(by_row, (1, math.prod(graph.shape(scores))))
    across = graph.integers(2 - selection.scores.is_last)
    best = graph.apply("REDUCE_MAX", [scores, across], (1, selection.candidates), keepDims=False)
    if factor is None:
        return best
    return graph.apply("MUL", [best, graph.reshape(factor, (1, selection.candidates))], (1, selection.candidates))


def _rows(graph: AnswerGraph, values: int, numbers: int, *, is_last: bool) -> int:
    """The values (count, columns) of the candidates of these numbers."""
    taken = _taken(graph, values, numbers, is_last=is_last)
    rows = graph.turn(taken, 0, 2, 1) if is_last else taken
    return graph.reshape(rows, graph.shape(rows)[1:])


def _taken(graph: AnswerGraph, values: int, numbers: int, *, is_last: bool) -> int:
    """The values of the candidates of these numbers, which stay on their axis."""
    axis, shape = 1 + is_last, list(graph.shape(values))
    shape[axis] = math.prod(graph.shape(numbers))
    return graph.apply("GATHER", [values, numbers], shape, axis=axis)
