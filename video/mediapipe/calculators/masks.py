"""Masks of persons: warped from a region to the whole picture (WarpAffineCalculator), and smoothed."""

from __future__ import annotations

import numpy as np

from ...basic_types import Array, Size
from .image_to_tensor import STEPS

FINE = 1024
"""Steps per pixel to which the parts of a coordinate are rounded (OpenCV's AB_SCALE)."""
LEAST_AREA = 1e-12
"""Area of a region, in pictures, below which nothing of its mask is seen."""
KEPT = 0.7
"""The most that a smoothed mask keeps of the previous one."""
UNCERTAINTY = 5.68842, -0.748699, -57.8051, 291.309, -624.717
"""The information of a probability p in bits, as a polynomial of (p - 0.5)^2 without a constant: its coefficients."""


def warp_mask(mask: Array, matrix: Array, size: Size) -> Array:
    """The mask (height, width), float32, of a picture of ``size`` (width, height); zero outside of the region.

    ``mask`` is that of a region, and ``matrix`` (2, 3) takes a point of the region to the picture
    (``regions.region_matrix``). Bilinear, as ``warpAffine`` of the OpenCV 4 in
    MediaPipe: pixels are points at whole coordinates, which are rounded to ``regions.STEPS`` per pixel.
    """
    whole = np.vstack([matrix.astype(np.float64), [0, 0, 1]])
    if not np.isfinite(whole).all() or abs(np.linalg.det(whole)) < LEAST_AREA:
        return np.zeros(size[::-1], np.float32)
    inverse = np.linalg.inv(whole)[:2]
    rows, columns = mask.shape
    inverse = inverse * np.array([[columns], [rows]]) / np.array([size[0], size[1], 1])
    u, v = np.arange(size[0])[None, :], np.arange(size[1])[:, None]
    x, y = (
        (np.rint(across * u * FINE) + np.rint((down * v + moved) * FINE) + FINE // STEPS // 2).astype(np.int64)
        // (FINE // STEPS)
        for across, down, moved in inverse
    )
    inside = (x > -STEPS) & (x < columns * STEPS) & (y > -STEPS) & (y < rows * STEPS)
    warped = np.zeros(size[::-1], np.float32)
    x, y = x[inside] + STEPS, y[inside] + STEPS
    column, row = x // STEPS, y // STEPS
    across, down = ((at % STEPS / STEPS).astype(np.float32) for at in (x, y))
    padded = np.pad(mask, 1)
    upper = padded[row, column] * (1 - across) + padded[row, column + 1] * across
    lower = padded[row + 1, column] * (1 - across) + padded[row + 1, column + 1] * across
    warped[inside] = upper * (1 - down) + lower * down
    return warped


def smooth_mask(mask: Array, previous: Array) -> Array:
    """The mask, mixed with the previous one where it is uncertain (SegmentationSmoothingCalculator).

    The uncertainty of a probability p is that of its coin, 1 - its information in bits, by MediaPipe's polynomial.
    """
    x = (mask - 0.5) ** 2
    information = np.polynomial.polynomial.polyval(x, np.array((0, *UNCERTAINTY), np.float32))
    uncertainty = 1 - np.minimum(1, information)
    return (mask + (previous - mask) * (uncertainty * KEPT)).astype(np.float32)
