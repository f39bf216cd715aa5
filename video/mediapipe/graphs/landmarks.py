"""Landmarks: from a network's output to the picture, and at rest while the thing rests."""

from __future__ import annotations

import math

import numpy as np

from ...answers.graph import AnswerGraph
from ...basic_types import Array
from .tracks import COLUMNS, corner_matrix, direction_of

LEAST_SCALE = 1e-6
ROTATION = np.array([[[1, 0], [0, 1]], [[0, 1], [-1, 0]]])
"""From cosine and sine to the matrix (2, 2) that turns rows x, y."""


def project(graph: AnswerGraph, landmarks: int, placed: int, side: int, depth: float = 1.0) -> int:
    """The landmarks (n, count, 3) of the regions ``placed`` (n, 8) in the picture, in pixels, as ``project_landmarks``.

    They are given in pixels of the network's input, a square of ``side``, and their z in ``depth`` of them. Depths are
    in pixels of the picture's width.
    """
    n = graph.shape(placed)[0]
    matrices = graph.reshape(graph.linear(placed, projection(side, depth).reshape(COLUMNS, 9)), (n, 3, 3))
    corner = np.pad(corner_matrix(side), [(0, 0), (0, 1)])
    corners = graph.reshape(graph.linear(placed, corner, np.array([-0.5, -0.5, 0.0])), (n, 1, 3))
    return graph.binary("ADD", graph.product(landmarks, matrices), corners)


def projection(side: int, depth: float) -> Array:
    """The matrix (8, 3, 3) from a region to that of landmarks in it, whose rows are for x, y and z."""
    matrix = np.zeros((COLUMNS, 3, 3))
    matrix[0, 0, 0] = matrix[4, 0, 1] = matrix[1, 1, 0] = matrix[5, 1, 1] = 1 / side
    matrix[7, 2, 2] = 1 / side / depth
    return matrix


def turned_world(graph: AnswerGraph, world: int, placed: int) -> int:
    """World landmarks (n, count, 3), turned with their regions, as ``turn_world_landmarks``."""
    turn = np.zeros((2, 3, 3))
    turn[:, :2, :2] = ROTATION
    matrices = graph.linear(rotation_of(graph, placed), turn.reshape(2, 9), np.eye(9)[8])
    return graph.product(world, graph.reshape(matrices, (graph.shape(world)[0], 3, 3)))


def rotation_of(graph: AnswerGraph, placed: int) -> int:
    """Cosine and sine (n, 2) of the rotations of regions (n, 8)."""
    return direction_of(graph, graph.linear(placed, np.eye(COLUMNS)[:, [0, 4]]))  # a and d are along a region's width


def bounds(graph: AnswerGraph, landmarks: int) -> int:
    """Left, top, -right, -bottom (n, 4) of landmarks (n, count, 2 or 3)."""
    n, _, columns = graph.shape(landmarks)
    both = graph.linear(landmarks, np.array([[1, 0, -1, 0], [0, 1, 0, -1], [0, 0, 0, 0]])[:columns])
    return graph.reshape(graph.reduced("REDUCE_MIN", both, 1), (n, 4))


def object_scale(graph: AnswerGraph, around: int) -> int:
    """The sizes (n, 1, 1) of objects of those ``bounds``: the mean of width and height."""
    mean = graph.linear(around, np.full((4, 1), -0.5))
    return graph.reshape(mean, (graph.shape(around)[0], 1, 1))


def smooth(
    graph: AnswerGraph, values: int, there: int, scale: int, frequency: int, states: tuple[int, int], *,
    min_cutoff: float | int, beta: float | int, speed_cutoff: float = 1.0,
) -> tuple[int, tuple[int, int]]:  # fmt: skip
    """The filtered values (n, count, k), and the next states, as ``LandmarkFilter``.

    ``states`` are (3 n, count, k), raw values, filtered ones and speeds, and 1 (n, 1, 1) for what was there before, all
    zeros at first. ``there`` (n, 1, 1) is 1 or 0; ``scale`` (n, 1, 1 or k) the object's size; ``frequency`` (1, 1, 1)
    is that of frames, in Hz. ``min_cutoff`` and ``beta`` are numbers, or tensors with one for each of k.
    """
    n = graph.shape(values)[0]
    before, was_there = states
    raw, filtered, speed = (graph.part(before, 0, n * i, n * (i + 1)) for i in range(3))
    per_second = graph.binary("DIV", frequency, graph.binary("MAXIMUM", scale, LEAST_SCALE))
    moved = graph.binary("MUL", graph.binary("SUB", values, raw), per_second)
    share = _share(graph, graph.number(speed_cutoff), frequency)
    step = graph.binary("MUL", graph.binary("SUB", moved, speed), share)
    speed = graph.binary("MUL", graph.binary("ADD", speed, step), was_there)
    cutoff = graph.binary("ADD", graph.binary("MUL", graph.unary("ABS", speed), beta), min_cutoff)
    rest = graph.binary("SUB", graph.number(1.0), _share(graph, cutoff, frequency))
    kept = graph.binary("MUL", graph.binary("MUL", graph.binary("SUB", filtered, values), rest), was_there)
    result = graph.binary("ADD", values, kept)
    return result, (graph.join([values, result, speed], 0), there)


def _share(graph: AnswerGraph, cutoff: int, frequency: int) -> int:
    """The new value's share in a low-pass filter."""
    return graph.binary("DIV", cutoff, graph.binary("ADD", cutoff, graph.binary("MUL", frequency, 0.5 / math.pi)))
