"""Heads: the arithmetic that turns a detector's outputs into boxes, and what a file of heads/ declares.

A head is one file ``video/heads/NAME.py`` with an object ``HEAD``, found by its folder. It says which models it knows,
and makes the decoder of one. Tasks take the head that knows a model best, so that a new detector is one new file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from .answers.selection import Columns, Selection
from .basic_types import Array
from .layouts import PictureShape
from .model_metadata import MOST_CLASSES
from .network_outputs import candidates_of
from .sampling import Crop, Sampling, Values
from .task import Fit, Model, picture_of, sampling_of
from .vision import ssd
from .vision.boxes import CANDIDATES, best_boxes, decode_boxes
from .vision.framing import fitted


class Found(NamedTuple):
    """The objects in one picture, the likeliest first. Places are parts of the model's picture: x and y from 0 to 1."""

    boxes: Array
    """(n, 4) float32: left, top, right, bottom."""
    classes: Array
    """(n,) int: the number of each object's class."""
    scores: Array
    """(n,) float32, from 0 to 1."""
    points: Array | None = None
    """(n, points, 2): x and y of each object's points; None if it has none."""
    point_scores: Array | None = None
    """(n, points): how visible each point is, from 0 to 1; None if the model does not say."""
    coefficients: Array | None = None
    """(n, prototypes): the weights of the prototypes in each object's mask; None if it has none."""
    corners: Array | None = None
    """(n, 4, 2): x and y of the corners of boxes with an angle, in order; None if the boxes are upright."""


@dataclass(frozen=True)
class Decoder:
    """The arithmetic for one model."""

    decode: Callable[[Sequence[Array], float], Found]
    """Finds the objects in a model's outputs (float32, in the model's order) whose score is the given one or more."""
    classes: int | None
    """The number of classes; None if the outputs do not have it."""
    least: float
    """Least score of an object, from 0 to 1, unless the user gives another."""
    framing: Literal["letterboxed", "stretched"]
    """The way pictures became the model's input in training: whole with its proportions, or stretched."""
    usual: tuple[Values, Values] = (0.0, 1.0)
    """Mean and standard deviation of the picture's values, if neither the user nor the model's file names them."""
    names: Sequence[str] = ()
    """The names of the classes, if the model's kind has them and neither the user nor the file names them."""
    prototypes: tuple[int, PictureShape] | None = None
    """The number and the sizes of the output with the prototypes of masks; None if there are none."""
    takes_one: bool = False
    """True if an object's mask is one of the prototypes: of its coefficients one is 1."""
    pad: float | None = None
    """The texel around a letterboxed picture in training, from 0 to 1; None repeats the pixels of its edge."""

    def crop(self, model: Model, size: tuple[int, int]) -> Crop:
        """The part (x, y, width, height) of a picture of ``size`` (width, height) that the model sees.

        A letterboxed one is larger than the picture: what is beyond has the texel ``pad``.
        """
        picture = picture_of(model)
        assert picture is not None, "heads take models of one picture"
        whole = (0.0, 0.0, float(size[0]), float(size[1]))
        return fitted(size, picture.size) if self.framing == "letterboxed" else whole

    def sampling(self, model: Model, crop: Crop, mean: Values | None = None, std: Values | None = None) -> Sampling:
        """The sampling of that part, normalized as the user says, or the model's file, or else as is usual."""
        return sampling_of(model, mean, std, usual=self.usual, crop=crop)._replace(pad=self.pad)


@dataclass(frozen=True)
class Head:
    """A kind of outputs, without state."""

    task: str
    """Name of the task that shows what is found."""
    fits: Callable[[Model], Fit | None]
    """Says whether a model has such outputs, from its file alone; None if it does not. The model has one picture."""
    decoder: Callable[[Model], Decoder]
    """Makes the arithmetic for a model that ``fits``."""


def decode_anchors(
    outputs: tuple[int, int, int], anchors: Array, *, first: int, overlap: float, coding: float | Array = 1.0
) -> Callable[[Sequence[Array], float], Found]:
    """Make ``Decoder.decode`` for a box and scores at each of these anchors, rows as in vision/ssd.py.

    ``outputs`` has the number of the output with boxes, that with scores, and the number of classes; ``first`` is the
    first class that is no background. Boxes are multiplied by ``coding`` before ``decode_boxes``. Models put out
    probabilities or logits; the scores of the first frame, which are read for it, say which.
    """
    (places, numbers, classes), probability = outputs, Probability(outputs[1])
    scores = Columns(numbers, first, classes)
    selection = Selection(len(anchors), scores, (Columns(places, 0, 4),), CANDIDATES)

    def decode(given: Sequence[Array], least: float) -> Found:
        found = candidates_of(given, selection, probability.raw(given, least))
        found = found._replace(values=found.values * coding)
        boxes, kept, best = best_boxes(found, anchors, decode_boxes, overlap)
        return Found(boxes, kept + first, probability.of(best))

    return decode


class Probability:
    """The scores in an output: probabilities, or logits. A score below 0 in the first frame is no probability."""

    def __init__(self, output: int) -> None:
        self._output, self._is_logit = output, None

    def raw(self, outputs: Sequence[Array], least: float) -> float:
        """The score in the output that is the probability ``least``."""
        if self._is_logit is None:
            self._is_logit = bool(np.nanmin(outputs[self._output]) < 0)
        return ssd.logit(least) if self._is_logit else least

    def of(self, scores: Array) -> Array:
        """Scores of the output as probabilities."""
        return ssd.sigmoid(scores) if self._is_logit else scores


def sound(found: Found) -> Found:
    """The objects without those of senseless classes or places: a model's outputs may be anything."""
    is_sound = np.isfinite(found.boxes).all(axis=1) & (found.classes >= 0) & (found.classes < MOST_CLASSES)
    for places in (found.points, found.corners):
        if places is not None:
            is_sound &= np.isfinite(places).all(axis=(1, 2))
    if found.point_scores is not None:
        is_sound &= np.isfinite(found.point_scores).all(axis=1)
    if is_sound.all():
        return found
    return found._replace(**{name: each[is_sound] for name, each in found._asdict().items() if each is not None})


def in_pixels(places: Array, crop: Crop) -> Array:
    """Places (n, x and y by turns) in parts of the model's picture, as pixels of the frame: the model saw ``crop``."""
    pairs = places.reshape(len(places), places.shape[1] // 2, 2)
    return (pairs * np.array(crop[2:], np.float32) + np.array(crop[:2], np.float32)).reshape(places.shape)
