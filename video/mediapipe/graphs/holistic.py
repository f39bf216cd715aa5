"""The models of a chain of whole persons behind that of the body: where face and hands are, and their landmarks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...answers.graph import AnswerGraph
from ...basic_types import Array, Size
from ...embedded_network import input_side
from ..calculators.anchors import anchor_middles
from ..calculators.recrops import FACE, FACE_POINTS, HAND, LEFT_EYE, RIGHT_EYE, Requirements
from . import face, hand, pose
from .detections import LEAST, best_detections, decoding
from .landmarks import bounds, project, turned_world
from .tracks import COLUMNS, box_tracks, circle_tracks, place_matrix, regions, turned_line

HANDS = (15, 17, 19), (16, 18, 20)
"""A person's landmarks of the left hand and of the right one: wrist, little finger, index finger."""
MOST = 1e30
"""No limit of a coordinate."""
LEAST_VISIBILITY = 0.1
"""The visibility of a wrist below which its hand is not looked for."""
BODY = pose.VALUES * pose.COUNT + 1
"""Numbers of a row before the face: the landmarks of the body, and the probability of a person."""
FACE_NUMBERS = 3 * face.COUNT + 1
"""Numbers of a face: its landmarks, and its probability, or 0 if it is not there."""
HAND_NUMBERS = 6 * hand.COUNT + 3
"""Numbers of a hand, as in the rows of hands."""


@dataclass(frozen=True)
class PartSettings:
    """The options of faces and hands: see ``HolisticLandmarkerOptions``."""

    face_confidence: float = 0.5
    face_suppression: float = 0.3
    face_presence: float = 0.5
    hand_presence: float = 0.5
    follows: bool = True
    """Whether the regions of the frame before are looked at again while they hold."""
    has_blendshapes: bool = False

    @property
    def columns(self) -> int:
        """Numbers of a row."""
        return BODY + FACE_NUMBERS + 2 * HAND_NUMBERS + face.BLENDSHAPES * self.has_blendshapes + 1


def naming(size: Size, face_side: int, hand_side: int) -> pose.Further:
    """The further outputs of the body's model: the region of the face, as a detector with an input of ``face_side``
    sees it, and those of the left and the right hand, for a network of ``hand_side``.
    """

    def further(graph: AnswerGraph, points: int, there: int) -> list[int]:
        flat = graph.reshape(points, (1, pose.COUNT * pose.VALUES))
        return [
            regions(graph, _named_face(graph, points, flat, there), size, face_side),
            regions(graph, _named_hands(graph, flat, there), size, hand_side),
        ]

    return further


def _named_face(graph: AnswerGraph, points: int, flat: int, there: int) -> int:
    """The track (1, 8) of the face of a body (1, 33, 8), as ``face_rectangle_of_pose``."""
    places = graph.part(graph.part(points, 1, 0, FACE_POINTS), 2, 0, 2)
    eyes = graph.linear(flat, _chosen(RIGHT_EYE, LEFT_EYE))
    row = graph.join([_bounds(graph, places), eyes], 1)
    return box_tracks(graph, row, there, place_matrix(0, 1, COLUMNS, 0.0), 3.0)


def _named_hands(graph: AnswerGraph, flat: int, there: int) -> int:
    """The tracks (2, 8) of the hands of a body, as ``hand_rectangle_of_pose``; what is there has a visible wrist."""
    rows = graph.reshape(graph.linear(flat, _chosen(*HANDS[0], *HANDS[1])), (2, 6))
    middle = np.vstack([np.zeros((2, 2)), np.eye(2) / 3, np.eye(2) * 2 / 3])  # of wrist, little and index finger
    wrist = np.eye(6, 2)
    visible = np.zeros((pose.COUNT, pose.VALUES, 2))
    for number, (point, *_) in enumerate(HANDS):
        visible[point, 3, number] = 1
    seen = graph.linear(flat, visible.reshape(-1, 2))
    seen = graph.binary("MUL", graph.binary("GREATER", seen, LEAST_VISIBILITY), there)
    matrix = np.hstack([middle, (middle - wrist) @ turned_line(pose.UP)])
    return circle_tracks(graph, rows, graph.reshape(seen, (2, 1)), _moved_down(matrix, -0.1), 2.7)


def _chosen(*landmarks: int) -> Array:
    """The matrix that takes x and y of some landmarks of a body (1, 33 * 8)."""
    matrix = np.zeros((pose.COUNT, pose.VALUES, 2 * len(landmarks)))
    for number, landmark in enumerate(landmarks):
        matrix[landmark, [0, 1], [2 * number, 2 * number + 1]] = 1
    return matrix.reshape(-1, 2 * len(landmarks))


def _moved_down(matrix: Array, share: float) -> Array:
    """A matrix for ``circle_tracks`` whose circles are moved down by a share of their diameter, as they are turned."""
    moved = matrix.copy()
    moved[:, 0] -= 2 * share * matrix[:, 3]
    moved[:, 1] += 2 * share * matrix[:, 2]
    return moved


def _bounds(graph: AnswerGraph, points: int) -> int:
    """The ``bounds`` of landmarks as ``landmark_rectangle`` has them: not less than 0 to the right and below."""
    limit = graph.constant(np.array([MOST, MOST, 0, 0], np.float32))
    return graph.binary("MINIMUM", bounds(graph, points), limit)


def finding(detector: bytes, recrop: bytes, size: Size, sides: tuple[int, int], settings: PartSettings) -> bytes:
    """The model of the first part: from the named regions to those in which the landmarks' networks look, (1, 8) of the
    face and (2, 8) of the hands. ``sides`` are those of these networks.

    It takes the face's picture and the hands', their regions and, if they are followed, the rows of the frame before.
    """
    graph, side, hand_side = AnswerGraph(), input_side(detector), input_side(recrop)
    sight, hands = graph.input((1, side, side, 3)), graph.input((2, hand_side, hand_side, 3))
    placed, placed_hands = graph.input((1, COLUMNS)), graph.input((2, COLUMNS))
    found = [
        _found_face(graph, graph.network(detector, [sight])[:2], placed, side, settings),
        _found_hands(graph, graph.network(recrop, [hands], 2)[0], placed_hands, hand_side),
    ]
    if settings.follows:
        rows = graph.input((1, settings.columns))
        found = [_followed_face(graph, rows, found[0]), _followed_hands(graph, rows, found[1])]
    kinds = zip(found, sides, (face.FACE.turns_depths, hand.PALM.turns_depths), strict=True)
    return graph.build(*(regions(graph, each, size, side, turns_depths=turns) for each, side, turns in kinds))


def _found_face(graph: AnswerGraph, outputs: list[int], placed: int, side: int, settings: PartSettings) -> int:
    """The track (1, 8) of the best face in a region, as ``face_rectangle_of_detection``."""
    columns = 4 + 2 * face.FACE.points
    decoded = decoding(anchor_middles(side, face.FACE.strides), columns, side, np.eye(2, 3) * side)
    places, there = best_detections(
        graph, (outputs[0], outputs[1]), decoded, settings.face_confidence, settings.face_suppression, 1
    )
    points = np.zeros((columns, face.FACE.points, 3))
    points[range(4, columns), np.arange(columns - 4) // 2, np.arange(columns - 4) % 2] = 1
    rows = graph.reshape(graph.linear(places, points.reshape(columns, -1)), (1, face.FACE.points, 3))
    points_of_face = graph.part(project(graph, rows, placed, side), 2, 0, 2)
    eyes = graph.reshape(graph.part(points_of_face, 1, 0, 2), (1, 4))
    row = graph.join([bounds(graph, points_of_face), eyes], 1)
    there = graph.binary("MUL", there, graph.part(placed, 1, 3, 4))
    return box_tracks(graph, row, there, place_matrix(0, 1, COLUMNS, 0.0), 2.0)


def _found_hands(graph: AnswerGraph, ends: int, placed: int, side: int) -> int:
    """The tracks (2, 8) of hands that a network found, as ``HandRecrop``: two points in pixels of its input."""
    spread = np.kron(np.eye(2), np.eye(2, 3))
    points = project(graph, graph.reshape(graph.linear(graph.reshape(ends, (2, 4)), spread), (2, 2, 3)), placed, side)
    line = turned_line(-math.pi / 2)
    matrix = np.hstack([np.eye(6, 2), np.vstack([-line, np.zeros((1, 2)), line, np.zeros((1, 2))])])
    return circle_tracks(
        graph, graph.reshape(points, (2, 6)), graph.part(placed, 1, 3, 4), _moved_down(matrix, -0.1), 1.0
    )


def _followed_face(graph: AnswerGraph, rows: int, named: int) -> int:
    """The track (1, 8) of a face: around the landmarks of the frame before, if these hold, or the ``named`` one."""
    first, count = BODY, 3 * face.COUNT
    points = graph.part(graph.reshape(graph.part(rows, 1, first, first + count), (1, face.COUNT, 3)), 2, 0, 2)
    there = graph.binary("GREATER", graph.part(rows, 1, first + count, first + count + 1), 0.0)
    ends = graph.apply("GATHER", [points, graph.integers(*face.EYES)], (1, 2, 2), axis=1)
    row = graph.join([_bounds(graph, points), graph.reshape(ends, (1, 4))], 1)
    followed = box_tracks(graph, row, there, place_matrix(0, 1, COLUMNS, 0.0), face.MARGIN, square=False)
    return held(graph, points, followed, named, FACE)


def _followed_hands(graph: AnswerGraph, rows: int, named: int) -> int:
    """The tracks (2, 8) of hands, as ``_followed_face``."""
    first = BODY + FACE_NUMBERS
    hands = graph.reshape(graph.part(rows, 1, first, first + 2 * HAND_NUMBERS), (2, HAND_NUMBERS))
    points = graph.reshape(graph.part(hands, 1, 0, 3 * hand.COUNT), (2, hand.COUNT, 3))
    followed = hand.next_tracks(graph, points, graph.part(hands, 1, HAND_NUMBERS - 1, HAND_NUMBERS))
    return held(graph, graph.part(points, 2, 0, 2), followed, named, HAND)


def held(graph: AnswerGraph, points: int, followed: int, named: int, most: Requirements) -> int:
    """The tracks ``followed`` (n, 8) that still hold, as ``still_holds``, and ``named`` ones for the others.

    ``points`` (n, count, 2) are the landmarks of the frame before.
    """
    n, count, _ = graph.shape(points)
    middle, sides, line = (graph.part(named, 1, first, first + 2) for first in (0, 2, 4))
    sides = graph.binary("MAXIMUM", sides, LEAST)
    back = graph.linear(line, np.array([[1, 0, 0, 1], [0, -1, 1, 0]]))  # as the named region lies
    places = graph.join([points, graph.reshape(graph.part(followed, 1, 0, 2), (n, 1, 2))], 1)
    apart = graph.binary("SUB", places, graph.reshape(middle, (n, 1, 2)))
    apart = graph.unary("ABS", graph.product(apart, graph.reshape(back, (n, 2, 2))))
    shares = graph.binary("DIV", apart, graph.reshape(sides, (n, 1, 2)))
    limits = np.append(np.full(count, (1 + most.margin) / 2), most.translation).astype(np.float32)
    beyond = graph.binary("SUB", shares, graph.constant(limits[:, None]))
    beyond = graph.reduced("REDUCE_MAX", graph.reshape(beyond, (n, 2 * count + 2)), 1)
    grown = graph.unary("ABS", graph.binary("SUB", graph.part(followed, 1, 2, 4), sides))
    grown = graph.reduced("REDUCE_MAX", graph.binary("SUB", graph.binary("DIV", grown, sides), most.scale), 1)
    turned = graph.reduced("SUM", graph.binary("MUL", graph.part(followed, 1, 4, 6), line), 1)
    turned = graph.binary("SUB", graph.number(math.cos(math.radians(most.degrees))), turned)
    worst = graph.binary("MAXIMUM", graph.binary("MAXIMUM", beyond, grown), turned)
    holds = graph.binary("MUL", graph.binary("GREATER_EQUAL", graph.number(0.0), worst), graph.part(followed, 1, 6, 7))
    is_there = graph.part(named, 1, 6, 7)
    kept = graph.binary("MUL", graph.binary("MUL", followed, holds), is_there)
    return graph.binary("ADD", kept, graph.binary("MUL", named, graph.binary("SUB", graph.number(1.0), holds)))


def looking(
    landmarks: bytes, hands: bytes, blendshapes: bytes | None, sides: tuple[int, int], settings: PartSettings
) -> bytes:
    """The model of the second part. It takes the face's picture and the hands', their regions and the body's row.

    A row is that of the body without its last number; the face's landmarks in pixels (1,434) and its probability, or 0;
    the rows of the left and the right hand, whose metres are from the body's middle; the face's blendshapes (52) if
    their network is given; and the last number of the body, 1 or 0.
    """
    graph, (side, hand_side) = AnswerGraph(), sides
    sight, hand_sights = graph.input((1, side, side, 3)), graph.input((2, hand_side, hand_side, 3))
    placed, placed_hands, body = graph.input((1, COLUMNS)), graph.input((2, COLUMNS)), graph.input((1, BODY + 1))
    values, logits, *_ = graph.network(landmarks, [sight])
    points = project(graph, graph.reshape(values, (1, face.COUNT, 3)), placed, side)
    likely = graph.unary("LOGISTIC", graph.reshape(logits, (1, 1)))
    there = graph.binary("MUL", graph.binary("GREATER", likely, settings.face_presence), graph.part(placed, 1, 3, 4))
    shown = _hand_rows(graph, graph.network(hands, [hand_sights], 2), placed_hands, body, hand_side, settings)
    sure = graph.binary("MUL", there, likely)
    row = [graph.part(body, 1, 0, BODY), graph.reshape(points, (1, 3 * face.COUNT)), sure, shown]
    row += [] if blendshapes is None else [face.blendshapes_of(graph, blendshapes, points)]
    return graph.build(graph.join([*row, graph.part(body, 1, BODY, BODY + 1)], 1))


def _hand_rows(
    graph: AnswerGraph, outputs: list[int], placed: int, body: int, side: int, settings: PartSettings
) -> int:
    """The numbers (1, 2 * 129) of both hands."""
    values, presence, right, world = outputs[:4]
    points = project(graph, graph.reshape(values, (2, hand.COUNT, 3)), placed, side, hand.DEPTH)
    metres = turned_world(graph, graph.reshape(world, (2, hand.COUNT, 3)), placed)
    wrists = np.zeros((BODY + 1, 2, 3))
    for number, (point, *_) in enumerate(HANDS):
        first = point * pose.VALUES + pose.METRES
        wrists[range(first, first + 3), number, range(3)] = 1
    wrist = graph.reshape(graph.linear(body, wrists.reshape(BODY + 1, 6)), (2, 1, 3))
    moved = graph.binary("SUB", wrist, graph.part(metres, 1, 0, 1))
    metres = graph.binary("ADD", metres, moved)
    there = graph.binary("MUL", graph.binary("GREATER", presence, settings.hand_presence), graph.part(placed, 1, 3, 4))
    parts = [graph.reshape(each, (2, 3 * hand.COUNT)) for each in (points, metres)]
    return graph.reshape(graph.join([*parts, right, presence, there], 1), (1, 2 * HAND_NUMBERS))
