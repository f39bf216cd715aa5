"""The second model of a chain of faces: from regions to landmarks, blendshapes and next tracks."""

from __future__ import annotations

import numpy as np

from ...answers.graph import AnswerGraph
from ...basic_types import Size
from ..calculators.blendshapes import LANDMARKS as BLENDSHAPE_POINTS
from .detecting import Kind, Settings
from .landmarks import bounds, object_scale, project, smooth
from .tracks import COLUMNS, box_tracks, place_matrix, regions, without_overlapped

COUNT, BLENDSHAPES = 478, 52
EYES = 33, 263
MARGIN = 1.5
MOST_BOUNDS = np.array([[3e38, 3e38, 0, 0]], np.float32)
"""Right and bottom of a face are not less than 0: see ``landmark_rectangle``."""
FACE = Kind(
    strides=(8, 16, 16, 16), points=6, overlap=0.5, line=(0, 1), target=0.0, scale=MARGIN, shift=0.0,
    square=False, later_stays=True, turns_depths=True,
)  # fmt: skip


def looking(
    landmarks: bytes, blendshapes: bytes | None, size: Size, side: int, settings: Settings
) -> tuple[bytes, dict[str, str]]:
    """The model ``ChainModels.look`` and its states. Rows are landmarks in pixels, blendshapes, and the probability of
    a face, or 0 if there is none.

    Pictures have ``size`` (width, height), and the network's input is a square of ``side``.
    """
    graph, n = AnswerGraph(), settings.count
    pictures = graph.input((n, side, side, 3))
    placed = graph.input((n, COLUMNS))
    values, logits, *_ = graph.network(landmarks, [pictures], n)
    points = project(graph, graph.reshape(values, (n, COUNT, 3)), placed, side)
    likely = graph.unary("LOGISTIC", graph.reshape(logits, (n, 1)))
    there = graph.binary("MUL", graph.binary("GREATER", likely, settings.presence), graph.part(placed, 1, 3, 4))
    around = bounds(graph, points)
    feedback, after = dict[str, str](), list[int]()
    shown = points
    if settings.is_smooth:
        frequency = graph.input((1, 1, 1, 1))
        states = graph.input((3 * n, COUNT, 3)), graph.input((n, 1, 1))
        scale = object_scale(graph, around)
        is_there, hertz = graph.reshape(there, (n, 1, 1)), graph.reshape(frequency, (1, 1, 1))
        shown, made = smooth(graph, points, is_there, scale, hertz, states, min_cutoff=0.05, beta=80.0)
        after, feedback = [*made], {graph.name(a): graph.name(b) for a, b in zip(made, states, strict=True)}
    rows = [graph.reshape(shown, (n, 3 * COUNT))]
    if blendshapes is not None:
        rows.append(blendshapes_of(graph, blendshapes, shown))
    made = [graph.join([*rows, graph.binary("MUL", likely, there)], 1)]
    if settings.follows:
        tracks = next_tracks(graph, points, around, there)
        made += [
            tracks,
            regions(graph, without_overlapped(graph, tracks, settings.overlap), size, side, turns_depths=True),
        ]
    return graph.build(*made, *after), feedback


def next_tracks(graph: AnswerGraph, points: int, around: int, there: int) -> int:
    """The tracks (n, 8) of the next frame, as ``next_face``. ``around`` (n, 4) are the bounds of ``points``."""
    around = graph.binary("MINIMUM", around, graph.constant(MOST_BOUNDS))
    n, eyes = graph.shape(points)[0], graph.integers(*EYES)
    ends = graph.apply("GATHER", [graph.part(points, 2, 0, 2), eyes], (n, 2, 2), axis=1)
    row = graph.join([around, graph.reshape(ends, (n, 4))], 1)
    return box_tracks(graph, row, there, place_matrix(0, 1, COLUMNS, 0.0), MARGIN)


def blendshapes_of(graph: AnswerGraph, network: bytes, points: int) -> int:
    """The blendshapes (n, 52) of landmarks (n, 478, 3) in pixels."""
    n, chosen = graph.shape(points)[0], len(BLENDSHAPE_POINTS)
    numbers = graph.integers(*BLENDSHAPE_POINTS.tolist())
    read = graph.apply("GATHER", [graph.part(points, 2, 0, 2), numbers], (n, chosen, 2), axis=1)
    found = [graph.network(network, [each])[0] for each in graph.parts(read, 0)]
    return graph.join([graph.reshape(each, (1, BLENDSHAPES)) for each in found], 0)
