"""The second model of a chain of persons: from regions to landmarks, in the picture and in metres, and next tracks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ...answer_graph import AnswerGraph
from .detecting import Kind, Settings
from .heat_maps import refine
from .landmarks import ROTATION, projection, rotation_of, smooth
from .masks import warp
from .tracks import COLUMNS, Size, circle_matrix, circle_tracks, corner_matrix, regions

Array = npt.NDArray[Any]
COUNT, ALL = 33, 39
VALUES = 8
"""Numbers of a landmark: x, y and z in pixels, visibility and presence, x, y and z in metres."""
SURE, METRES = (3, 4), 5
UP = math.pi / 2
PERSON = Kind(
    strides=(8, 16, 32, 32, 32), points=4, overlap=0.5, line=(0, 1), target=UP, scale=1.25, shift=0.0,
    square=True, later_stays=True, is_circle=True,
)  # fmt: skip
VISIBILITY_SHARE = 0.1
"""The share of new values in the filter of visibilities."""


def looking(
    landmarks: bytes, size: Size, side: int, settings: Settings, *, masks: bool
) -> tuple[bytes, dict[str, str]]:
    """The model ``ChainModels.look`` and its states. Rows are ``VALUES`` numbers of each landmark, the probability of a
    person, and the region's number from 1 on, or 0 if nobody is there.

    Behind the other outputs are the masks, if asked for, each (1, height, width, 1). Pictures have ``size`` (width,
    height), and the network's input is a square of ``side``.
    """
    graph, n = AnswerGraph(), settings.count
    pictures = graph.input((n, side, side, 3))
    placed = graph.input((n, COLUMNS))
    values, presence, mask, heat_maps, world = graph.network(landmarks, [pictures], n)[:5]
    points = graph.join([graph.reshape(values, (n, ALL, 5)), graph.reshape(world, (n, ALL, 3))], 2)
    points = _projected(graph, refine(graph, _with_probabilities(graph, points), heat_maps, side), placed, side)
    there = graph.binary("MUL", graph.binary("GREATER", presence, settings.presence), graph.part(placed, 1, 3, 4))
    shown, feedback, following, after = graph.part(points, 1, 0, COUNT), dict[str, str](), list[int](), list[int]()
    if settings.follows:
        circle = graph.reshape(graph.part(points, 1, COUNT, COUNT + 2), (n, 2 * VALUES))
        tracks = circle_tracks(graph, circle, there, circle_matrix(0, VALUES, 2 * VALUES, UP), PERSON.scale)
        following = [tracks, regions(graph, tracks, size, side)]
        if settings.is_smooth:
            shown, feedback, after = _smoothed(graph, shown, there, tracks)
    number = graph.binary("MUL", there, graph.constant(np.arange(1, n + 1, dtype=np.float32)[:, None]))
    made = [graph.join([graph.reshape(shown, (n, VALUES * COUNT)), presence, number], 1), *following]
    if masks:
        sight = graph.binary("MUL", graph.unary("LOGISTIC", mask), graph.reshape(there, (n, 1, 1, 1)))
        made += warp(graph, sight, placed, size, side)
    return graph.build(*made, *after), feedback


def _with_probabilities(graph: AnswerGraph, points: int) -> int:
    """The landmarks (n, 39, 8) with visibility and presence as probabilities."""
    chosen = graph.constant(np.isin(np.arange(VALUES), SURE).astype(np.float32))
    change = graph.binary("MUL", graph.binary("SUB", graph.unary("LOGISTIC", points), points), chosen)
    return graph.binary("ADD", change, points)


def _projected(graph: AnswerGraph, points: int, placed: int, side: int) -> int:
    """The landmarks (n, 39, 8) of the regions ``placed`` in the picture, and their places in metres turned: as
    ``project`` and ``turned_world``, in one product.
    """
    n = graph.shape(placed)[0]
    in_picture, in_space = np.zeros((COLUMNS, VALUES, VALUES)), np.zeros((2, VALUES, VALUES))
    in_picture[:, :3, :3] = projection(side, 1.0)
    in_space[:, METRES:-1, METRES:-1] = ROTATION
    kept = np.diag(np.isin(np.arange(VALUES), (*SURE, VALUES - 1)))
    turned = graph.linear(rotation_of(graph, placed), in_space.reshape(2, -1), kept.ravel())
    matrices = graph.binary("ADD", graph.linear(placed, in_picture.reshape(COLUMNS, -1)), turned)
    corner = np.pad(corner_matrix(side), [(0, 0), (0, VALUES - 2)])
    corners = graph.reshape(graph.linear(placed, corner, np.eye(2, VALUES).sum(axis=0) * -0.5), (n, 1, VALUES))
    return graph.binary("ADD", graph.product(points, graph.reshape(matrices, (n, VALUES, VALUES))), corners)


def _smoothed(graph: AnswerGraph, points: int, there: int, tracks: int) -> tuple[int, dict[str, str], list[int]]:
    """The filtered landmarks (n, 33, 8), as ``PoseFilter``; and the states: their names, and what they become.

    One filter has a cutoff for each number: that of a visibility gives new values a constant share, and a presence is
    not filtered.
    """
    n, hertz = graph.shape(points)[0], graph.reshape(graph.input((1, 1, 1, 1)), (1, 1, 1))
    states = graph.input((3 * n, COUNT, VALUES)), graph.input((n, 1, 1))
    share = VISIBILITY_SHARE / (1 - VISIBILITY_SHARE) / (2 * math.pi)
    cutoff = graph.linear(hertz, np.eye(1, VALUES, 3) * share, np.array([0.05, 0.05, 0.05, 0, 1e30, 0.1, 0.1, 0.1]))
    beta = graph.constant(np.array([80, 80, 80, 0, 0, 40, 40, 40], np.float32))
    pixels = np.arange(VALUES) < 3
    sides = np.outer((np.arange(COLUMNS) // 2 == 1) / 2, pixels)  # a person's size is the mean of width and height
    scale = graph.reshape(graph.linear(tracks, sides, ~pixels), (n, 1, VALUES))
    is_there = graph.reshape(there, (n, 1, 1))
    shown, made = smooth(graph, points, is_there, scale, hertz, states, min_cutoff=cutoff, beta=beta)
    return shown, {graph.name(a): graph.name(b) for a, b in zip(made, states, strict=True)}, [*made]
