"""Landmarks that rest while the thing rests (LandmarksSmoothing-, VisibilitySmoothingCalculator)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...basic_types import Array

LEAST_SCALE = 1e-6
"""Size of an object, in pixels, below which nothing is filtered."""


class LandmarkFilter:
    """The One-Euro filter of Casiez, Roussel and Vogel ("1 Euro Filter", CHI 2012) on an array of values.

    The cutoff, in Hz, is ``min_cutoff + beta * speed``. ``speed`` is that of the unfiltered values, in objects' sizes
    per second, itself low-passed at ``speed_cutoff``. The state is arrays of the values' shape.
    """

    def __init__(self, min_cutoff: float, beta: float, speed_cutoff: float = 1.0) -> None:
        self._min_cutoff, self._beta, self._speed_cutoff = min_cutoff, beta, speed_cutoff
        self._frequency, self._last = 30.0, -1.0
        self._raw: Array | None = None
        self._value = self._speed = np.zeros(0)

    def reset(self) -> None:
        """Forget the values: the next ones come out as they are."""
        self._frequency, self._last, self._raw = 30.0, -1.0, None

    def __call__(self, values: Array, milliseconds: float, scale: float = 1.0) -> Array:
        """The filtered values, float32. ``scale`` is the object's size in the units of the values.

        Values of a time that is not after the last one come out as they are.
        """
        if scale < LEAST_SCALE or milliseconds <= self._last:
            return values
        if self._last > 0:
            self._frequency = 1000.0 / (milliseconds - self._last)
        self._last = milliseconds
        raw = values.astype(np.float64)
        if self._raw is None:
            self._speed, self._value = np.zeros_like(raw), raw
        else:
            share = self._share(self._speed_cutoff)
            self._speed = share * ((raw - self._raw) / scale * self._frequency) + (1 - share) * self._speed
            share = self._share(self._min_cutoff + self._beta * np.abs(self._speed))
            self._value = share * raw + (1 - share) * self._value
        self._raw = raw
        return self._value.astype(np.float32)

    def _share(self, cutoff: Any) -> Any:
        """The new value's share in a low-pass filter of this cutoff."""
        return 1 / (1 + self._frequency / (2 * math.pi * cutoff))


class VisibilityFilter:
    """A low-pass filter whose new values have a share of ``share``."""

    def __init__(self, share: float = 0.1) -> None:
        self._share = np.float32(share)
        self._value: Array | None = None

    def reset(self) -> None:
        """Forget the values: the next ones come out as they are."""
        self._value = None

    def __call__(self, values: Array) -> Array:
        """The filtered values, of the same shape."""
        kept = self._value
        self._value = values if kept is None else self._share * values + (1 - self._share) * kept
        return self._value


def object_scale(points: Array) -> float:
    """The size of an object: the mean of width and height of its landmarks' bounds."""
    return float((points[:, :2].max(axis=0) - points[:, :2].min(axis=0)).sum() / 2)
