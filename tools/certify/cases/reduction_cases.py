"""Cases of reductions and normalizations, of recurrent cells, and of operators whose result is known early."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np

from .operator_models import SHAPES, Const, ModelCase, ints, options, values


def reductions() -> Iterable[ModelCase]:
    for operator in ("SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
        for number, shape in enumerate([*SHAPES, (1, 9, 11, 70), (2, 20, 30, 3), (1, 300)]):
            chosen = [axes for n in range(1, len(shape) + 1) for axes in itertools.combinations(range(len(shape)), n)]
            for axes in chosen[:: 1 if number == 0 else 4]:
                for keep in (True, False):
                    if keep is False and len(axes) == len(shape):
                        continue  # a result of rank 0
                    shown = tuple(axis - len(shape) for axis in axes) if keep else axes
                    x = values(*shape)
                    x = 1 + x / 8 if operator == "REDUCE_PROD" else x + 0.25
                    inputs = (x, ints(*shown))
                    yield ModelCase(operator, f"{shape} {shown} {keep}", inputs, options("Reducer", keepDims=keep))


def truth_reductions() -> Iterable[ModelCase]:
    for operator in ("REDUCE_ANY", "REDUCE_ALL"):
        for number, shape in enumerate([*SHAPES, (1, 9, 11, 70), (2, 20, 30, 3), (1, 300)]):
            for keep in (True, False):
                axes = list(range(len(shape)))[number % 2 : max(2, number % 4)] if keep else [-1]
                if len(shape) > 1 and axes:
                    x = values(*shape) > (0.9 if operator == "REDUCE_ANY" else -0.9)
                    inputs, table = (x, ints(*axes)), options("Reducer", keepDims=keep)
                    label = f"{shape} {axes} {keep}"
                    yield ModelCase(operator, label, inputs, table, dtype="bool", exact=True, halves=False)


def largest() -> Iterable[ModelCase]:
    for shape in [*SHAPES, (1, 300), (2, 3, 1001), (1, 1, 2, 70), (2, 5000)]:
        for count in {1, shape[-1] // 2 or 1, min(shape[-1], 100)}:
            for repeated in (False, True):
                x = np.round(values(*shape) * 3) if repeated else values(*shape)
                inputs, label = (x, Const(np.array(count, np.int32))), f"{shape} {count} {repeated}"
                yield ModelCase(
                    "TOPK_V2",
                    label,
                    inputs,
                    options("TopKV2"),
                    2,
                    dtypes=("float32", "int32"),
                    exact=True,
                    halves=False,
                )


def suppressions() -> Iterable[ModelCase]:
    """Boxes of any two corners. No two scores are equal."""
    for boxes, count, overlap, score in [(1, 1, 0.5, -1), (9, 4, 0.3, 0), (30, 40, 0.5, 0.2), (300, 17, 0.7, 0.5)]:
        x, scores = values(boxes, 4), np.random.default_rng(boxes).permutation(boxes).astype(np.float32) / boxes
        numbers = (np.array(count, np.int32), np.array(overlap, np.float32), np.array(score, np.float32))
        inputs, label = (x, scores, *map(Const, numbers)), f"{count} of {boxes} {overlap} {score}"
        yield ModelCase(
            "NON_MAX_SUPPRESSION_V4", label, inputs, options("NonMaxSuppressionV4"), 2, dtypes=("int32", "int32"),
            exact=True, halves=False,
        )  # fmt: skip


def cells() -> Iterable[ModelCase]:
    for number, (rows, width, units) in enumerate(itertools.product((1, 2, 3), (1, 3, 5, 8), (1, 4, 6))):
        gates, weights = values(4 * units), values(4 * units, width + units)
        inputs = (
            values(rows, width) * 2,
            values(rows, units),
            Const(weights),
            Const(gates),
            values(rows, units, seed=1),
        )
        table = options("LSTM", kernelType=1, fusedActivationFunction=4)
        yield ModelCase("LSTM", f"{rows} {width} {units} {number}", inputs, table, 4, version=2)


def known() -> Iterable[ModelCase]:
    """Operators whose result is known before anything runs."""
    for shape in [*SHAPES, *((4, c) for c in range(1, 13))]:
        x = values(*shape)
        for operator, table, dtype in (
            ("SHAPE", options("Shape", outType=2), "int32"), ("RANK", None, "int32"), ("ZEROS_LIKE", None, "float32"),
        ):  # fmt: skip
            yield ModelCase(operator, f"{shape}", (x,), table, dtype=dtype, exact=True, halves=False, known=True)
        for value in (np.float32(0.75), np.int32(-3)):
            inputs = (ints(*shape), Const(np.array(value)))
            yield ModelCase(
                "FILL", f"{shape} {value}", inputs, dtype=str(value.dtype), exact=True, halves=False, known=True
            )


def ranges() -> Iterable[ModelCase]:
    """RANGE of constants, up and down, of whole numbers and of floats."""
    for start in (0, 3, -7):
        for limit, step in ((9, 1), (10, 4), (21, 7), (-8, -1), (-30, -5)):
            if (limit > start) == (step > 0):
                for kind, part in ((np.int32, 1), (np.float32, 8)):
                    inputs = tuple(Const(np.array(kind(n) / part, kind)) for n in (start, limit, step))
                    yield ModelCase(
                        "RANGE", f"{start} {limit} {step} {kind.__name__}", inputs, options("Range"),
                        dtype=kind.__name__, exact=True, halves=False, known=True,
                    )  # fmt: skip


def normalizations() -> Iterable[ModelCase]:
    for shape in [*SHAPES, (1, 1001), (2, 70, 60, 21), (1, 12, 33), (1, 5, 5, 40)]:
        for beta in (1.0, 2.5, -0.5):
            yield ModelCase("SOFTMAX", f"{shape} {beta}", (values(*shape) * 5,), options("Softmax", beta=beta))
        for scale in (5.0, 0.1):
            yield ModelCase("LOG_SOFTMAX", f"{shape} {scale}", (values(*shape) * scale + scale,))
            yield ModelCase("L2_NORMALIZATION", f"{shape} {scale}", (values(*shape) * scale,), options("L2Norm"))
    yield ModelCase("SOFTMAX", "large values", (values(2, 9) * 80 + 1000,), options("Softmax", beta=1.0), halves=False)


def reduction_cases() -> Iterable[ModelCase]:
    """Every case of these operators."""
    yield from reductions()
    yield from truth_reductions()
    yield from largest()
    yield from suppressions()
    yield from cells()
    yield from known()
    yield from ranges()
    yield from normalizations()
