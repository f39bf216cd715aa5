"""Draws the skeleton of one person, or of a hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..network import Sampling
from ..task import Finder, Fit, Match, Model, Run, VideoTask, picture_of
from ..vision.captions import draw_notice
from ..vision.one_euro import OneEuro
from ..vision.regions import Region, disagreement, hand_region, pose_region, to_picture, upper_body, whole
from ..vision.ssd import sigmoid

Array = npt.NDArray[Any]

THRESHOLD = 0.5
"""Least probability of a person or a hand, and of a point that is drawn."""
MIN_CUTOFF, BETA = 0.05, 80.0
"""Parameters of the One-Euro filter: least cutoff in Hz, and Hz more for a speed of one region per second. They are
those of MediaPipe's pose_landmark_filtering.
"""
LEFT, RIGHT, MIDDLE = (1.0, 0.55, 0.1), (0.1, 0.75, 1.0), (1.0, 1.0, 1.0)
"""Colours of a body's left side, its right side, and of the lines that join them."""


@dataclass(frozen=True)
class Kind:
    """A known landmark model: its subject, the layout of its first output, and the skeleton."""

    name: str
    points: int
    numbers: int
    """Values per point: x and y in pixels of the model's input, depth; of five, the fourth is visibility (a logit)."""
    shown: int
    """Number of points, from the first on, that belong to the skeleton."""
    starts: Sequence[Callable[[tuple[int, int]], Region]]
    """Regions to search while no person is known, from the picture's size (width, height)."""
    region: Callable[[Array], Region]
    """Region of the next search, from the points."""
    bones: Sequence[Sequence[int]]
    """Chains of points that are joined by lines."""


POSE = Kind(
    "person", 39, 5, 33, (whole, upper_body), pose_region,
    [
        (8, 6, 5, 4, 0, 1, 2, 3, 7), (9, 10), (11, 12, 24, 23, 11), (11, 13, 15, 17, 19, 15, 21),
        (12, 14, 16, 18, 20, 16, 22), (23, 25, 27, 29, 31, 27), (24, 26, 28, 30, 32, 28),
    ],
)  # fmt: skip
"""pose_landmark_lite: 0 to 10 are the face, 11 to 22 the arms, 23 to 32 the legs; odd ones are left (of the person)."""
HAND = Kind(
    "hand", 21, 3, 21, (whole,), hand_region,
    [(0, 1, 2, 3, 4), (0, 5, 6, 7, 8), (5, 9, 10, 11, 12), (9, 13, 14, 15, 16), (13, 17, 18, 19, 20), (0, 17)],
)  # fmt: skip
"""hand_landmark_lite: the wrist, then four for each finger from the thumb on."""


@dataclass
class Skeleton:
    """Points (n, 2) in pixels of the picture, the probability (n) that each is visible, and the next region."""

    points: Array
    seen: Array
    region: Region
    score: float = 1.0
    """Probability of the person or the hand."""


def finder(model: Model, size: tuple[int, int]) -> Finder:
    """Follow a person or a hand: the model runs on the region that the last frame gave.

    If there was none, it runs on each of ``Kind.starts``, and the better result counts. Raises ModelError for an
    unknown model.
    """
    follower = Follower(model, size)

    def find(run: Run) -> list[dict[str, Any]]:
        def look(region: Region) -> tuple[Array, float]:
            outputs = run(Sampling(0.0, 1.0, region.crop, region.rotation))
            return outputs[0], float(outputs[1].ravel()[0])  # the others are large, and not looked at

        follower.follow(look)
        return follower.rows()

    return Finder(find, lambda marks: draw_skeleton(marks, follower.last, follower.kind, size))


class Follower:
    """Follows a person or a hand from frame to frame: ``last`` is the skeleton in the last one, or None."""

    def __init__(self, model: Model, size: tuple[int, int]) -> None:
        """``size`` is the frames' (width, height). Raises ModelError for a model that is not known here."""
        self.kind, self._size = _kind(model), size
        picture = picture_of(model)
        assert picture is not None, "the kind was found"
        self._side = picture.height
        self._smooth = OneEuro(MIN_CUTOFF, BETA)
        self.last: Skeleton | None = None

    def follow(self, look: Callable[[Region], tuple[Array, float]]) -> None:
        """Find the skeleton in a frame. ``look`` runs the model on a region: points, and how probable they are."""
        if self.last is None:
            self._smooth, self.last = OneEuro(MIN_CUTOFF, BETA), self._find(look)
        else:
            self.last = self._decode(look, self.last.region)
        if self.last is not None:
            self._smooth.beta = BETA / self.last.region.crop[2]
            self.last.points = self._smooth(self.last.points)
            self.last.region = self.kind.region(self.last.points)

    def rows(self) -> list[dict[str, Any]]:
        """The skeleton as values for JSON."""
        if self.last is None:
            return []
        shown = slice(self.kind.shown)
        points, seen = self.last.points[shown].astype(float), self.last.seen[shown].astype(float)
        row = {"class": self.kind.name, "score": round(self.last.score, 4), "points": points.round(2).tolist()}
        return [{**row, "point_scores": seen.round(4).tolist()}]

    def _find(self, look: Callable[[Region], tuple[Array, float]]) -> Skeleton | None:
        starts = [start(self._size) for start in self.kind.starts]
        found = [(start, skeleton) for start in starts if (skeleton := self._decode(look, start))]
        return min(found, key=lambda each: disagreement(each[0], each[1].region))[1] if found else None

    def _decode(self, look: Callable[[Region], tuple[Array, float]], region: Region) -> Skeleton | None:
        values, sure = look(region)
        if sure < THRESHOLD:
            return None
        return replace(decode(values, self.kind, self._side, region), score=sure)


def decode(values: Array, kind: Kind, side: int, region: Region) -> Skeleton:
    """The skeleton in a model's first output (points * numbers).

    The output is in pixels of the model's input, a square of ``side`` that shows ``region`` of the picture.
    """
    rows = values.reshape(kind.points, kind.numbers)
    points = to_picture(rows[:, :2] / side, region)
    seen = sigmoid(rows[:, 3]) if kind.numbers > 3 else np.ones(kind.points, np.float32)
    return Skeleton(points, seen, kind.region(points))


def draw_skeleton(marks: fb.video.Marks, skeleton: Skeleton | None, kind: Kind, size: tuple[int, int]) -> None:
    """Draw the bones and points that are visible, or say that no person was found.

    A body's left side has one colour, its right side another.
    """
    if skeleton is None:
        draw_notice(marks, f"no {kind.name} found", size)
        return
    thick = max(min(size) / 160, 2.0)
    shown = skeleton.seen >= THRESHOLD
    places = [(float(x), float(y)) for x, y in skeleton.points]
    for chain in kind.bones:
        for start, end in pairwise(chain):
            if shown[start] and shown[end]:
                color = _color(kind, end)
                across = color != _color(kind, start)
                marks.line(*places[start], *places[end], MIDDLE if across else color, thick)
    for number in range(kind.shown):
        if shown[number]:
            marks.point(*places[number], _color(kind, number), 2.5 * thick)


def _color(kind: Kind, number: int) -> tuple[float, float, float]:
    if kind is HAND or number == 0:
        return MIDDLE if number == 0 else LEFT
    # In the face, 1 to 3 are the left eye and 4 to 6 the right one.
    return LEFT if number in (1, 2, 3) or (number > 6 and number % 2) else RIGHT


def fits(model: Model) -> Fit | None:
    """Whether the model is a known one of landmarks."""
    kind = _known(model)
    return None if kind is None else Fit(Match.OUTPUTS, f"its first outputs are a {kind.name}'s points")


def _known(model: Model) -> Kind | None:
    sizes = [math.prod(shape) for shape in model.outputs.values()]
    if picture_of(model) is None:
        return None
    return next((kind for kind in (POSE, HAND) if sizes[:2] == [kind.points * kind.numbers, 1]), None)


def _kind(model: Model) -> Kind:
    if (kind := _known(model)) is not None:
        return kind
    sizes = [math.prod(shape) for shape in model.outputs.values()]
    raise fb.ModelError(
        f"{model.path.name} is no landmark model that is known here: its first outputs have {sizes[:2]} numbers, not "
        "195 and 1 (pose_landmark_lite) nor 63 and 1 (hand_landmark_lite)"
    )


TASK = VideoTask("pose_landmark_lite", finder, fits=fits)
