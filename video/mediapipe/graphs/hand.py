"""The second model of a chain of hands: from regions to landmarks, in the picture and in metres, and next tracks."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...answers.graph import AnswerGraph
from ..calculators.rectangles import HAND_KNUCKLES
from ..calculators.tracking import LIKE, LIKE_LANDMARKS
from .detecting import Kind, Settings
from .landmarks import bounds, project, turned_world
from .tracks import (
    COLUMNS,
    Size,
    direction_of,
    overlapping,
    placed_tracks,
    regions,
    turned_line,
    unlike_earlier,
    without_overlapped,
)

COUNT, DEPTH = 21, 0.4
PALM = Kind(
    strides=(8, 16, 16, 16), points=7, overlap=0.3, line=(0, 2), target=90.0, scale=2.6, shift=-0.5,
    square=True, later_stays=False,
)  # fmt: skip
"""The target is MediaPipe's, in radians: see ``PALM_ANGLE`` of the hand landmarker."""
SOLUTION_PALM = replace(PALM, target=math.pi / 2, later_stays=True, found_first=True)
"""The rules of the older solution: what is followed takes the place of what is found there."""
SCALE, SHIFT = 2.0, -0.1


def looking(landmarks: bytes, size: Size, side: int, settings: Settings, *, is_distinct: bool = True) -> bytes:
    """The model ``ChainModels.look``. Rows are landmarks in pixels (63), in metres (63), the probabilities of a right
    hand and of a hand, and 1 or 0.

    Pictures have ``size`` (width, height), and the network's input is a square of ``side``. With ``is_distinct`` a hand
    that is like an earlier one is not there.
    """
    graph, n = AnswerGraph(), settings.count
    pictures = graph.input((n, side, side, 3))
    placed = graph.input((n, COLUMNS))
    values, presence, right, world = graph.network(landmarks, [pictures], n)[:4]
    points = project(graph, graph.reshape(values, (n, COUNT, 3)), placed, side, DEPTH)
    there = graph.binary("MUL", graph.binary("GREATER", presence, settings.presence), graph.part(placed, 1, 3, 4))
    there = distinct(graph, points, there) if is_distinct else there
    metres = turned_world(graph, graph.reshape(world, (n, COUNT, 3)), placed)
    row = [*(graph.reshape(each, (n, 3 * COUNT)) for each in (points, metres)), right, presence, there]
    made = [graph.join(row, 1)]
    if settings.follows:
        tracks = next_tracks(graph, points, there)
        followed = tracks if is_distinct else without_overlapped(graph, tracks, settings.overlap)
        made += [tracks, regions(graph, followed, size, side)]
    return graph.build(*made)


def next_tracks(graph: AnswerGraph, points: int, there: int) -> int:
    """The tracks (n, 8) of the next frame, as ``hand_rectangle`` and its transformation."""
    n = graph.shape(points)[0]
    flat = graph.reshape(graph.part(points, 2, 0, 2), (n, 2 * COUNT))
    line = np.zeros((COUNT, 2, 2))
    for landmark, weight in ((5, 0.25), (13, 0.25), (9, 0.5), (0, -1)):
        line[landmark] = weight * turned_line(math.pi / 2)
    direction = direction_of(graph, graph.linear(flat, line.reshape(2 * COUNT, 2)))
    knuckles = graph.apply(
        "GATHER", [graph.part(points, 2, 0, 2), graph.integers(*HAND_KNUCKLES)], (n, len(HAND_KNUCKLES), 2), axis=1
    )
    upright, back = (
        graph.reshape(graph.linear(direction, np.array(columns)), (n, 2, 2))
        for columns in ([[1, 0, 0, 1], [0, -1, 1, 0]], [[1, 0, 0, 1], [0, 1, -1, 0]])
    )
    around = bounds(graph, graph.product(knuckles, upright))
    middle = graph.linear(around, np.array([[0.5, 0], [0, 0.5], [-0.5, 0], [0, -0.5]]))
    middle = graph.reshape(graph.product(graph.reshape(middle, (n, 1, 2)), back), (n, 2))
    sides = graph.linear(around, np.array([[-1, 0], [0, -1], [-1, 0], [0, -1]]))
    return placed_tracks(graph, middle, sides, direction, there, SCALE, shift=SHIFT, square=True)


def distinct(graph: AnswerGraph, points: int, there: int) -> int:
    """``there`` (n, 1), but 0 for a hand that is like an earlier one, as ``distinct_hands``."""
    n = graph.shape(points)[0]
    if n == 1:
        return there
    flat = graph.part(points, 2, 0, 2)
    reach = _squares(graph, _sides(graph, graph.reshape(flat, (n, 2 * COUNT))), LIKE)
    reach = graph.binary("MAXIMUM", reach, graph.turn(reach, 1, 0))
    apart = graph.binary("SUB", graph.reshape(flat, (n, 1, COUNT, 2)), graph.reshape(flat, (1, n, COUNT, 2)))
    distances = graph.reshape(graph.reduced("SUM", graph.binary("MUL", apart, apart), 3), (n, n, COUNT))
    near = graph.binary("GREATER", graph.reshape(reach, (n, n, 1)), distances)
    alike = graph.binary("GREATER_EQUAL", graph.reduced("SUM", near, 2), float(LIKE_LANDMARKS))
    like = graph.binary("MUL", graph.reshape(alike, (n, n)), overlapping(graph, bounds(graph, points), LIKE))
    stays = graph.part(there, 0, 0, 1)
    for number in range(1, n):
        stays = graph.join([stays, unlike_earlier(graph, stays, like, graph.part(there, 0, number, number + 1))], 0)
    return stays


def _sides(graph: AnswerGraph, flat: int) -> int:
    """The sides (n, 3, 2) of the triangles of wrist, index finger's and little finger's base."""
    sides = np.zeros((COUNT, 2, 3, 2))
    for number, (start, end) in enumerate([(0, 17), (5, 0), (17, 5)]):
        sides[start, :, number], sides[end, :, number] = np.eye(2), -np.eye(2)
    return graph.reshape(graph.linear(flat, sides.reshape(2 * COUNT, 6)), (graph.shape(flat)[0], 3, 2))


def _squares(graph: AnswerGraph, sides: int, share: float) -> int:
    """The square (n, 1) of a share of the longest of the sides (n, 3, 2)."""
    n = graph.shape(sides)[0]
    lengths = graph.reshape(graph.reduced("SUM", graph.binary("MUL", sides, sides), 2), (n, 3))
    return graph.binary("MUL", graph.reduced("REDUCE_MAX", lengths, 1), share**2)
