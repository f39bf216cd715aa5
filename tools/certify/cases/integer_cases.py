"""Operators on int32 that a float32 does not hold: results are LiteRT's bits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from .operator_models import Const, ModelCase, ints, options, values

SHAPE = (2, 3, 5, 7)
LARGE = (1 << 24) + 1
"""The smallest integer that a float32 does not hold."""


def integer_cases() -> Iterable[ModelCase]:
    for cases in (_arithmetic(), _divisions(), _reductions(), _logic(), _moves()):
        yield from cases


def integers(*shape: int, seed: int = 0) -> npt.NDArray[np.int32]:
    """Integers of all 32 bits; the first and the last are those that floats and signs get wrong."""
    found = np.random.default_rng(seed + sum(shape)).integers(-(1 << 31), 1 << 31, shape).astype(np.int32)
    found.flat[0], found.flat[-1] = LARGE, -1
    return found


def _case(operator: str, label: str, *inputs: Any, table: Any = None, dtype: str = "int32", **fields: Any) -> ModelCase:
    return ModelCase(
        operator, f"int32 {label}", inputs, table, dtype=dtype, read=True, exact=True, halves=False, **fields
    )


def _number(given: int) -> Const:
    return Const(np.array(given, np.int32))


def _arithmetic() -> Iterable[ModelCase]:
    x = integers(*SHAPE)
    for operator, kind in (("ADD", "Add"), ("SUB", "Sub"), ("MUL", "Mul")):
        yield _case(operator, "broadcast", x, integers(7), table=options(kind))
        yield _case(operator, "constant", _number((1 << 30) + 1), x, table=options(kind))
    for number in (1, 2, 3):
        table = options("Add", fusedActivationFunction=number)
        yield _case("ADD", f"activation {number}", x, integers(*SHAPE, seed=1), table=table)
    for operator in ("MAXIMUM", "MINIMUM"):
        yield _case(operator, "rows", x, integers(3, 1, 1), table=options("MaximumMinimum"))


def _divisions() -> Iterable[ModelCase]:
    """Divisors are constant: LiteRT stops at a zero, so that computed ones go to the CPU unless bounds exclude it."""
    x, divisor = integers(*SHAPE), integers(7, seed=2) % 11 - 5
    divisor[divisor == 0] = -1
    x.flat[1:8], x.flat[8:15] = -(1 << 31), (1 << 31) - 1
    x[x == -(1 << 31)] += 1  # LiteRT stops at its quotient by -1
    for operator, table in (("DIV", options("Div")), ("FLOOR_DIV", None), ("FLOOR_MOD", None)):
        yield _case(operator, "broadcast", x, Const(divisor), table=table)
        for number in (3, -7, 1 << 30):
            yield _case(operator, f"by {number}", x, _number(number), table=table)
    for number in (1, 2, 3):
        yield _case("DIV", f"activation {number}", x, _number(-9), table=options("Div", fusedActivationFunction=number))
    for operator in ("ABS", "NEG", "SIGN"):
        yield _case(operator, "all bits", integers(*SHAPE))
    yield _case("SQUARED_DIFFERENCE", "rows", x, integers(3, 1, 1))
    yield _case("ADD_N", "three", x, integers(*SHAPE, seed=1), integers(*SHAPE, seed=2))


def _reductions() -> Iterable[ModelCase]:
    for operator in ("SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
        for shape, axes, keep in (
            (SHAPE, (3,), True), (SHAPE, (3,), False), (SHAPE, (1, 2), True), (SHAPE, (0, 1, 2, 3), True),
            ((1, 9, 11, 8), (1, 2), False), ((1, 20, 30, 3), (1, 2, 3), True), ((3, 1, 1, 17), (0,), False),
        ):  # fmt: skip
            table = options("Reducer", keepDims=keep)
            yield _case(operator, f"{shape} {axes} {keep}", integers(*shape), ints(*axes), table=table)
    for axes in ((0, 2), (1, 2, 4)):
        inputs = (integers(2, 3, 4, 2, 5), ints(*axes))
        yield _case("SUM", f"rank 5 {axes}", *inputs, table=options("Reducer", keepDims=True))


def _logic() -> Iterable[ModelCase]:
    x, y = integers(*SHAPE), integers(*SHAPE)
    y[0] += 1
    for operator, kind in (
        ("EQUAL", "Equal"), ("NOT_EQUAL", "NotEqual"), ("LESS", "Less"), ("LESS_EQUAL", "LessEqual"),
        ("GREATER", "Greater"), ("GREATER_EQUAL", "GreaterEqual"),
    ):  # fmt: skip
        yield _case(operator, "tensors", x, y, table=options(kind), dtype="bool")
        yield _case(operator, "constant", _number(LARGE - 1), x, table=options(kind), dtype="bool")
    condition = values(*SHAPE) > 0
    yield _case("SELECT_V2", "constant", condition, x, _number(LARGE), table=options("SelectV2"))
    yield _case("SELECT", "tensors", condition, x, y, table=options("Select"))
    yield _case("CAST", "int64", x, table=options("Cast"), dtype="int64")
    yield _case("CAST", "bool", x, table=options("Cast"), dtype="bool")


def _moves() -> Iterable[ModelCase]:
    x = integers(*SHAPE)
    yield _case("RESHAPE", "rank 2", x, ints(6, 35), table=options("Reshape", newShape=[6, 35]))
    yield _case("TRANSPOSE", "channels", x, ints(3, 1, 0, 2))
    yield _case("TRANSPOSE", "slices", integers(2, 3, 5, 8), ints(2, 1, 0, 3))
    yield _case("TRANSPOSE", "rank 5", integers(2, 3, 2, 5, 4), ints(0, 1, 4, 3, 2))
    for channels in (4, 3):
        first, table = integers(2, 3, 5, channels), options("Concatenation", axis=3)
        yield _case("CONCATENATION", f"{channels} channels", first, x, table=table)
    yield _case("CONCATENATION", "constant", x, Const(integers(1, 3, 5, 7)), table=options("Concatenation", axis=0))
    yield _case("PACK", "rows", x[0, 0], x[1, 1], table=options("Pack", axis=1, valuesCount=2))
    yield _case("SLICE", "inside", x, ints(0, 1, 0, 2), ints(2, 2, 5, 3), shapes=((2, 2, 5, 3),))
    yield _case("SPLIT", "rows", _number(1), x, table=options("Split", numSplits=3), outputs=3)
    yield _case("PAD", "zeros", x, Const(np.array([(0, 0), (1, 1), (0, 2), (1, 0)], np.int32)))
    amounts = Const(np.array([(0, 0), (1, 1), (0, 2), (0, 0)], np.int32))
    yield _case("PADV2", "large value", x, amounts, _number(LARGE))
    yield _case("TILE", "rows", integers(2, 3), ints(2, 3))
    yield _case("GATHER", "rows", integers(9, 5), ints(3, 0, 8), table=options("Gather", axis=0))
    yield _case("REVERSE_V2", "rows", x, ints(1))
    places = np.array([[1, 2, 4], [0, 0, 0]], np.int32)
    yield _case("GATHER_ND", "rows", x, places, table=options("GatherNd"))
    inputs = (x, integers(2, 3, 4, 7, seed=1), np.array([0, 0, 1, 0], np.int32))
    yield _case("DYNAMIC_UPDATE_SLICE", "rows", *inputs, table=options("DynamicUpdateSlice"))
    inputs = (x, integers(1, 2, 4, 3, seed=1), np.array([1, 0, 1, 2], np.int32))
    size = (1, 2, 5, 3)
    yield _case("SLICE", "computed", x, np.array([1, 1, 0, 4], np.int32), ints(*size), shapes=(size,))
    yield _case("DYNAMIC_UPDATE_SLICE", "channels", *inputs, table=options("DynamicUpdateSlice"))
    numbers = np.array([3, 0, -1, 5], np.int32)
    for axis in (0, -1):
        inputs = (numbers, Const(np.array(5, np.int32)), _number(LARGE), _number(-(1 << 31)))
        yield _case("ONE_HOT", f"{axis}", *inputs, table=options("OneHot", axis=axis))
    for operator, kind in (("ARG_MAX", "ArgMax"), ("ARG_MIN", "ArgMin")):
        for axis in (1, 3):
            yield _case(operator, f"{axis}", x, ints(axis), table=options(kind, outputType=2))
    for axis, exclusive, reverse in ((1, False, False), (3, True, False), (3, False, True), (2, True, True)):
        table, label = options("Cumsum", exclusive=exclusive, reverse=reverse), f"{axis} {exclusive} {reverse}"
        yield _case("CUMSUM", label, x, Const(np.array(axis, np.int32)), table=table)
