"""Masks painted by the CPU on the planes of decoded frames: people cut out, and classes in colour.

The same pictures are drawn on textures by ``effects.py`` and ``tasks/segment.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..basic_types import Array
from .joint_bilateral import Enlarger, extremes
from .masks import NOBODY, OPACITY, PERSON_FROM
from .palette import Color


class MaskPainter:
    """Paints masks on the frames of one video, on one thread."""

    def __init__(self) -> None:
        self._enlarger: Enlarger | None = None

    def cut_out(self, mask: Array, color: Color, planes: fb.video.Planes) -> None:
        """Paint a colour behind people: ``mask`` (height, width), from 0 to 1, says where they are."""
        enlarger = self._enlarger_of(mask, planes)
        lowest, highest = extremes(mask)
        coverage = enlarger.nearest(255 * (highest <= NOBODY).astype(np.uint8))
        is_edge = (lowest < PERSON_FROM) & (highest > NOBODY)
        for pixels, (means,) in enlarger.along_edges(planes, mask[None], is_edge):
            person = np.clip((means - NOBODY) / (PERSON_FROM - NOBODY), 0, 1)
            _put(coverage, pixels, 1 - person * person * (3 - 2 * person))  # GLSL's smoothstep
        planes.cover(coverage, color)

    def color_classes(self, numbers: Array, colors: Sequence[Color], planes: fb.video.Planes) -> None:
        """Mix into each pixel the colour of its class, but for class 0: ``numbers`` (height, width) are the classes."""
        present = [int(number) for number in np.flatnonzero(np.bincount(numbers.ravel())) if number]
        if not present:
            return
        enlarger = self._enlarger_of(numbers, planes)
        lowest, highest = extremes(numbers.astype(np.uint8))
        shares = OPACITY * np.stack([numbers == number for number in present]).astype(np.float32)
        coverages = [enlarger.nearest(np.rint(255 * share).astype(np.uint8)) for share in shares]
        for pixels, means in enlarger.along_edges(planes, shares, lowest < highest):
            # One colour is painted after the other: each takes its share of what those after it will leave.
            left = np.float32(1)
            for coverage, mean in zip(reversed(coverages), means[::-1], strict=True):
                _put(coverage, pixels, mean / left)
                left = left - mean
        for number, coverage in zip(present, coverages, strict=True):
            planes.cover(coverage, colors[number])

    def _enlarger_of(self, mask: Array, planes: fb.video.Planes) -> Enlarger:
        """The enlarger for the sizes of a video's masks and frames, which stay the same."""
        if self._enlarger is None:
            (height, width), (rows, columns) = mask.shape, planes.planes[0].shape
            self._enlarger = Enlarger((height, width), (rows, columns))
        return self._enlarger


def _put(coverage: npt.NDArray[np.uint8], pixels: Array, shares: Array) -> None:
    """Set some pixels, by their numbers, to shares from 0 to 1."""
    coverage.reshape(-1)[pixels] = np.rint(255 * shares).astype(np.uint8)
