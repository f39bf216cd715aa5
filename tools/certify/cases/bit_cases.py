"""Cases of bits, and of StableHLO's arithmetic that LiteRT's interpreter has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from .operator_models import Const, ModelCase, options, values

SHAPES = ((2, 3, 5, 7), (1, 4, 8), (5,), (2, 3, 2, 2, 6))
"""The four numbers of channels in the last slice, ranks, one picture and several."""

WIDE: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3, 5, 7), (7,)), ((5, 1), (2, 3, 5, 7)), ((2, 3, 1, 6), (2, 1, 5, 6)), ((4, 8), (4, 8)), ((2, 1, 9), (5, 1)),
    ((2, 1, 3, 2, 5), (2, 4, 1, 2, 5)),
]  # fmt: skip
PAIRS = {"STABLEHLO_ADD": False, "STABLEHLO_MULTIPLY": False, "STABLEHLO_MAXIMUM": True, "STABLEHLO_MINIMUM": True}
"""Operators of two operands, and whether the result is one of them."""


def bit_cases() -> Iterable[ModelCase]:
    for number, (left, right) in enumerate(WIDE):
        for dtype in ("int32", ("int8", "uint8", "int16")[number % 3]):
            x, y = integers(dtype, *left), integers(dtype, *right, seed=1)
            inputs = (Const(x), y) if number == 1 else (x, Const(y)) if number == 3 else (x, y)
            yield _case("BITWISE_XOR", f"{left} {right} {dtype}", inputs, dtype)
    for number, shape in enumerate(SHAPES):
        dtype = ("int32", "int8", "uint8", "int16")[number % 4]
        x, y = integers(dtype, *shape), integers(dtype, *shape, seed=1)
        yield _case("STABLEHLO_AND", f"{shape} {dtype}", (x, Const(y) if number % 3 else y), dtype)
        inputs = values(*shape) > -0.5, values(*shape, seed=3) > 0
        yield ModelCase("STABLEHLO_AND", f"{shape} bool", inputs, dtype="bool", exact=True, halves=False)
        whole = integers("int32", *shape)
        for place, (operator, exact) in enumerate(PAIRS.items()):
            given = (values(*shape), values(*shape, seed=5))
            yield ModelCase(operator, f"{shape}", given, exact=exact, halves=number == 0)
            if place == number:
                yield _case(operator, f"{shape} int32", (whole, integers("int32", *shape, seed=2)), "int32")
        yield from _bitcasts(number, shape, whole)


def integers(dtype: str, *shape: int, seed: int = 0) -> npt.NDArray[Any]:
    """Integers of all bits."""
    kind = np.iinfo(dtype)
    given = np.random.default_rng(seed + sum(shape)).integers(kind.min, kind.max, shape, endpoint=True)
    return given.astype(dtype)


def _case(operator: str, label: str, inputs: Any, dtype: str) -> ModelCase:
    return ModelCase(operator, label, inputs, dtype=dtype, read=True, exact=True, halves=False)


def _bitcasts(number: int, shape: tuple[int, ...], whole: npt.NDArray[np.int32]) -> Iterable[ModelCase]:
    table = options("Bitcast")
    floats = whole.view(np.float32)
    floats = np.where(np.isnan(floats), np.float32(-np.inf), floats)  # a NaN may become another one on its way
    plain: dict[str, Any] = {"exact": True, "halves": False}
    yield ModelCase("BITCAST", f"{shape} to int32", (floats,), table, dtype="int32", read=True, **plain)
    yield ModelCase("BITCAST", f"{shape} to float32", (floats.view(np.int32),), table, **plain)
    source, target = (("int8", "uint8"), ("uint8", "int8"), ("int16", "int16"))[number % 3]
    given = (integers(source, *shape),)
    yield ModelCase("BITCAST", f"{shape} {source} {target}", given, table, dtype=target, read=True, **plain)
