"""The candidates in YOLO's outputs: a row of a box, scores and further values for each cell of the input.

Boxes are decoded inside the model: centre x, centre y, width, height (Jocher et al., "YOLOv5", 2020, and "Ultralytics
YOLO", 2023). In some exports they are in pixels of the input, in others from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..answers.selection import Candidates, Columns, Selection
from ..basic_types import Array
from ..layouts import PictureShape
from ..network_outputs import candidates_of
from .boxes import corners
from .non_max_suppression import suppress

STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32))
"""Pixels of the input between two cells of each layer: of usual models, of "p6" and of "p2"."""
GREY = 114 / 255
"""The texel around a picture that keeps its proportions: ultralytics' class LetterBox."""
OVERLAP, MOST = 0.7, 300
"""Largest overlap of two boxes of one class, and the most boxes: ultralytics' ``predict`` has these."""
MOST_ROWS = 1000
"""The most boxes of a model that selects them: usual are 300."""
LARGEST_PART = 2.0
"""Coordinates above are no parts of the picture, but pixels."""


class Objects(NamedTuple):
    """The objects of a picture, the likeliest first."""

    boxes: Array
    """(n, 4): left, top, right, bottom as parts of the input, from 0 to 1."""
    classes: npt.NDArray[np.int64]
    scores: Array
    further: Array
    """(n, values): what follows the scores, or the class, in a row."""
    is_pixels: bool
    """True if the model's coordinates are pixels of the input."""


class Rows(NamedTuple):
    """The place of rows, one for each candidate, in a model's outputs."""

    number: int
    """The number of the output."""
    candidates: int
    values: int
    """Values of a row."""
    is_last: bool
    """True if the candidates are the last axis (1, values, candidates), False for (1, candidates, values)."""
    is_selected: bool = False
    """True if the model selected these rows: corners of a box, score, class and further values."""

    def of(self, outputs: Sequence[Array]) -> Array:
        """The rows (candidates, values), without a copy."""
        values = outputs[self.number].reshape(self.values, self.candidates) if self.is_last else outputs[self.number]
        return values.T if self.is_last else values.reshape(self.candidates, self.values)

    def columns(self, first: int, last: int) -> Columns:
        """Some columns of the rows."""
        return Columns(self.number, first, last, self.is_last)

    def selection(self, further: int) -> Selection:
        """The selection of candidates whose rows are a box, the scores of classes and so many further values."""
        end = self.values - further
        values = (self.columns(0, 4), *([self.columns(end, self.values)] if further else []))
        return Selection(self.candidates, self.columns(4, end), values)


def find_rows(shapes: Sequence[tuple[int, ...]], picture: PictureShape, anchors: int) -> list[Rows]:
    """The outputs of three axes with ``anchors`` rows for each cell of the input, in their order."""
    counts = {anchors * cells for cells in cell_counts(picture)}
    found = list[Rows]()
    for number, shape in enumerate(shapes):
        # Even a small input has more cells than there are values.
        if len(shape) == 3 and shape[0] == 1 and max(shape) in counts:
            found.append(Rows(number, max(shape), min(shape[1:]), shape[2] == max(shape)))
    return found


def find_selected(shapes: Sequence[tuple[int, ...]], values: int) -> Rows | None:
    """The first output of up to MOST_ROWS rows of so many values, which the model selected."""
    for number, shape in enumerate(shapes):
        if len(shape) == 3 and shape[0] == 1 and shape[1] <= MOST_ROWS and shape[2] == values:
            return Rows(number, shape[1], values, is_last=False, is_selected=True)
    return None


def cell_counts(picture: PictureShape) -> list[int]:
    """The numbers of cells that models of this input may have: 8400 for 640x640, for instance."""
    return [sum(-(-picture.height // s) * -(-picture.width // s) for s in strides) for strides in STRIDES]


def to_parts(boxes: Array, picture: PictureShape, *, is_pixels: bool) -> Array:
    """Rows of x and y by turns in the model's units, as parts of its input, from 0 to 1."""
    sizes = np.array(picture.size, np.float32)
    pairs = boxes.reshape(len(boxes), boxes.shape[1] // 2, 2)
    return (pairs / sizes if is_pixels else pairs).reshape(boxes.shape)


def are_pixels(boxes: Array) -> bool:
    """Whether boxes (n, 4) of centres and sizes are in pixels: most of their numbers are then above LARGEST_PART."""
    return 2 * np.count_nonzero(boxes > LARGEST_PART) > boxes.size


def suppressed(found: Candidates, picture: PictureShape, overlap: float = OVERLAP) -> Objects:
    """The objects among candidates, whose values are a box (centre and size) and further ones.

    Of those of one class that overlap by more than ``overlap``, the best is kept.
    """
    boxes, further = found.values[:, :4], found.values[:, 4:]
    is_pixels = are_pixels(boxes)
    places = to_parts(corners(boxes), picture, is_pixels=is_pixels)
    kept = suppress(places, found.scores, found.classes, overlap, MOST)
    return Objects(places[kept], found.classes[kept], found.scores[kept], further[kept], is_pixels)


def selected(rows: Array, picture: PictureShape, least: float) -> Objects:
    """The objects in rows that the model selected, whose score is ``least`` or more."""
    rows = rows[rows[:, 4] >= least]
    rows = rows[np.argsort(-rows[:, 4], kind="stable")]
    is_pixels = bool((rows[:, :4] > LARGEST_PART).any())
    boxes = to_parts(rows[:, :4], picture, is_pixels=is_pixels)
    return Objects(boxes, as_numbers(rows[:, 5]), rows[:, 4], rows[:, 6:], is_pixels)


def objects_in(outputs: Sequence[Array], rows: Rows, further: int, picture: PictureShape, least: float) -> Objects:
    """The objects in the ``rows`` of outputs, each with so many further values, whose score is ``least`` or more."""
    if rows.is_selected:
        return selected(rows.of(outputs), picture, least)
    return suppressed(candidates_of(outputs, rows.selection(further), least), picture)


def as_numbers(classes: Array) -> npt.NDArray[np.int64]:
    """The numbers of classes in floats. What is no number becomes a senseless one."""
    with np.errstate(invalid="ignore"):
        return classes.astype(np.int64)
