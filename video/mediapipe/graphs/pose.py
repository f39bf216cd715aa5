"""The second model of a chain of persons: from regions to landmarks, in the picture and in metres, and next tracks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...answers.graph import AnswerGraph
from ...basic_types import Array, Size
from .detecting import Kind, Settings
from .heat_maps import refine
from .landmarks import ROTATION, projection, rotation_of, smooth
from .masks import mixed, warp
from .tracks import COLUMNS, circle_matrix, circle_tracks, corner_matrix, regions, without_overlapped

COUNT, ALL = 33, 39
VALUES = 8
"""Numbers of a landmark: x, y and z in pixels, visibility and presence, x, y and z in metres."""
SURE, METRES = (3, 4), 5
UP = math.pi / 2
PERSON = Kind(
    strides=(8, 16, 32, 32, 32), points=4, overlap=0.5, line=(0, 1), target=UP, scale=1.25, shift=0.0,
    square=True, later_stays=True, joins_all=True, is_circle=True,
)  # fmt: skip
VISIBILITY_SHARE = 0.1
"""The share of new values in the filter of visibilities."""
UNFILTERED = 1e30
"""A cutoff, in Hz, that lets all through."""
CUTOFFS = [0.05, 0.05, 0.05, 0, UNFILTERED, 0.1, 0.1, 0.1]
BETAS = [80, 80, 80, 0, 0, 40, 40, 40]
"""The filters of the numbers of a landmark; the cutoff of visibilities is another one: see ``_smoothed``."""
STEADY_CUTOFF, STEADY_BETA = 0.01, 10

Further = Callable[[AnswerGraph, int, int], Sequence[int]]
"""Makes further outputs of the landmarks (n, 33, 8) and of what is there (n, 1)."""


class Steady(NamedTuple):
    """The rules of the older solutions and of HolisticLandmarker, for one person: what places the next region is
    filtered too, and the size of a person is that of the circle itself.
    """

    masks: bool
    """Whether a mask keeps some of the one before: see ``smooth_mask``."""


def looking(
    landmarks: bytes, size: Size, side: int, settings: Settings, *, masks: bool, steady: Steady | None = None,
    further: Further | None = None,
) -> tuple[bytes, dict[str, str]]:  # fmt: skip
    """The model ``ChainModels.look`` and its states. Rows are ``VALUES`` numbers of each landmark, the probability of a
    person, and the region's number from 1 on, or 0 if nobody is there.

    Behind the other outputs are those of ``further``, and the masks, if asked for, each (1, height, width, 1). Pictures
    have ``size`` (width, height), and the network's input is a square of ``side``.
    """
    graph, n = AnswerGraph(), settings.count
    pictures = graph.input((n, side, side, 3))
    placed = graph.input((n, COLUMNS))
    values, presence, mask, heat_maps, world = graph.network(landmarks, [pictures], n)[:5]
    points = graph.join([graph.reshape(values, (n, ALL, 5)), graph.reshape(world, (n, ALL, 3))], 2)
    points = _projected(graph, refine(graph, _with_probabilities(graph, points), heat_maps, side), placed, side)
    there = graph.binary("MUL", graph.binary("GREATER", presence, settings.presence), graph.part(placed, 1, 3, 4))
    shown, states, following = points, _States({}, []), list[int]()
    if settings.follows:
        tracks = _next(graph, points, there, PERSON.scale if steady is None else 1.0)
        if settings.is_smooth or steady is not None:
            shown, states = _smoothed(graph, points, there, tracks, settings, steady)
        tracks = tracks if steady is None else _next(graph, shown, there, PERSON.scale)
        following = [tracks, regions(graph, without_overlapped(graph, tracks, settings.overlap), size, side)]
    shown = graph.part(shown, 1, 0, COUNT)
    number = graph.binary("MUL", there, graph.constant(np.arange(1, n + 1, dtype=np.float32)[:, None]))
    made = [graph.join([graph.reshape(shown, (n, VALUES * COUNT)), presence, number], 1), *following]
    made += [] if further is None else further(graph, shown, there)
    if masks:
        sight = graph.binary("MUL", graph.unary("LOGISTIC", mask), graph.reshape(there, (n, 1, 1, 1)))
        warped = [*warp(graph, sight, placed, size, side)]
        mixes = settings.follows and steady is not None and steady.masks
        made += _mixed(graph, warped[0], there, states) if mixes else warped
    return graph.build(*made, *states.after), states.feedback


class _States(NamedTuple):
    """States of a run, which the next one reads."""

    feedback: dict[str, str]
    """The states by name: outputs, and the inputs as which they are read."""
    after: list[int]
    """The outputs, behind all others."""
    was_there: int = -1
    """Whether somebody was there before (n, 1, 1)."""

    def add(self, graph: AnswerGraph, before: int, after: int) -> None:
        """Add a state."""
        self.feedback[graph.name(after)] = graph.name(before)
        self.after.append(after)


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


def _next(graph: AnswerGraph, points: int, there: int, scale: float) -> int:
    """The tracks (n, 8) around the circles of landmarks (n, 35 or more, 8)."""
    circle = graph.reshape(graph.part(points, 1, COUNT, COUNT + 2), (graph.shape(points)[0], 2 * VALUES))
    return circle_tracks(graph, circle, there, circle_matrix(0, VALUES, 2 * VALUES, UP), scale)


def _smoothed(
    graph: AnswerGraph, points: int, there: int, tracks: int, settings: Settings, steady: Steady | None
) -> tuple[int, _States]:
    """The filtered landmarks, (n, 33, 8) as ``PoseFilter``, or (n, 35, 8) as ``HolisticPose``; and the states.

    One filter has a cutoff for each number: that of a visibility gives new values a constant share, and a presence is
    not filtered. ``tracks`` (n, 8) have the persons' sizes.
    """
    shares, cutoffs, betas = _filters(settings, steady)
    count = COUNT if steady is None else COUNT + 2
    n, hertz = graph.shape(points)[0], graph.reshape(graph.input((1, 1, 1, 1)), (1, 1, 1))
    before = graph.input((3 * n, count, VALUES)), graph.input((n, 1, 1))
    cutoff = graph.reshape(graph.linear(hertz, shares.reshape(1, -1), cutoffs.ravel()), (1, *cutoffs.shape))
    pixels = np.arange(VALUES) < 3
    sides = np.outer((np.arange(COLUMNS) // 2 == 1) / 2, pixels)  # a person's size is the mean of width and height
    scale = graph.reshape(graph.linear(tracks, sides, ~pixels), (n, 1, VALUES))
    shown, made = smooth(
        graph, graph.part(points, 1, 0, count), graph.reshape(there, (n, 1, 1)), scale, hertz, before,
        min_cutoff=cutoff, beta=graph.constant(betas.astype(np.float32)),
    )  # fmt: skip
    states = _States({}, [], before[1])
    for old, new in zip(before, made, strict=True):
        states.add(graph, old, new)
    return shown, states


def _filters(settings: Settings, steady: Steady | None) -> tuple[Array, Array, Array]:
    """The shares of the frequency in cutoffs, the rest of these, and the betas, of each number (1 or 35, 8)."""
    share = VISIBILITY_SHARE / (1 - VISIBILITY_SHARE) / (2 * math.pi)
    shares, cutoffs, betas = share * np.eye(1, VALUES, 3), np.array([CUTOFFS]), np.array([BETAS])
    if steady is None:
        return shares, cutoffs, betas
    if not settings.is_smooth:
        shares, cutoffs, betas = 0 * shares, np.full_like(cutoffs, UNFILTERED), 0 * betas
    places = np.arange(VALUES) < 2
    steps = [COUNT, 2]
    shares = np.repeat(np.vstack([shares, np.zeros(VALUES)]), steps, axis=0)
    cutoffs = np.repeat(np.vstack([cutoffs, np.where(places, STEADY_CUTOFF, UNFILTERED)]), steps, axis=0)
    return shares, cutoffs, np.repeat(np.vstack([betas, STEADY_BETA * places]), steps, axis=0)


def _mixed(graph: AnswerGraph, mask: int, there: int, states: _States) -> list[int]:
    """The mask (1, height, width, 1) of one person, which keeps some of the one before."""
    before = graph.input(graph.shape(mask))
    kept = mixed(graph, mask, before, graph.reshape(states.was_there, (1, 1, 1, 1)))
    states.add(graph, before, kept)
    return [graph.binary("MUL", kept, graph.reshape(there, (1, 1, 1, 1)))]
