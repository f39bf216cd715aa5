"""Every operator over its attribute space: ranks, axes, masks, broadcasts, batches, full and partial slices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .bit_cases import bit_cases
from .high_rank_cases import high_rank_cases
from .indexing_cases import indexing_cases
from .integer_cases import integer_cases
from .movement_cases import movement_cases
from .operator_models import SHAPES, Const, ModelCase, ints, options, values
from .reduce_window_cases import reduce_window_cases
from .reduction_cases import reduction_cases
from .spectrum_cases import spectrum_cases
from .window_cases import window_cases

UNARY = (
    *"ABS CEIL COS ELU EXP FLOOR HARD_SWISH LOGISTIC NEG RELU RELU6".split(),
    *"RELU_0_TO_1 RELU_N1_TO_1 ROUND SIGN SIN SQUARE TANH".split(),
)
POSITIVE = ("LOG", "SQRT", "RSQRT")

PAIRS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3, 5, 7), (2, 3, 5, 7)), ((2, 3, 5, 7), (7,)), ((2, 3, 5, 7), (1,)), ((2, 3, 5, 7), (5, 7)),
    ((2, 3, 5, 7), (3, 5, 7)), ((2, 3, 5, 7), (3, 1, 1)), ((5, 7), (2, 3, 5, 7)), ((5, 1), (2, 3, 5, 7)),
    ((2, 3, 1, 7), (2, 1, 5, 7)), ((2, 1, 1, 4), (1, 3, 5, 4)), ((1, 3, 5, 1), (2, 3, 1, 6)),
    ((2, 3, 5, 1), (1, 1, 1, 7)), ((2, 5, 6), (2, 5, 6)), ((2, 5, 6), (5, 6)), ((2, 5, 6), (6,)),
    ((2, 1, 6), (5, 1)), ((4, 8), (4, 8)), ((4, 8), (8,)), ((4, 1), (1, 8)), ((9,), (9,)),
    ((9,), (1,)), ((2, 2, 2, 8), (1, 1, 1, 8)),
]  # fmt: skip


def elementwise() -> Iterable[ModelCase]:
    for number, shape in enumerate([*SHAPES, *((1, 2, 3, c) for c in range(1, 13))]):
        for operator in UNARY:
            x = values(*shape) * (40 if operator in ("CEIL", "ROUND", "FLOOR") else 4)
            halves = operator not in ("CEIL", "ROUND", "FLOOR", "SIGN")
            yield ModelCase(operator, f"{shape}", (x,), exact=not halves, halves=halves)
        for operator in POSITIVE:
            yield ModelCase(operator, f"{shape}", (np.abs(values(*shape)) * 4 + 0.1,))
        yield ModelCase("SIGN", f"{shape} zero", (np.zeros(shape, np.float32),), exact=True, halves=False)
        for approximate in (True, False):
            table = options("Gelu", approximate=approximate)
            yield ModelCase("GELU", f"{shape} {approximate}", (values(*shape) * 5,), table)
        alpha, count = (0.1, 1.5, -0.25)[number % 3], 2 + number % 3
        yield ModelCase("LEAKY_RELU", f"{shape} {alpha}", (values(*shape),), options("LeakyRelu", alpha=alpha))
        inputs = tuple(values(*shape, seed=seed) for seed in range(count))
        yield ModelCase("ADD_N", f"{shape} {count}", inputs, options("AddN"))
        yield ModelCase("ADD_N", f"{shape} {count} constant", (*inputs[1:], Const(inputs[0])), options("AddN"))
        y, x = values(*shape), values(*shape, seed=5) * (number % 2)  # every second one on the axis
        yield ModelCase(
            "ATAN2", f"{shape}", (y, Const(x) if number % 3 else x), options("ATan2"), halves=bool(number % 2)
        )
    for left, right in PAIRS:
        for operator, table in BINARY.items():
            yield from binary(operator, table, left, right)
    for shape in SHAPES:
        for alpha in {shape[1:], (1,) * (len(shape) - 2) + shape[-1:]} if len(shape) > 1 else ():
            yield ModelCase("PRELU", f"{shape} {alpha}", (values(*shape), Const(values(*alpha, seed=3))))
            yield ModelCase("PRELU", f"{shape} {alpha} runtime", (values(*shape), values(*alpha, seed=3)))


def activated(kind: str) -> tuple[Any, ...]:
    """Option tables of a kind, one for each activation that LiteRT's CPU kernels have; they ignore a fused TANH."""
    return tuple(options(kind, fusedActivationFunction=number) for number in range(4))


BINARY: dict[str, tuple[Any, ...]] = {
    "ADD": activated("Add"), "SUB": activated("Sub"), "MUL": activated("Mul"), "DIV": activated("Div"),
    "MAXIMUM": (options("MaximumMinimum"),), "MINIMUM": (options("MaximumMinimum"),),
    "SQUARED_DIFFERENCE": (options("SquaredDifference"),), "FLOOR_DIV": (options("FloorDiv"),),
    "FLOOR_MOD": (options("FloorMod"),), "POW": (options("Pow"),),
}  # fmt: skip


def binary(operator: str, tables: tuple[Any, ...], left: Sequence[int], right: Sequence[int]) -> Iterable[ModelCase]:
    v, w = values(*left) * 2, values(*right, seed=5)
    if operator in ("DIV", "FLOOR_DIV", "FLOOR_MOD"):
        v, w = v * 5, np.where(w < 0, w - 0.5, w + 0.5).astype(np.float32)
    if operator == "POW":
        v, w = np.abs(v) + 0.1, w * 3
    table = tables[(len(left) + sum(right)) % len(tables)]
    halves = operator not in ("FLOOR_DIV", "FLOOR_MOD")  # they jump where a rounded operand crosses a multiple
    yield ModelCase(operator, f"{left} {right}", (v, w), table, halves=halves)
    if (len(left) + right[-1]) % 2:
        yield ModelCase(operator, f"{left} constant {right}", (v, Const(w)), table, halves=halves)
    else:
        yield ModelCase(operator, f"constant {left} {right}", (Const(v), w), table, halves=halves)
    if operator in ("FLOOR_DIV", "FLOOR_MOD", "POW"):
        v, w = np.round(v * 3), np.round(w * 2)
        v, w = (np.where(x == 0, 1, x).astype(np.float32) for x in (v, w))
        yield ModelCase(operator, f"{left} {right} whole numbers", (-v if operator == "POW" else v, w), table)


def ranks() -> Iterable[ModelCase]:
    for shape in [*SHAPES, (1, 1, 1, 9), (1, 4, 1, 5), (1, 1, 6, 3), (2, 1, 7), (1, 5, 1), (1, 8), (7, 1)]:
        ones = [axis for axis, size in enumerate(shape) if size == 1]
        for axes in {(), *((axis,) for axis in ones), tuple(axis - len(shape) for axis in ones)}:
            inputs, table = (values(*shape),), options("Squeeze", squeezeDims=list(axes))
            if len(shape) > len(axes or ones):
                yield ModelCase("SQUEEZE", f"{shape} {axes}", inputs, table, exact=True)
        if len(shape) < 4:
            for axis in range(-1, len(shape) + 1):
                inputs = (values(*shape), Const(np.array(axis, np.int32)))
                yield ModelCase("EXPAND_DIMS", f"{shape} {axis}", inputs, options("ExpandDims"), exact=True)
            for axis in range(-1, len(shape) + 1):
                count = 1 + (axis + len(shape)) % 4
                inputs = tuple(values(*shape, seed=seed) for seed in range(count))
                table = options("Pack", valuesCount=count, axis=axis)
                yield ModelCase("PACK", f"{shape} {axis} {count}", inputs, table, exact=True)


def sums_and_gathers() -> Iterable[ModelCase]:
    for shape in SHAPES:
        for axis in range(-1, len(shape)):
            for exclusive, reverse in ((False, False), (True, False), (False, True), (True, True)):
                table = options("Cumsum", exclusive=exclusive, reverse=reverse)
                inputs = (values(*shape), Const(np.array(axis, np.int32)))
                yield ModelCase("CUMSUM", f"{shape} {axis} {exclusive} {reverse}", inputs, table)
            if len(shape) < 4 or axis % 2:
                taken = np.arange(7, dtype=np.int32) * 5 % shape[axis]
                inputs = (values(*shape), Const(taken))
                yield ModelCase("GATHER", f"{shape} {axis}", inputs, options("Gather", axis=axis), exact=True)
    for shape, indices, axis, batches in [
        ((2, 5, 6), (2, 3), 1, 1), ((2, 5, 6, 7), (2, 4), 2, 1), ((2, 5, 6), (2, 5, 3), 2, 2), ((9, 5), (2, 3), 0, 0),
        ((3, 5, 6), (2, 2), 2, 0), ((2, 5, 6, 8), (2, 4), 3, 1), ((2, 7), (2, 3), 1, 1),
    ]:  # fmt: skip
        taken = np.arange(np.prod(indices), dtype=np.int32).reshape(indices) * 3 % shape[axis]
        table = options("Gather", axis=axis, batchDims=batches)
        yield ModelCase(
            "GATHER", f"{shape} {indices} {axis} {batches}", (values(*shape), Const(taken)), table, exact=True
        )
    taken = np.array([4999, 0, 2047, 2049, 4097], np.int32)  # numbers that 16 bits do not hold
    yield ModelCase("GATHER", "large", (values(5000, 3), Const(taken)), options("Gather", axis=0), exact=True)


def products() -> Iterable[ModelCase]:
    for batches, others in [
        ((), ()), ((2,), (2,)), ((1,), (3,)), ((2, 3), (2, 3)), ((2, 1), (1, 3)), ((2, 3), ()),
        ((2,), (1,)), ((1, 1), (2, 2)),
    ]:  # fmt: skip
        for rows, depth, columns in ((5, 7, 6), (4, 8, 12), (1, 9, 3)):
            for turned in range(4):
                left, right = ((depth, rows) if turned & 1 else (rows, depth)), (depth, columns)
                right = right[::-1] if turned & 2 else right
                table = options("BatchMatMul", adjX=bool(turned & 1), adjY=bool(turned & 2))
                x, y = values(*batches, *left), values(*others, *right, seed=7)
                label = f"{batches} {others} {rows}x{depth}x{columns} {turned}"
                yield ModelCase("BATCH_MATMUL", label, (x, Const(y) if rows == 4 and not turned & 1 else y), table)


def logic() -> Iterable[ModelCase]:
    for left, right in PAIRS:
        v, w = np.round(values(*left) * 3), np.round(values(*right, seed=5) * 3)
        for operator, kind in COMPARISONS.items():
            sides = ((v, w), (v, Const(w)), (Const(v), w))[sum(right) % 3]
            label = f"{left} {right}"
            yield ModelCase(operator, label, sides, options(kind), dtype="bool", exact=True, halves=False)
        for operator, kind in (("LOGICAL_AND", "LogicalAnd"), ("LOGICAL_OR", "LogicalOr")):
            table = options(kind)
            yield ModelCase(operator, f"{left} {right}", (v > 0, w > 0), table, dtype="bool", exact=True, halves=False)
        target = np.broadcast_shapes(left, right)
        for number, condition in enumerate({target, left, target[-1:], (1,)}):
            x, y = (values(*shape, seed=2) for shape in ((left, right) if number % 2 else (right, left)))
            inputs = (values(*condition, seed=3) > 0, x, Const(y) if number == 2 else y)
            table, label = options("SelectV2"), f"{condition} {left} {right} {number}"
            yield ModelCase("SELECT_V2", label, inputs, table, exact=True, halves=False)
    for shape in [*SHAPES, *((2, 3, 4, c) for c in range(1, 13))]:
        x, y = values(*shape), values(*shape, seed=1)
        rows = (np.arange(shape[0]) % 2 == 0, np.bool_(len(shape) % 2))
        for number, condition in enumerate((x > 0.1, *rows) if shape in SHAPES else (x > 0.1,)):
            inputs, label = (np.asarray(condition), x, y), f"{shape} {number}"
            yield ModelCase("SELECT", label, inputs, options("Select"), exact=True, halves=False)
        table = options("LogicalNot")
        yield ModelCase("LOGICAL_NOT", f"{shape}", (x > 0,), table, dtype="bool", exact=True, halves=False)
        for source, target in CASTS:
            given = np.round(np.abs(x) if source == "uint8" else x, 1) * 5
            given, label = given.astype(source), f"{shape} {source} {target}"
            yield ModelCase("CAST", label, (given,), options("Cast"), dtype=target, exact=True, halves=False)


CASTS = (
    ("float32", "int32"), ("float32", "bool"), ("bool", "float32"), ("int32", "float32"), ("float32", "int64"),
    ("bool", "int32"), ("int32", "bool"), ("uint8", "float32"), ("int8", "float32"), ("int16", "float32"),
    ("int64", "float32"), ("bool", "bool"), ("uint8", "int32"), ("int8", "int16"), ("int16", "int64"),
    ("float32", "float16"), ("float16", "float32"), ("float16", "int32"), ("bool", "float16"),
)  # fmt: skip

COMPARISONS = {
    "EQUAL": "Equal", "NOT_EQUAL": "NotEqual", "LESS": "Less", "LESS_EQUAL": "LessEqual", "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterEqual",
}  # fmt: skip


def whole_numbers() -> Iterable[ModelCase]:
    for shape in SHAPES:
        for axis in range(-1, len(shape)):
            for operator, kind in (("ARG_MAX", "ArgMax"), ("ARG_MIN", "ArgMin")):
                code, dtype = ((2, "int32"), (4, "int64"))[len(shape) % 2]
                if len(shape) > 1:
                    x = np.round(values(*shape) * 4)  # with equal ones
                    inputs, table = (x, ints(axis)), options(kind, outputType=code)
                    yield ModelCase(operator, f"{shape} {axis}", inputs, table, dtype=dtype, exact=True, halves=False)
    for shape in ((5,), (2, 3), (2, 3, 5), (1, 7), (4, 1), (1, 4, 6)):
        for axis in range(-1, len(shape) + 1):
            depth = 1 + (axis + len(shape)) % 9
            indices = (np.arange(np.prod(shape)).reshape(shape) * 5 % (depth + 2) - 1).astype(np.int32)
            numbers = (Const(np.array(n, t)) for n, t in ((depth, np.int32), (2.5, np.float32), (-1, np.float32)))
            table, label = options("OneHot", axis=axis), f"{shape} {axis} {depth}"
            yield ModelCase("ONE_HOT", label, (indices, *numbers), table, exact=True, halves=False)
    numbers = (Const(np.array(n, t)) for n, t in ((8, np.int32), (2.5, np.float32), (-1, np.float32)))
    inputs, table = (np.array([[1, 7, 3]], np.int32), *numbers), options("OneHot", axis=-1)
    yield ModelCase("ONE_HOT", "full slices", inputs, table, exact=True, halves=False)
    for shape, indices, axis, batches in (((2, 5, 6), (2, 3), 1, 1), ((9, 5), (4,), 0, 0), ((2, 5, 6, 7), (3,), -1, 0)):
        taken = np.arange(np.prod(indices), dtype=np.int32).reshape(indices) * 3 % shape[axis]
        inputs, table = (values(*shape), taken), options("Gather", axis=axis, batchDims=batches)
        yield ModelCase("GATHER", f"{shape} {indices} {axis} computed", inputs, table, exact=True, halves=False)


CASES: list[ModelCase] = [
    *movement_cases(),
    *indexing_cases(),
    *reduction_cases(),
    *reduce_window_cases(),
    *elementwise(),
    *ranks(),
    *sums_and_gathers(),
    *products(),
    *logic(),
    *whole_numbers(),
    *window_cases(),
    *high_rank_cases(),
    *integer_cases(),
    *bit_cases(),
    *spectrum_cases(),
]
"""Every case. The cover chooses those that run on a device (cover.py)."""
