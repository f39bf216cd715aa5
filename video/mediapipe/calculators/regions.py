"""Regions of a picture as the input of a network (ImageToTensorCalculator).

A region is a rectangle as in ``rectangles.py``. A network that keeps the aspect ratio sees the region with bars: the
letterbox.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Size = tuple[int, int]

WHOLE = np.array([0.5, 0.5, 1, 1, 0], np.float32)
"""The region that is the whole picture."""


STEPS = 32
"""Coordinates per pixel between which a bilinear sample knows no difference (OpenCV's INTER_TAB_SIZE)."""


class Region(NamedTuple):
    """A region in pixels of its picture."""

    x: float
    y: float
    """The middle."""
    width: float
    height: float
    rotation: float


def region_of(rectangle: Array, size: Size, aspect: float | None = None) -> Region:
    """The region of a rectangle (5) in a picture of ``size``.

    With ``aspect``, height over width of the network's input, the shorter side grows until the region has it: the
    letterbox.
    """
    x, y, width, height, rotation = (float(value) for value in rectangle)
    width, height = width * size[0], height * size[1]
    if aspect is not None:
        if aspect * width > height:
            height = width * aspect
        else:
            width = height / aspect
    return Region(x * size[0], y * size[1], width, height, rotation)


def region_matrix(region: Region, size: Size) -> Array:
    """The matrix (2, 3), float32, that takes a point of the region to a point of the picture, both normalized."""
    cosine, sine = math.cos(region.rotation), math.sin(region.rotation)
    turned = np.array(
        [[region.width * cosine, -region.height * sine], [region.width * sine, region.height * cosine]], np.float64
    )
    moved = np.array([region.x, region.y]) - turned.sum(axis=1) / 2
    return (np.column_stack([turned, moved]) / np.array(size, np.float64)[:, None]).astype(np.float32)


def crop_region(picture: Array, region: Region, side: Size, *, replicate: bool = True) -> Array:
    """The pixels of a region, resampled to ``side`` (width, height): uint8 (height, width, channels).

    Bilinear, as ``warpPerspective`` of the OpenCV 4 in MediaPipe: pixel (0, 0) of the result is the region's corner,
    pixels are points at whole coordinates, and coordinates are rounded to ``STEPS`` per pixel. These roundings matter:
    without them landmarks of a small region move by a hundredth of the picture. Outside of the picture are its border's
    values, or zeros without ``replicate``.
    """
    cosine, sine = math.cos(region.rotation), math.sin(region.rotation)
    u = ((np.arange(side[0]) / side[0] - 0.5) * region.width)[None, :]
    v = ((np.arange(side[1]) / side[1] - 0.5) * region.height)[:, None]
    x = np.rint((region.x + u * cosine - v * sine) * STEPS).astype(np.int32)
    y = np.rint((region.y + u * sine + v * cosine) * STEPS).astype(np.int32)
    if not replicate:
        picture = np.pad(picture, ((1, 1), (1, 1), (0, 0)))
        x, y = x + STEPS, y + STEPS
    return _sample(picture, x, y)


def _sample(picture: Array, x: Array, y: Array) -> Array:
    """Bilinear samples of a uint8 picture at coordinates in ``STEPS`` per pixel; its border goes on outside."""
    rows, columns, channels = picture.shape
    flat = picture.reshape(-1, channels)
    left, top = x // STEPS, y // STEPS
    across, down = (x - left * STEPS)[..., None], (y - top * STEPS)[..., None]
    x0, x1 = (np.clip(left + step, 0, columns - 1) for step in (0, 1))
    y0, y1 = (np.clip(top + step, 0, rows - 1) * columns for step in (0, 1))
    a, b, c, d = (flat.take(at, axis=0).astype(np.int32) for at in (y0 + x0, y0 + x1, y1 + x0, y1 + x1))
    upper = a * STEPS + across * (b - a)
    lower = c * STEPS + across * (d - c)
    total = upper * STEPS + down * (lower - upper)
    return ((total + STEPS * STEPS // 2) // (STEPS * STEPS)).astype(np.uint8)
