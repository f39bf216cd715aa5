"""Regions of a picture as the input of a network (ImageToTensorCalculator).

A region is a rectangle as in ``rectangles.py``. A network that keeps the aspect ratio sees the region with bars: the
letterbox.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...basic_types import Array, Size
from .c_math import cosine, sine

WHOLE = np.array([0.5, 0.5, 1, 1, 0], np.float32)
"""The region that is the whole picture."""
STEPS = 32
"""Coordinates per pixel between which a bilinear sample knows no difference (OpenCV's INTER_TAB_SIZE)."""


class PixelRegion(NamedTuple):
    """A turned rectangle in pixels of its picture: where a network looks. The angle is in radians."""

    x: float
    y: float
    """The middle."""
    width: float
    height: float
    rotation: float


def region_of(rectangle: Array, size: Size, aspect: float | None = None) -> PixelRegion:
    """The region of a rectangle (5) in a picture of ``size``.

    With ``aspect``, height over width of the network's input, the shorter side grows until the region has it: the
    letterbox.
    """
    x, y, width, height, rotation = rectangle.astype(np.float32)
    columns, rows = np.float32(size[0]), np.float32(size[1])
    width, height = width * columns, height * rows
    if aspect is not None:
        if np.float32(aspect) * width > height:
            height = width * np.float32(aspect)
        else:
            width = height / np.float32(aspect)
    return PixelRegion(*(float(each) for each in (x * columns, y * rows, width, height, rotation)))


def region_matrix(region: PixelRegion, size: Size) -> Array:
    """The matrix (2, 3), float32, that takes a point of the region to a point of the picture, both normalized."""
    x, y, width, height = (np.float32(each) for each in region[:4])
    right, up = cosine(region.rotation), sine(region.rotation)
    across, down = (np.float32(1) / np.float32(each) for each in size)
    half = np.float32(0.5)
    left = -half * width * right + half * height * up + x
    top = -half * height * right - half * width * up + y
    return np.array(
        [
            [width * right * across, -height * up * across, left * across],
            [width * up * down, height * right * down, top * down],
        ],
        np.float32,
    )


def crop_region(picture: Array, region: PixelRegion, side: Size, *, replicate: bool = True) -> Array:
    """The pixels of a region, resampled to ``side`` (width, height): uint8 (height, width, channels).

    Bilinear, as ``warpPerspective`` of the OpenCV 4 in MediaPipe: pixel (0, 0) of the result is the region's corner,
    pixels are points at whole coordinates, and coordinates are rounded to ``STEPS`` per pixel. These roundings matter:
    without them landmarks of a small region move by a hundredth of the picture. Outside of the picture are its border's
    values, or zeros without ``replicate``.
    """
    matrix = _homography(_corners(region), side)
    u, v = np.arange(side[0])[None, :], np.arange(side[1])[:, None]
    x, y, scale = (across * u + (down * v + start) for across, down, start in matrix)
    x, y = (np.rint(each * (STEPS / scale)).astype(np.int32) for each in (x, y))
    if not replicate:
        picture = np.pad(picture, ((1, 1), (1, 1), (0, 0)))
        x, y = x + STEPS, y + STEPS
    return _sample(picture, x, y)


def _corners(region: PixelRegion) -> Array:
    """Lower left, upper left, upper right and lower right corner (4, 2), rounded as OpenCV's ``boxPoints``."""
    middle, (width, height) = np.array(region[:2], np.float32), np.array(region[2:4], np.float32)
    degrees = np.float32(np.float32(region.rotation) * np.float32(180) / math.pi)
    angle = float(degrees) * math.pi / 180
    half = np.float32(0.5)
    right, up = np.float32(math.cos(angle)) * half, np.float32(math.sin(angle)) * half
    first = np.array([middle[0] - up * height - right * width, middle[1] + right * height - up * width])
    second = np.array([middle[0] + up * height - right * width, middle[1] - right * height - up * width])
    return np.stack([first, second, 2 * middle - first, 2 * middle - second])


def _homography(corners: Array, side: Size) -> Array:
    """The matrix (3, 3) from a picture of ``side`` to its ``corners`` (4, 2): corners that are rounded are those of no
    affine map.
    """
    width, height = side
    places = np.array([[0, height], [0, 0], [width, 0], [width, height]], np.float64)
    ones, zeros = np.ones((4, 1)), np.zeros((4, 3))
    points = corners.astype(np.float64)
    rows = [
        np.hstack([places, ones, zeros, -places * points[:, :1]]),
        np.hstack([zeros, places, ones, -places * points[:, 1:]]),
    ]
    try:
        found = np.linalg.solve(np.vstack(rows), points.T.ravel())
    except np.linalg.LinAlgError:  # a region without an area
        across, down = (points[2] - points[1]) / width, (points[0] - points[1]) / height
        found = np.append(np.column_stack([across, down, points[1]]), [0, 0])
    return np.append(found, 1.0).reshape(3, 3)


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
