"""Tracks: from boxes or landmarks, joined from frame to frame, and as regions that networks look at."""

from __future__ import annotations

import math

import numpy as np

from ...answers.graph import AnswerGraph
from ...basic_types import Array, Size
from .detections import LEAST, box_areas, is_above

COLUMNS = 8
"""Numbers of a track, and of a region."""


def turned_line(target: float) -> Array:
    """The matrix (2, 2) from a line (x, y) to a vector along cosine and sine of the rotation to the angle ``target``.

    As ``rectangles.rotations``: the rotation is ``target`` less the line's angle, counter-clockwise from the x axis.
    """
    cosine, sine = math.cos(target), math.sin(target)
    return np.array([[cosine, sine], [-sine, cosine]])


def box_tracks(
    graph: AnswerGraph, places: int, there: int, matrix: Array, scale: float, *, shift: float = 0.0, square: bool = True
) -> int:
    """The tracks (n, 8) of rows of numbers: ``matrix`` (columns, 6) makes x, y, width, height and a turned line of
    them. ``there`` (n, 1) is 1 or 0. As ``transform_rectangles``.
    """
    rows = graph.linear(places, matrix)
    middle, sides, line = (graph.part(rows, 1, first, first + 2) for first in (0, 2, 4))
    return placed_tracks(graph, middle, sides, direction_of(graph, line), there, scale, shift=shift, square=square)


def circle_tracks(graph: AnswerGraph, rows: int, there: int, matrix: Array, scale: float) -> int:
    """The tracks (n, 8) of squares around circles: ``matrix`` (columns, 4) makes of ``rows`` a circle's middle, and the
    turned line from there to a point on it. As ``alignment_rectangles``, and their transformation.
    """
    line = graph.linear(rows, matrix[:, 2:])
    length = graph.unary("SQRT", graph.reduced("SUM", graph.binary("MUL", line, line), 1))
    places, sides, lengths, present = np.zeros((4, COLUMNS)), *np.zeros((3, 1, COLUMNS))
    places[[0, 1, 2, 3], [0, 1, 4, 5]] = 1
    sides[:, 2:4], lengths[:, 4:6], present[:, 6:] = 2 * scale, 1, 1
    # Sums of columns: a join would be a step for each of its parts.
    divisors = graph.binary("MAXIMUM", graph.linear(length, lengths, 1 - lengths[0]), LEAST)
    tracks = graph.binary("DIV", graph.linear(rows, matrix @ places), divisors)
    tracks = graph.binary("ADD", graph.linear(length, sides), tracks)
    return graph.binary("ADD", graph.linear(there, present), tracks)


def direction_of(graph: AnswerGraph, line: int) -> int:
    """Cosine and sine (n, 2) of the direction of vectors (n, 2)."""
    length = graph.unary("SQRT", graph.reduced("SUM", graph.binary("MUL", line, line), 1))
    return graph.binary("DIV", line, graph.binary("MAXIMUM", length, LEAST))


def placed_tracks(
    graph: AnswerGraph, middle: int, sides: int, direction: int, there: int, scale: float, *, shift: float, square: bool
) -> int:
    """The tracks (n, 8) of rectangles, after ``transform_rectangles``: middles, sides and directions are (n, 2)."""
    if shift:
        down = graph.linear(direction, np.array([[0, shift], [-shift, 0]]))
        middle = graph.binary("ADD", middle, graph.binary("MUL", down, graph.part(sides, 1, 1, 2)))
    if square:
        longest = graph.reduced("REDUCE_MAX", sides, 1)
        sides = graph.join([longest, longest], 1)
    return graph.join([middle, graph.binary("MUL", sides, scale), direction, there, there], 1)


def place_matrix(start: int, end: int, columns: int, target: float) -> Array:
    """The matrix for ``box_tracks`` of places in ``columns`` (see ``decoding``): the line is from point to point."""
    matrix = np.zeros((columns, 6))
    matrix[[0, 1], [0, 1]], matrix[[2, 3], [0, 1]] = 0.5, -0.5
    matrix[[0, 1, 2, 3], [2, 3, 2, 3]] = -1
    line = turned_line(target)
    matrix[4 + 2 * start : 6 + 2 * start, 4:] -= line
    matrix[4 + 2 * end : 6 + 2 * end, 4:] += line
    return matrix


def circle_matrix(middle: int, end: int, columns: int, target: float) -> Array:
    """The matrix for ``circle_tracks`` of rows with x and y of points from those numbers on."""
    matrix = np.zeros((columns, 4))
    matrix[[middle, middle + 1], [0, 1]] = 1
    line = turned_line(target)
    matrix[middle : middle + 2, 2:] -= line
    matrix[end : end + 2, 2:] += line
    return matrix


def associate(
    graph: AnswerGraph, previous: int, found: int, overlap: float, *, later_stays: bool, found_first: bool = False
) -> int:
    """The first n of the tracks of both, (n, 8) and (m, 8), as ``tracking.associate``: the later one of two that
    overlap stays; or, without ``later_stays``, as ``associate_hands``: what is followed stays.

    With ``found_first`` what is followed is behind what is found. What is found counts only if fewer than n things are
    followed.
    """
    count, most = graph.shape(previous)[0], graph.shape(previous)[0] + graph.shape(found)[0]
    followed = graph.reduced("SUM", graph.part(previous, 1, 6, 7), 0)
    looked = graph.binary("GREATER", graph.number(count - 0.5), followed)
    counted = graph.binary("MUL", found, looked)
    tracks = graph.join([counted, previous] if found_first else [previous, counted], 0)
    there, over = graph.part(tracks, 1, 6, 7), overlapping(graph, graph.linear(tracks, _corners()), overlap)
    stays = _later_stay(graph, there, over) if later_stays else _earlier_stay(graph, there, over, count)
    stays = graph.turn(stays, 1, 0)
    order = graph.linear(stays, np.triu(np.ones((most, most))))  # 1 for the first
    apart = graph.binary("SUB", order, graph.constant(np.arange(1, count + 1, dtype=np.float32)[:, None]))
    chosen = graph.binary("GREATER", graph.number(0.25), graph.binary("MUL", apart, apart))
    return graph.product(graph.binary("MUL", chosen, stays), tracks)


def without_overlapped(graph: AnswerGraph, tracks: int, overlap: float) -> int:
    """The tracks (n, 8) that no later one overlaps; the others are zeros. It is ``associate`` if nothing is found."""
    if graph.shape(tracks)[0] == 1:
        return tracks
    there, over = graph.part(tracks, 1, 6, 7), overlapping(graph, graph.linear(tracks, _corners()), overlap)
    return graph.binary("MUL", tracks, _later_stay(graph, there, over))


def overlapping(graph: AnswerGraph, boxes: int, overlap: float) -> int:
    """1 for each two boxes (n, 4), as places have them, that overlap by more than ``overlap``, else 0: (n, n)."""
    n = graph.shape(boxes)[0]
    areas = box_areas(graph, boxes)
    one, other = graph.reshape(boxes, (n, 1, 4)), graph.reshape(boxes, (1, n, 4))
    shared = graph.reshape(box_areas(graph, graph.binary("MAXIMUM", one, other)), (n, n))
    return is_above(graph, shared, graph.binary("ADD", areas, graph.turn(areas, 1, 0)), overlap)


def _later_stay(graph: AnswerGraph, there: int, over: int) -> int:
    """1 for each track (n, 1) that no later one overlaps."""
    n = graph.shape(there)[0]
    later = graph.constant(np.triu(np.ones((n, n), np.float32), 1))
    hidden = graph.binary("GREATER", graph.product(graph.binary("MUL", over, later), there), 0.0)
    return graph.binary("MUL", there, graph.binary("SUB", graph.number(1.0), hidden))


def _earlier_stay(graph: AnswerGraph, there: int, over: int, followed: int) -> int:
    """1 for each track (n, 1) of the first ``followed``, and for others that no earlier one which stays overlaps."""
    stays = graph.part(there, 0, 0, followed)
    for number in range(followed, graph.shape(there)[0]):
        stays = graph.join([stays, unlike_earlier(graph, stays, over, graph.part(there, 0, number, number + 1))], 0)
    return stays


def unlike_earlier(graph: AnswerGraph, stays: int, like: int, there: int) -> int:
    """``there`` (1, 1) if the next thing is like none of those that stay (k, 1), else 0. ``like`` (n, n) is 1 or 0."""
    k = graph.shape(stays)[0]
    row = graph.part(graph.part(like, 0, k, k + 1), 1, 0, k)
    hidden = graph.binary("GREATER", graph.product(row, stays), 0.0)
    return graph.binary("MUL", there, graph.binary("SUB", graph.number(1.0), hidden))


def _corners() -> Array:
    """The matrix from a track to left, top, -right, -bottom, without its rotation."""
    matrix = np.zeros((COLUMNS, 4))
    matrix[[0, 1], [0, 1]], matrix[[0, 1], [2, 3]] = 1, -1
    matrix[[2, 3, 2, 3], [0, 1, 2, 3]] = -0.5
    return matrix


def regions(graph: AnswerGraph, tracks: int, size: Size, side: int, *, turns_depths: bool = False) -> int:
    """The regions (n, 8) of tracks in a picture of ``size`` for a network with a square input of ``side``.

    They are placed as ``crop_region`` places them: pixel (0, 0) of the network is on the region's corner, and pixels
    are points at whole coordinates. Depths scale as in ``project_in_square``; with ``turns_depths`` as in
    ``project_landmarks``.
    """
    numbers = graph.join([tracks, _turned(graph, tracks, (size[0] / size[1]) ** 2)], 1) if turns_depths else tracks
    columns = graph.shape(numbers)[1]
    left, right, offset = np.zeros((columns, COLUMNS)), np.zeros((columns, COLUMNS)), np.zeros(COLUMNS)
    left[[2, 3, 2, 3, 0, 1, 6, 2], range(COLUMNS)] = 1
    right[[4, 5, 5, 4], range(4)] = 1
    right[COLUMNS:, 7] = 1
    offset[4 : 7 if turns_depths else 8] = 1
    products = graph.binary("MUL", graph.linear(numbers, left), graph.linear(numbers, right, offset))
    # columns: a, -b, d, e, x, y, there, depth
    half = 0.5 + 0.5 / side
    matrix, moved = np.zeros((COLUMNS, COLUMNS)), np.zeros(COLUMNS)
    matrix[[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 4, 5, 2, 6, 3, 7]] = 1, -1, 1, 1, 1, 1, 1, 1
    matrix[[0, 2], [2, 6]], matrix[[1, 3], [2, 6]] = -half, (half, -half)
    moved[[2, 6]] = 0.5
    return graph.linear(products, matrix, moved)


def _turned(graph: AnswerGraph, tracks: int, ratio: float) -> int:
    """The widths (n, 1) of turned regions, normalized by the picture's width and height, in widths of regions that are
    not turned. ``ratio`` is the square of the picture's width over its height.
    """
    sine = graph.part(tracks, 1, 5, 6)
    return graph.unary("SQRT", graph.linear(graph.binary("MUL", sine, sine), np.array([[ratio - 1]]), 1.0))


def corner_matrix(side: int) -> Array:
    """The matrix (8, 2) from a region to its corner in pixels, and half a pixel more: ``regions`` moves a region by
    half a pixel of the picture, and back by half a pixel of the network.
    """
    matrix = np.zeros((COLUMNS, 2))
    matrix[2, 0] = matrix[6, 1] = 1
    matrix[[0, 1], 0] = matrix[[4, 5], 1] = 0.5 / side
    return matrix
