"""The candidates in YOLO's outputs: a row of a box, scores and further values for each cell of the input.

Boxes are decoded inside the model: centre x, centre y, width, height (Jocher et al., "YOLOv5", 2020, and "Ultralytics
YOLO", 2023). In some exports they are in pixels of the input, in others from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..layouts import PictureShape

Array = npt.NDArray[Any]

STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32))
"""Pixels of the input between two cells of each layer: of usual models, of "p6" and of "p2"."""
OVERLAP, MOST = 0.7, 300
"""Largest overlap of two boxes of one class, and the most boxes: ultralytics' ``predict`` has these."""
LARGEST_PART = 2.0
"""Coordinates above are no parts of the picture, but pixels."""


class Rows(NamedTuple):
    """The place of rows, one for each candidate, in a model's outputs."""

    number: int
    """The number of the output."""
    candidates: int
    values: int
    """Values of a row."""
    is_last: bool
    """True if the candidates are the last axis (1, values, candidates), False for (1, candidates, values)."""

    def of(self, outputs: Sequence[Array]) -> Array:
        """The rows (candidates, values), without a copy."""
        values = outputs[self.number].reshape(self.values, self.candidates) if self.is_last else outputs[self.number]
        return values.T if self.is_last else values.reshape(self.candidates, self.values)


def find_rows(shapes: Sequence[tuple[int, ...]], picture: PictureShape, anchors: int) -> list[Rows]:
    """The outputs of three axes with ``anchors`` rows for each cell of the input, in their order."""
    counts = {anchors * cells for cells in cell_counts(picture)}
    found = list[Rows]()
    for number, shape in enumerate(shapes):
        if (
            len(shape) == 3 and shape[0] == 1 and max(shape) in counts
        ):  # small inputs have few cells, but more than values
            found.append(Rows(number, max(shape), min(shape[1:]), shape[2] == max(shape)))
    return found


def cell_counts(picture: PictureShape) -> list[int]:
    """The numbers of cells that models of this input may have: 8400 for 640x640, for instance."""
    return [sum(-(-picture.height // s) * -(-picture.width // s) for s in strides) for strides in STRIDES]


def to_parts(boxes: Array, picture: PictureShape, *, is_pixels: bool) -> Array:
    """Rows of x and y by turns in the model's units, as parts of its input, from 0 to 1."""
    sizes = np.array(picture.size, np.float32)
    pairs = boxes.reshape(len(boxes), boxes.shape[1] // 2, 2)
    return (pairs / sizes if is_pixels else pairs).reshape(boxes.shape)


def are_pixels(values: Array) -> bool:
    """Whether coordinates are pixels: most of them are then above LARGEST_PART."""
    return 2 * np.count_nonzero(values > LARGEST_PART) > values.size
