"""The masks of single objects, made of prototypes (YOLACT, Bolya et al., 2019, section 3.2).

The values of an object's mask are the sum of the prototypes, each times one of the object's coefficients. They are
enlarged bilinearly to the frame; above 0, where the probability is over a half, and inside the box is the object.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..answers.prototypes import PrototypeSums
from ..basic_types import Array
from ..sampling import Crop


class Part(NamedTuple):
    """A part of the frame that holds an object, in whole pixels."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def slices(self) -> tuple[slice, slice]:
        """The part of an array (height, width)."""
        return slice(self.top, self.bottom), slice(self.left, self.right)


class Instance(NamedTuple):
    """An object's mask: True or False for each pixel of ``part``; outside it there is nothing of the object."""

    part: Part
    mask: npt.NDArray[np.bool_]


def part_of(box: Array, size: tuple[int, int]) -> Part:
    """The pixels in a box (left, top, right, bottom) and in the frame of ``size``: from left on, before right."""
    limits = np.array([*size, *size])
    return Part(*(math.ceil(value) for value in np.clip(box.astype(float), 0, limits)))


def instances(
    outputs: Sequence[Array], coefficients: Array, sums: PrototypeSums, parts: Sequence[Part], crop: Crop
) -> list[Instance]:
    """The masks of objects in their ``parts`` of the frame, with the coefficients (n, prototypes) of each.

    ``sums`` are those of the prototypes in ``outputs``, which cover ``crop`` (x, y, width, height), in pixels of the
    frame.
    """
    width, height = sums.shape.size
    downs = [bilinear(part.top, part.bottom, crop[1], crop[3], height) for part in parts]
    spans = [_span(down) for down in downs]
    found = list[Instance]()
    for part, down, (first, last), values in zip(
        parts, downs, spans, sums.of(outputs, coefficients, spans), strict=True
    ):
        across = bilinear(part.left, part.right, crop[0], crop[2], width)
        found.append(Instance(part, down[:, first:last] @ values @ across.T > 0))
    return found


def _span(weights: Array) -> tuple[int, int]:
    """The first and the last row, which does not count, of cells that have weight in pixels (pixels, cells)."""
    used = np.flatnonzero(weights.any(axis=0))
    return (int(used[0]), int(used[-1]) + 1) if used.size else (0, 0)


def bilinear(first: int, last: int, start: float, length: float, cells: int) -> Array:
    """The weights (last - first, cells) of cells in pixels: cells cover ``length`` pixels from ``start`` on.

    Values are at the middles of cells and pixels; before the first and behind the last middle they stay as they are.
    """
    places = np.clip((np.arange(first, last) + 0.5 - start) / length * cells - 0.5, 0, cells - 1)
    return np.maximum(1 - np.abs(places[:, None] - np.arange(cells)), 0).astype(np.float32)


def classes_of(instances: list[Instance], numbers: list[int], size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """The classes (height, width) of a frame of ``size``: 0 is nothing, and 1 class 0, up to 255.

    If objects overlap, the first one, which is the likeliest, is seen.
    """
    picture = np.zeros(size[::-1], np.uint8)
    for (part, mask), number in zip(reversed(instances), reversed(numbers), strict=True):
        picture[part.slices][mask] = min(number + 1, 255)
    return picture
