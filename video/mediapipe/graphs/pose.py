"""The second model of a chain of persons: from regions to landmarks, in the picture and in metres, and next tracks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ...answer_graph import AnswerGraph
from .detecting import Kind, Settings
from .heat_maps import refine
from .landmarks import project, smooth, turned_world
from .masks import warp
from .tracks import COLUMNS, Size, circle_matrix, circle_tracks, regions

Array = npt.NDArray[Any]
COUNT, ALL = 33, 39
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
    """The model ``ChainModels.look`` and its states. Rows are landmarks in pixels (99) and in metres (99), visibilities
    (33) and presences (33), the probability of a person, and the region's number from 1 on, or 0 if nobody is there.

    Behind the other outputs are the masks, if asked for, each (1, height, width, 1). Pictures have ``size`` (width,
    height), and the network's input is a square of ``side``.
    """
    graph, n = AnswerGraph(), settings.count
    pictures = graph.input((n, side, side, 3))
    placed = graph.input((n, COLUMNS))
    values, presence, mask, heat_maps, world = graph.network(landmarks, [pictures], n)[:5]
    rows = graph.reshape(values, (n, ALL, 5))
    points = project(graph, refine(graph, graph.part(rows, 2, 0, 3), heat_maps, side), placed, side)
    metres = turned_world(graph, graph.part(graph.reshape(world, (n, ALL, 3)), 1, 0, COUNT), placed)
    there = graph.binary("MUL", graph.binary("GREATER", presence, settings.presence), graph.part(placed, 1, 3, 4))
    shown = graph.join([graph.part(points, 1, 0, COUNT), metres], 1)
    sure = graph.unary("LOGISTIC", graph.part(graph.part(rows, 1, 0, COUNT), 2, 3, 5))
    seen, likely = graph.part(sure, 2, 0, 1), graph.part(sure, 2, 1, 2)
    feedback, following, after = dict[str, str](), list[int](), list[int]()
    if settings.follows:
        circle = graph.reshape(graph.part(points, 1, COUNT, COUNT + 2), (n, 6))
        tracks = circle_tracks(graph, circle, there, circle_matrix(0, 3, 6, UP), PERSON.scale)
        following = [tracks, regions(graph, tracks, size, side)]
        if settings.is_smooth:
            (shown, seen), feedback, after = _smoothed(graph, shown, seen, there, tracks)
    row = [graph.reshape(shown, (n, 6 * COUNT)), *(graph.reshape(each, (n, COUNT)) for each in (seen, likely))]
    number = graph.binary("MUL", there, graph.constant(np.arange(1, n + 1, dtype=np.float32)[:, None]))
    made = [graph.join([*row, presence, number], 1), *following]
    if masks:
        sight = graph.binary("MUL", graph.unary("LOGISTIC", mask), graph.reshape(there, (n, 1, 1, 1)))
        made += warp(graph, sight, placed, size, side)
    return graph.build(*made, *after), feedback


def _smoothed(
    graph: AnswerGraph, shown: int, seen: int, there: int, tracks: int
) -> tuple[tuple[int, int], dict[str, str], list[int]]:
    """The filtered landmarks (n, 66, 3) and visibilities (n, 33, 1), as ``PoseFilter``; and the states: their names,
    and what they become.
    """
    n, hertz = graph.shape(shown)[0], graph.reshape(graph.input((1, 1, 1, 1)), (1, 1, 1))
    states = graph.input((3 * n, 2 * COUNT, 3)), graph.input((n, 1, 1))
    kept = graph.input((n, COUNT, 1))
    places = np.repeat([1.0, 0.0], COUNT)  # the first half of the landmarks is in pixels, the other one in metres
    sides = graph.reduced("SUM", graph.part(tracks, 1, 2, 4), 1)
    scale = graph.reshape(graph.linear(sides, places[None] / 2, 1 - places), (n, 2 * COUNT, 1))
    cutoff, beta = (
        graph.constant(np.where(places[:, None] > 0, pixels, metres).astype(np.float32))
        for pixels, metres in ((0.05, 0.1), (80.0, 40.0))
    )
    is_there = graph.reshape(there, (n, 1, 1))
    points, made = smooth(graph, shown, is_there, scale, hertz, states, min_cutoff=cutoff, beta=beta)
    step = graph.binary("MUL", graph.binary("SUB", kept, seen), states[1])
    visible = graph.binary("ADD", seen, graph.binary("MUL", step, 1 - VISIBILITY_SHARE))
    after, before = [*made, visible], [*states, kept]
    return (points, visible), {graph.name(a): graph.name(b) for a, b in zip(after, before, strict=True)}, after
