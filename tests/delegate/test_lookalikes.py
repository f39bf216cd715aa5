"""Operators that resemble a pattern which a pass fuses, and are none, compute the same as LiteRT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from framebind.interop.device import Device
from framebind.tools.certify.cases.formulas import Formula
from support.formulas import error_on

RANDOM = np.random.default_rng(5)
POINT: dict[str, Any] = dict(padding=0, strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1)


def random(f: Formula, *shape: int) -> int:
    return f.constant(RANDOM.normal(0, 1, shape))


def scales_of_pixels() -> tuple[Formula, int]:
    """Instance normalizations whose scale is one number, and whose offset differs by the pixel."""
    f = Formula((2, 4, 6, 8))

    def normalized(scale: int, offset: int) -> int:
        axes, shape = f.constant((1, 2), "int32"), (2, 1, 1, 8)
        mean = f.add("MEAN", 0, axes, shape=shape, keepDims=True)
        variance = f.add("MEAN", f.add("SQUARED_DIFFERENCE", 0, mean), axes, shape=shape, keepDims=True)
        factor = f.add("MUL", f.add("RSQRT", f.add("ADD", variance, f.constant(0.1))), scale)
        rest = f.add("SUB", offset, f.add("MUL", mean, factor))
        return f.add("ADD", f.add("MUL", 0, factor), rest)

    return f, f.add("ADD", normalized(random(f, 1), random(f, 8)), normalized(random(f, 8), random(f, 4, 6, 8)))


def sums_of_a_filter() -> tuple[Formula, int]:
    """A depthwise convolution and a 1x1 convolution, which reads it together with more inputs than a step binds."""
    f = Formula(*[(1, 5, 5, 8)] * 5)
    filtered = f.add(
        "DEPTHWISE_CONV_2D", 0, random(f, 1, 3, 3, 8), random(f, 8), shape=(1, 5, 5, 8), depthMultiplier=1, **POINT
    )
    total = f.add("ADD_N", filtered, 1, 2, 3, 4)
    return f, f.add("CONV_2D", total, random(f, 8, 1, 1, 8), random(f, 8), shape=(1, 5, 5, 8), **POINT)


def rows_of_two_pixels() -> tuple[Formula, int]:
    """A layer that reads two transposed pixels as one row, before a product of matrices."""
    f = Formula((1, 4, 6, 4), (8, 5))
    rows = f.add(
        "FULLY_CONNECTED", f.transpose(0, 0, 2, 1, 3), random(f, 8, 8), random(f, 8), shape=(12, 8), keepNumDims=False
    )
    return f, f.add("BATCH_MATMUL", rows, 1, shape=(12, 5), adjX=False, adjY=False)


def rows_of_one_value() -> tuple[Formula, int]:
    """A layer that reads one value, moved, before a product of matrices."""
    f = Formula((1, 1, 1))
    part = f.add("SLICE", 0, f.constant((0, 0, 0), "int32"), f.constant((1, 1, 1), "int32"), shape=(1, 1, 1))
    rows = f.add("FULLY_CONNECTED", part, random(f, 12, 1), random(f, 12), shape=(1, 1, 12), keepNumDims=True)
    return f, f.add("BATCH_MATMUL", rows, rows, shape=(1, 1, 1), adjX=False, adjY=True)


def mean_of_parts() -> tuple[Formula, int]:
    """A squeeze-and-excite block behind a sum with a concatenation, whose parts are computed after the summand."""
    f = Formula((1, 8, 8, 8))

    def layer(x: int, units: int) -> int:
        *size, given = f.shape(x)
        return f.add("CONV_2D", x, random(f, units, 1, 1, given), random(f, units), shape=(*size, units), **POINT)

    summand = layer(0, 16)
    joined = f.add("CONCATENATION", layer(0, 8), f.add("RELU", layer(0, 8)), shape=(1, 8, 8, 16), axis=3)
    mean = f.add("MEAN", f.add("ADD", summand, joined), f.constant((1, 2), "int32"), shape=(1, 1, 1, 16), keepDims=True)
    gate = f.add("LOGISTIC", layer(f.add("RELU", layer(mean, 8)), 16))
    return f, f.add("ADD", f.add("MUL", summand, gate), f.add("MUL", joined, gate))


@pytest.mark.parametrize(
    "made", [mean_of_parts, scales_of_pixels, sums_of_a_filter, rows_of_two_pixels, rows_of_one_value]
)
def test_lookalikes(gpu: Device, made: Callable[[], tuple[Formula, int]]) -> None:
    f, result = made()
    values = [np.random.default_rng(i).normal(0, 1, f.shape(i)).astype(np.float32) for i in f.inputs]
    assert error_on(gpu, f.model(result), values) < 1e-5
