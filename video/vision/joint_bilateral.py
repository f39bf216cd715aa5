"""Small masks enlarged along the edges of a decoded picture by NumPy: the joint bilateral filter of masks.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import framebind as fb

from ..basic_types import Array
from .masks import FLOOR, RADIUS, RANGE, SPATIAL

_BLOCKS = 256
"""Blocks whose weights are computed at once: 380 KB of 720p and a mask of 256x256 stay in the CPU's cache."""
_LEAST = np.float32(np.log(FLOOR))


class _Axis(NamedTuple):
    """The blocks along one side of a picture."""

    nearest: Array
    """Per pixel: the nearest pixel of the small picture."""
    middles: Array
    """Per block: the pixel of the small picture that is the nearest one of all its pixels."""
    pixels: Array
    """(most pixels of a block, blocks): its pixels; the last one again and again if it has fewer."""
    offsets: Array
    """The places of these pixels, from the middle, in pixels of the small picture."""


def _axis(small: int, large: int) -> _Axis:
    places = (np.arange(large) + 0.5) * small / large - 0.5
    nearest = np.clip(np.floor(places + 0.5).astype(np.intp), 0, small - 1)
    middles, first, count = np.unique(nearest, return_index=True, return_counts=True)
    pixels = first + np.minimum(np.arange(count.max())[:, None], count - 1)
    return _Axis(nearest, middles, pixels, (places[pixels] - middles).astype(np.float32))


class Enlarger:
    """Enlarges pictures of ``small`` (height, width) to ``large`` (height, width), on one thread.

    A block is the part of the large picture that has the same nearest pixel in the small one, and so the same
    neighbours there. Large arrays are kept: the system clears the memory of new ones, page by page.
    """

    def __init__(self, small: tuple[int, int], large: tuple[int, int]) -> None:
        self._small = small
        self._rows, self._columns = (_axis(*sides) for sides in zip(small, large, strict=True))
        taps = np.arange(-RADIUS, RADIUS + 1)
        down, across = (each.ravel() for each in np.meshgrid(taps, taps, indexing="ij"))
        distances = np.stack([-(down * down + across * across) / 2, down, across], 1) / SPATIAL**2
        self._near = distances.astype(np.float32)
        """(taps, 3): factors of 1 and of a pixel's offsets in the logarithm of a tap's weight by distance.

        What is the same for all taps is left out.
        """
        most = len(self._rows.pixels) * len(self._columns.pixels)
        self._weights, self._distances = np.empty((2, _BLOCKS, len(self._near), most), np.float32)
        self._colours = np.empty((small[0] + 2 * RADIUS, small[1] + 2 * RADIUS, 5), np.float32)

    def nearest(self, small: Array) -> Array:
        """The small picture (height, width), enlarged without any filter."""
        return small.take(self._columns.nearest, axis=1).take(self._rows.nearest, axis=0)

    def along_edges(self, picture: fb.video.Planes, values: Array, where: Array) -> Iterator[tuple[Array, Array]]:
        """Means of the pixels nearby, weighted by distance and by likeness of colour, for some blocks.

        ``values`` (channels, height, width) are the small pictures, ``where`` (height, width) says which of their
        pixels are the middles of these blocks. Yields, for some blocks at a time, the numbers of their pixels in the
        large picture (blocks, pixels), where a pixel may be twice, and the means (channels, blocks, pixels).
        """
        colours = Colours(picture)
        likeness = _windows(colours.of_taps(*self._small), self._colours)
        parts = _windows([*values, np.ones(self._small, np.float32)])
        down, across = np.nonzero(where[np.ix_(self._rows.middles, self._columns.middles)])
        for first in range(0, len(down), _BLOCKS):
            y, x = down[first : first + _BLOCKS], across[first : first + _BLOCKS]
            middles = self._rows.middles[y], self._columns.middles[x]
            pixels, factors = self._pixels(colours, y, x)
            weights, distances = self._weights[: len(y)], self._distances[: len(y)]
            np.matmul(likeness[middles].reshape(len(y), -1, 5), factors[:, :5], out=weights)
            np.maximum(weights, _LEAST, out=weights)
            weights += np.matmul(self._near, factors[:, 4:], out=distances)
            np.exp(weights, out=weights)
            near = parts[middles].reshape(len(y), len(self._near), -1)
            sums = np.matmul(near.swapaxes(1, 2), weights).swapaxes(0, 1)
            yield pixels.T, sums[:-1] / sums[-1]

    def _pixels(self, colours: Colours, y: Array, x: Array) -> tuple[Array, Array]:
        """The numbers of the pixels of blocks (pixels, blocks), and their factors (blocks, 7, pixels).

        The factors are four of their colours, 1, and their offsets. They are computed with the blocks side by side, as
        a block has few pixels.
        """
        import cv2

        rows, columns = self._rows.pixels[:, None, y], self._columns.pixels[:, x]
        pixels = rows * len(self._columns.nearest) + columns
        factors = np.ones((7, *pixels.shape), np.float32)
        colours.of_pixels(rows, columns, pixels, factors)
        factors[5], factors[6] = self._rows.offsets[:, None, y], self._columns.offsets[:, x]
        by_block = cv2.transpose(factors.reshape(-1, len(y)))  # several times as fast as NumPy's copy
        return pixels.reshape(-1, len(y)), by_block.reshape(len(y), 7, -1)


class Colours:
    """Colours of a decoded picture as factors of each other's likeness.

    The logarithm of a weight is -|difference of red, green and blue|^2 / (2 RANGE^2): of two colours a and b it is the
    product of (2 G a, 1, -a G a) and (b, -b G b, 1), with the matrix G by which distances of luma and chroma are those
    of red, green and blue.
    """

    def __init__(self, picture: fb.video.Planes) -> None:
        self._picture = picture
        self._numbers = [plane.ravel() for plane in picture.planes]
        rows = np.array(picture.colours.rows())[:, :3] / picture.colours.largest
        self._matrix = (rows.T @ rows / (2 * RANGE**2)).astype(np.float32)
        self._grey = np.float32(2 ** (picture.colours.bits - 1))
        """Taken from all numbers, so that their products are small."""

    def of_taps(self, height: int, width: int) -> list[Array]:
        """Five factors (height, width) of the picture's colours at a smaller size."""
        import cv2  # only here: commands start without it

        colours = np.empty((3, height, width), np.float32)
        for plane, numbers in zip(self._picture.planes, colours, strict=True):
            small = cv2.resize(plane, (width, height), interpolation=cv2.INTER_LINEAR)
            np.subtract(small, self._grey, out=numbers)
        turned = self._turned(colours)
        lengths = _dot(turned, colours)
        turned *= 2
        return [*turned, np.ones_like(lengths), np.negative(lengths, out=lengths)]

    def of_pixels(self, rows: Array, columns: Array, pixels: Array, factors: Array) -> None:
        """Set the first four factors of pixels, by their rows, columns and numbers."""
        width = self._picture.planes[1].shape[1]
        of_chroma = rows // self._picture.rows * width + columns // self._picture.columns
        for number, places in enumerate((pixels, of_chroma, of_chroma)):
            np.subtract(self._numbers[number].take(places), self._grey, out=factors[number])
        np.negative(_dot(self._turned(factors[:3]), factors[:3]), out=factors[3])

    def _turned(self, colours: Array) -> Array:
        """The products of the matrix and colours (3, ...)."""
        return (self._matrix @ colours.reshape(3, -1)).reshape(colours.shape)


def _windows(channels: Sequence[Array], padded: Array | None = None) -> Array:
    """Around each pixel of (height, width) its neighbours: (height, width, 5, 5, channels), without copies.

    The edge continues beyond the picture. ``padded`` is memory for that, if there is any.
    """
    import cv2

    merged, side = cv2.merge(channels), 2 * RADIUS + 1
    continued = cv2.copyMakeBorder(merged, RADIUS, RADIUS, RADIUS, RADIUS, cv2.BORDER_REPLICATE, dst=padded)
    return np.moveaxis(sliding_window_view(continued, (side, side), (0, 1)), 2, -1)


def _dot(one: Array, other: Array) -> Array:
    """The sum of the products of three arrays and three others: a sum over an axis takes several times as long."""
    total = one[0] * other[0]
    total += one[1] * other[1]
    total += one[2] * other[2]
    return total


def extremes(mask: Array) -> tuple[Array, Array]:
    """Lowest and highest value among the neighbours of each pixel, by which a mean of them is bounded."""
    import cv2

    window = np.ones((2 * RADIUS + 1, 2 * RADIUS + 1), np.uint8)
    return cv2.erode(mask, window), cv2.dilate(mask, window)
