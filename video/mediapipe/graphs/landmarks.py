"""Landmarks: from a network's output to the picture, and at rest while the thing rests."""

from __future__ import annotations

import math

import numpy as np

from ...answer_graph import AnswerGraph
from .tracks import direction_of

LEAST_SCALE = 1e-6


def project(graph: AnswerGraph, landmarks: int, regions: int, side: int, depth: float = 1.0) -> int:
    """The landmarks (n, count, 3) of regions (n, 8) in the picture, in pixels, as ``project_landmarks``.

    They are given in pixels of the network's input, a square of ``side``, and their z in ``depth`` of them. Depths are
    in pixels of the picture's width.
    """
    n = graph.shape(regions)[0]
    turn = np.zeros((8, 9))  # a, b, c, -, d, e, f, depth: the rows are those of x, y and z
    turn[[0, 1], [0, 3]] = turn[[4, 5], [1, 4]] = 1 / side
    turn[7, 8] = 1 / side / depth
    corner = np.zeros((8, 3))  # without the half pixel by which a sampler's region is moved
    corner[2, 0] = corner[6, 1] = 1
    corner[[0, 1], 0] = corner[[4, 5], 1] = 0.5 / side
    matrices = graph.reshape(graph.linear(regions, turn), (n, 3, 3))
    corners = graph.reshape(graph.linear(regions, corner, np.array([-0.5, -0.5, 0.0])), (n, 1, 3))
    return graph.binary("ADD", graph.product(landmarks, matrices), corners)


def turned_world(graph: AnswerGraph, world: int, placed: int) -> int:
    """World landmarks (n, count, 3), turned with their regions, as ``turn_world_landmarks``."""
    axis = np.zeros((8, 2))
    axis[0, 0] = axis[4, 1] = 1  # a and d are along the region's width
    turn = np.zeros((2, 9))
    turn[0, [0, 4]] = 1
    turn[1, [1, 3]] = 1, -1
    matrices = graph.linear(direction_of(graph, graph.linear(placed, axis)), turn, np.eye(9)[8])
    return graph.product(world, graph.reshape(matrices, (graph.shape(world)[0], 3, 3)))


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
    zeros at first. ``there`` (n, 1, 1) is 1 or 0; ``scale`` (n, 1 or count, 1) the object's size; ``frequency``
    (1, 1, 1) is that of frames, in Hz. ``min_cutoff`` and ``beta`` are numbers, or tensors (count, 1).
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
