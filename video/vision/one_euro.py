"""A filter for moving points: steady while they rest, quick while they move."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..basic_types import Array

SECONDS = 1 / 30
"""Assumed time per frame, so that a recording is the same on a slow machine."""


class OneEuro:
    """The One-Euro filter of Casiez, Roussel and Vogel ("1 Euro Filter", CHI 2012), on an array of values.

    A low-pass filter whose cutoff, in Hz, is ``min_cutoff + beta * speed``: ``speed`` is that of the filtered value, in
    its units per second, itself low-passed at 1 Hz.
    """

    def __init__(self, min_cutoff: float, beta: float) -> None:
        self.min_cutoff, self.beta = min_cutoff, beta
        self._value: Array | None = None
        self._speed: Any = 0.0

    def __call__(self, value: Array) -> Array:
        """The filtered value, of the same shape; the first value is not changed."""
        if self._value is None:
            self._value = value
        else:
            alpha = smoothing_factor(1.0)
            self._speed = alpha * ((value - self._value) / SECONDS) + (1 - alpha) * self._speed
            alpha = smoothing_factor(self.min_cutoff + self.beta * np.abs(self._speed))
            self._value = alpha * value + (1 - alpha) * self._value
        return self._value


def smoothing_factor(cutoff: Array | float) -> Array | float:
    """Share of a new value in the output of a low-pass filter of this cutoff (Hz): 1 / (1 + tau / SECONDS)."""
    return 1 / (1 + 1 / (2 * math.pi * cutoff * SECONDS))
