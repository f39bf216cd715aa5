"""Functions of float32 as the C library rounds them.

MediaPipe calls it, and looks where its last result was: an angle that differs in its last bit is another picture for
the network some frames later.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ...basic_types import Array


@cache
def _function(name: str, arguments: int) -> Callable[..., float] | None:
    """A function of the C library; None if the process has none of that name."""
    try:
        found = getattr(ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None), name)
    except (AttributeError, OSError):
        return None
    found.restype, found.argtypes = ctypes.c_float, [ctypes.c_float] * arguments
    return found


def _applied(name: str, double: Callable[..., Array], *values: Any) -> Array:
    """The function of that name of float32 values; without one, of float64, rounded."""
    given = [np.asarray(each, np.float32) for each in np.broadcast_arrays(*values)]
    function = _function(name, len(given))
    if function is None:
        return double(*(each.astype(np.float64) for each in given)).astype(np.float32)
    found = map(function, *(each.ravel().tolist() for each in given))
    return np.fromiter(found, np.float32, given[0].size).reshape(given[0].shape)


def cosine(angles: Any) -> Array:
    """The cosines, float32, of angles."""
    return _applied("cosf", np.cos, angles)


def sine(angles: Any) -> Array:
    """The sines, float32, of angles."""
    return _applied("sinf", np.sin, angles)


def angle_of(x: Any, y: Any) -> Array:
    """The angles, float32, of points (x, y) from the x axis, from -pi to pi."""
    return _applied("atan2f", np.arctan2, y, x)


def sigmoid(values: Any) -> Array:
    """1 / (1 + exp(-values)), float32."""
    with np.errstate(over="ignore"):
        powers = _applied("expf", np.exp, -np.asarray(values, np.float32))
    return np.float32(1) / (np.float32(1) + powers)
