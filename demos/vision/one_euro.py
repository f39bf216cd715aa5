"""Smooths moving points: steady where they rest, quick where they move."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SECONDS = 1 / 30
"""What a frame is taken to last, so that a recording is the same on a slow machine."""


class OneEuro:
    """The One-Euro filter of Casiez, Roussel and Vogel ("1 Euro Filter", CHI 2012), on an array of values.

    A low-pass filter whose cutoff, in Hz, is ``slowest + slope * speed``: ``speed`` is that of the filtered value, in
    its units a second, itself low-passed at 1 Hz.
    """

    def __init__(self, slowest: float, slope: float) -> None:
        self.slowest, self.slope = slowest, slope
        self._value: Array | None = None
        self._speed: Any = 0.0

    def __call__(self, value: Array) -> Array:
        """The filtered value, of the same shape; the first one is as it is."""
        if self._value is None:
            self._value = value
        else:
            steady = share(1.0)
            self._speed = steady * ((value - self._value) / SECONDS) + (1 - steady) * self._speed
            new = share(self.slowest + self.slope * np.abs(self._speed))
            self._value = new * value + (1 - new) * self._value
        return self._value


def share(cutoff: Array | float) -> Array | float:
    """How much of a new value a low-pass filter of this cutoff (Hz) takes in a frame: 1 / (1 + tau / SECONDS)."""
    return 1 / (1 + 1 / (2 * math.pi * cutoff * SECONDS))
