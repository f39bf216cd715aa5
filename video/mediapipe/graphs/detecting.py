"""The first model of a chain: a detector of a kind of things, and where to look for them."""

from __future__ import annotations

from dataclasses import dataclass

from ...answers.graph import AnswerGraph
from ...basic_types import Array
from ...embedded_network import input_side
from ..calculators.anchors import anchor_middles
from .detections import best_detections, decoding
from .tracks import (
    COLUMNS,
    Size,
    associate,
    box_tracks,
    circle_matrix,
    circle_tracks,
    place_matrix,
    regions,
)

MOST_FOUND = 16
"""The most things that are found, if all are joined."""


@dataclass(frozen=True)
class Kind:
    """The detector of a kind of things, and the rules that make regions of its boxes."""

    strides: tuple[int, ...]
    points: int
    """Key points of a box."""
    overlap: float
    """The overlap above which two boxes are one thing."""
    line: tuple[int, int]
    """The key points whose line has the angle ``target`` in a region."""
    target: float
    scale: float
    """A region's sides in sides of the box."""
    shift: float
    """The shift of a region down, in heights of the box."""
    square: bool
    later_stays: bool
    """Whether of two things that overlap the later one stays: see ``associate``."""
    found_first: bool = False
    """Whether what is found comes before what is followed, and not behind it."""
    joins_all: bool = False
    """Whether all that is found is joined with what is followed, and not only the best, as many as are looked for."""
    turns_depths: bool = False
    """Whether depths scale with the width of the turned region: see ``regions``."""
    is_circle: bool = False
    """Whether a region is around the circle with the line from its middle to a point on it, not around the box."""


@dataclass(frozen=True)
class Settings:
    """A task's options."""

    count: int = 1
    confidence: float = 0.5
    presence: float = 0.5
    overlap: float = 0.5
    is_smooth: bool = False
    follows: bool = True
    """Whether what was seen in the last frame is looked at again."""


def detecting(detector: bytes, kind: Kind, matrix: Array, size: Size, side: int, settings: Settings) -> bytes:
    """The model ``ChainModels.detect``. ``matrix`` (2, 3) takes the detector's input to pixels of the picture, and
    ``side`` is that of the network that looks.
    """
    graph, columns, own = AnswerGraph(), 4 + 2 * kind.points, input_side(detector)
    boxes, logits = graph.network(detector, [graph.input((1, own, own, 3))])[:2]
    decoded = decoding(anchor_middles(own, kind.strides), columns, own, matrix)
    count = max(settings.count, MOST_FOUND) if settings.follows and kind.joins_all else settings.count
    places, there = best_detections(graph, (boxes, logits), decoded, settings.confidence, kind.overlap, count)
    if kind.is_circle:
        line = circle_matrix(4 + 2 * kind.line[0], 4 + 2 * kind.line[1], columns, kind.target)
        found = circle_tracks(graph, places, there, line, kind.scale)
    else:
        line = place_matrix(*kind.line, columns, kind.target)
        found = box_tracks(graph, places, there, line, kind.scale, shift=kind.shift, square=kind.square)
    if settings.follows:
        previous = graph.input((settings.count, COLUMNS))
        rule = {"later_stays": kind.later_stays, "found_first": kind.found_first}
        found = associate(graph, previous, found, settings.overlap, **rule)
    return graph.build(regions(graph, found, size, side, turns_depths=kind.turns_depths))
