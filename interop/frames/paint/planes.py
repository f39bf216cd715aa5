"""Planes of luma and chroma on which the CPU paints marks and masks, and the mixing of a colour into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ....kernels.colours import YuvColours
from ...errors import BindingError
from .strokes import Cover

Plane = npt.NDArray[Any]
_ROWS = 64
"""Rows that are painted at once: what is computed of them, 330 KB of 720p, stays in the CPU's cache."""


class Planes(NamedTuple):
    """The planes of a frame that is painted, upright: luma, and two of chroma. To write them is to paint.

    ``VideoWriter.put`` gives them to ``paint``.

    Attributes
    ----------
    planes : sequence of numpy.ndarray
        Luma of shape (height, width) and both chromas, of uint8, or of uint16 for 10 bits. Both sides are even.
    columns, rows : int
        A pixel of chroma is shared by ``columns`` x ``rows`` pixels of luma, 1 or 2 each.
    colours : framebind.kernels.colours.YuvColours
        What the numbers stand for. ``colours.rows()``, divided by ``colours.largest``, are factors of the numbers.

    Examples
    --------
    >>> colours = fb.YuvPicture([np.zeros((2, 2), np.uint8), np.zeros((1, 1, 2), np.uint8)]).colours
    >>> planes = fb.video.Planes([np.full((2, 2), 16, np.uint8), *np.full((2, 1, 1), 128, np.uint8)], 2, 2, colours)
    >>> planes.cover(np.array([[0, 128], [255, 255]], np.uint8), (1.0, 1.0, 1.0))
    >>> planes.planes[0]
    array([[ 16, 126],
           [235, 235]], dtype=uint8)
    """

    planes: Sequence[Plane]
    columns: int
    rows: int
    colours: YuvColours

    def __repr__(self) -> str:
        height, width = self.planes[0].shape
        colours = f"{self.colours.matrix}, {self.colours.range} range"
        return f"<Planes: {width}x{height} of {self.columns}x{self.rows} pixels per chroma, {colours}>"

    def cover(self, coverage: npt.NDArray[np.uint8], color: tuple[float, float, float]) -> None:
        """Mix a colour into the picture, as much of it as covers each pixel. Chroma takes the mean of its pixels.

        Parameters
        ----------
        coverage : numpy.ndarray
            uint8 of luma's shape, from 0, which leaves a pixel as it is, to 255.
        color : (float, float, float)
            Red, green and blue, from 0 to 1.

        Raises
        ------
        BindingError
            If the coverage has another shape or type.
        """
        if coverage.shape != self.planes[0].shape or coverage.dtype != np.uint8:
            given = f"{coverage.dtype} of {coverage.shape}"
            raise BindingError(f"a coverage is uint8 of luma's {self.planes[0].shape}, not {given}")
        numbers = self.colours.numbers(*color)
        for first in range(0, len(coverage), _ROWS):
            rows = coverage[first : first + _ROWS]
            if rows.any():
                mix(self, 0, first, np.multiply(rows, 1 / 255, dtype=np.float32), numbers)

    def of_chroma(self, coverage: Cover) -> Cover:
        """The coverage of pixels of chroma: the mean of that of their pixels of luma."""
        # Sums of slices: a mean over two axes takes several times as long.
        if self.rows == 2:
            coverage = (coverage[::2] + coverage[1::2]) * np.float32(0.5)
        return coverage if self.columns == 1 else (coverage[:, ::2] + coverage[:, 1::2]) * np.float32(0.5)


def mix(picture: Planes, left: int, top: int, coverage: Cover, numbers: tuple[float, float, float]) -> None:
    """Mix a colour into the part of a picture that begins at a column and a row, in whole pixels of chroma.

    ``numbers`` are those of its luma and chromas (``colours.numbers``).
    """
    _blend(picture.planes[0], left, top, coverage, numbers[0])
    of_chroma = picture.of_chroma(coverage)
    for plane, number in zip(picture.planes[1:], numbers[1:], strict=True):
        _blend(plane, left // picture.columns, top // picture.rows, of_chroma, number)


def _blend(plane: Plane, left: int, top: int, coverage: Cover, number: float) -> None:
    """Mix a number into a part of a plane, as much of it as is covered, and round."""
    part = plane[top : top + coverage.shape[0], left : left + coverage.shape[1]]
    mixed = np.float32(number) - part
    mixed *= coverage
    mixed += part
    np.rint(mixed, out=mixed)
    np.copyto(part, mixed, casting="unsafe")
