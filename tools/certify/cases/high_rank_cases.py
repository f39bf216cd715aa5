"""Cases of operators on tensors of rank 5 to 8, for all dimensions that they distinguish."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from .operator_models import Const, ModelCase, ints, options, values

FIVE, SIX = (2, 3, 4, 2, 5), (2, 1, 3, 2, 2, 4)
SHAPES = (FIVE, (1, 2, 3, 3, 8), SIX)


def high_rank_cases() -> Iterable[ModelCase]:
    """Every case of these ranks, only in f32: other cases of the same kernels have halves."""
    for cases in (_moves(), _cuts(), _along_an_axis(), _pads(), _reductions(), _elementwise(), _products()):
        yield from (replace(case, halves=False) for case in cases)


def _moves() -> Iterable[ModelCase]:
    for shape, order in [
        (FIVE, (0, 1, 2, 4, 3)), (FIVE, (4, 2, 0, 3, 1)), (FIVE, (1, 0, 2, 3, 4)), (SIX, (0, 3, 1, 4, 2, 5)),
    ]:  # fmt: skip
        yield ModelCase("TRANSPOSE", f"{shape} {order}", (values(*shape), ints(*order)), exact=True)
    for shape, multiples in [
        (FIVE, (1, 1, 2, 1, 1)), (FIVE, (2, 1, 3, 1, 2)), (FIVE, (2, 2, 2, 2, 2)), ((1, 3, 1, 2, 8), (1, 1, 2, 1, 1)),
    ]:  # fmt: skip
        yield ModelCase("TILE", f"{shape} {multiples}", (values(*shape), ints(*multiples)), exact=True)
    for shape, target in [
        ((1, 3, 1, 2, 5), (2, 3, 4, 2, 5)), ((3, 1, 1), (2, 2, 3, 4, 5)), ((2, 1, 3, 1, 2, 1), (2, 3, 3, 2, 2, 4)),
    ]:  # fmt: skip
        inputs = (values(*shape), ints(*target))
        yield ModelCase("BROADCAST_TO", f"{shape} {target}", inputs, version=2, exact=True)
    for shape, target in [
        (FIVE, (6, 40)), ((6, 5, 8), FIVE), ((2, 4, 4, 6), (2, 4, 4, 3, 2)), ((2, 4, 4, 8), (1, 1, 1, 2, 4, 4, 2, 4)),
    ]:  # fmt: skip
        table = options("Reshape", newShape=list(target))
        yield ModelCase("RESHAPE", f"{shape} {target}", (values(*shape), ints(*target)), table, exact=True)
    for axis in (0, 2, -1):
        yield ModelCase("REVERSE_V2", f"{FIVE} {axis}", (values(*FIVE), ints(axis)), exact=True)
        inputs = (values(2, 3, 4, 5), Const(np.array(axis, np.int32)))
        yield ModelCase("EXPAND_DIMS", f"rank 5 {axis}", inputs, options("ExpandDims"), exact=True)
    table = options("Squeeze", squeezeDims=[1])
    yield ModelCase("SQUEEZE", f"{SIX}", (values(*SIX),), table, exact=True)


def _cuts() -> Iterable[ModelCase]:
    for begin, size in [((0, 1, 1, 0, 2), (2, 2, 3, 1, 3)), ((1, 0, 0, 0, 0), (1, 3, 4, 2, 5))]:
        inputs = (values(*FIVE), ints(*begin), ints(*size))
        yield ModelCase("SLICE", f"{FIVE} {begin} {size}", inputs, shapes=(size,), exact=True)
    for masks in ({}, {"shrinkAxisMask": 2}, {"endMask": 17}):
        inputs = (values(*FIVE), ints(0, 1, 0, 1, 0), ints(2, 2, 4, 2, 4), ints(1, 1, 2, 1, 2))
        yield ModelCase("STRIDED_SLICE", f"{FIVE} {masks}", inputs, options("StridedSlice", **masks), exact=True)
    for axis in (0, 2, 3):
        inputs, table = (Const(np.array(axis, np.int32)), values(*FIVE)), options("Split", numSplits=2)
        yield ModelCase("SPLIT", f"{FIVE} {axis}", inputs, table, 2, exact=True)
    inputs = (values(*FIVE), ints(1, -1, 2), Const(np.array(4, np.int32)))
    yield ModelCase("SPLIT_V", f"{FIVE} 4", inputs, options("SplitV", numSplits=3), 3, exact=True)
    inputs = (values(*FIVE), ints(0, 1, 2), Const(np.array(1, np.int32)))
    yield ModelCase("SPLIT_V", f"{FIVE} empty", inputs, options("SplitV", numSplits=3), 3, exact=True, halves=False)
    for axis, count in ((1, 3), (4, 5)):
        yield ModelCase("UNPACK", f"{FIVE} {axis}", (values(*FIVE),), options("Unpack", num=count, axis=axis), count,
                        exact=True)  # fmt: skip


def _along_an_axis() -> Iterable[ModelCase]:
    for shape in SHAPES:
        for axis in (0, 1, 2, -1):
            other = list(shape)
            other[axis] += 1
            table = options("Concatenation", axis=axis)
            yield ModelCase("CONCATENATION", f"{shape} {axis}", (values(*shape), values(*other)), table, exact=True)
    for shape in ((2, 3, 4, 5), FIVE):
        for axis in (0, 1, 3, -1):
            table = options("Pack", axis=axis, valuesCount=2)
            yield ModelCase("PACK", f"{shape} {axis}", (values(*shape), values(*shape, seed=1)), table, exact=True)
    for shape, indices, axis, batches in [
        (FIVE, (3,), 1, 0), (FIVE, (2, 2), 4, 0), (FIVE, (2, 3), 2, 1), ((3, 4), (2, 2, 1, 2), 0, 0),
        ((7, 5), (1, 2, 2, 3), 1, 0),
    ]:  # fmt: skip
        taken = np.arange(np.prod(indices), dtype=np.int32).reshape(indices) * 3 % shape[axis]
        table = options("Gather", axis=axis, batchDims=batches)
        inputs = (values(*shape), Const(taken))
        yield ModelCase("GATHER", f"{shape} {indices} {axis} {batches}", inputs, table, exact=True)
    for axis in (1, 4):
        x, given = np.round(values(*FIVE) * 4), Const(np.array(axis, np.int32))
        for operator, kind in (("ARG_MAX", "ArgMax"), ("ARG_MIN", "ArgMin")):
            yield ModelCase(operator, f"{FIVE} {axis}", (x, ints(axis)), options(kind, outputType=2), dtype="int32",
                            exact=True)  # fmt: skip
        yield ModelCase("CUMSUM", f"{FIVE} {axis}", (values(*FIVE), given), options("Cumsum"))
        indices = (np.arange(24).reshape(2, 3, 2, 2) * 5 % 5).astype(np.int32)
        numbers = (Const(np.array(n, t)) for n, t in ((3, np.int32), (2.5, np.float32), (-1, np.float32)))
        table = options("OneHot", axis=axis)
        yield ModelCase("ONE_HOT", f"rank 5 {axis}", (indices, *numbers), table, exact=True)


def _pads() -> Iterable[ModelCase]:
    for amounts in ([0, 1, 2, 0, 0], [1, 0, 0, 2, 0], [0, 0, 1, 0, 3], [1, 2, 1, 1, 1]):
        table = Const(np.array([(n, n // 2) for n in amounts], np.int32))
        yield ModelCase("PAD", f"{FIVE} {amounts}", (values(*FIVE), table), exact=True)
        inputs = (values(*FIVE), table, Const(np.array(2.5, np.float32)))
        yield ModelCase("PADV2", f"{FIVE} {amounts}", inputs, exact=True)
        if max(amounts) < 2 or amounts[3] < 2:
            mirrored = (values(*FIVE), Const(np.array([(n, n // 2) for n in amounts], np.int32)))
            yield ModelCase("MIRROR_PAD", f"{FIVE} {amounts}", mirrored, options("MirrorPad", mode=1), exact=True)


def _reductions() -> Iterable[ModelCase]:
    for shape, axes in [
        (FIVE, (1, 2, 4)), (FIVE, (0, 2)), (FIVE, (0, 2, 4)), (FIVE, (0, 1, 2, 3, 4)), (FIVE, (3,)), (SIX, (0, 2, 4)),
        ((1, 4, 4, 2, 8), (1, 2, 4)),
    ]:  # fmt: skip
        for operator in ("MEAN", "SUM", "REDUCE_MAX"):
            table = options("Reducer", keepDims=bool(len(axes) % 2 or operator == "SUM"))
            yield ModelCase(operator, f"{shape} {axes}", (values(*shape), ints(*axes)), table)


def _elementwise() -> Iterable[ModelCase]:
    for left, right in [
        (FIVE, FIVE), (FIVE, (5,)), (FIVE, (4, 1, 1)), (FIVE, (2, 1, 1, 2, 1)), ((2, 1, 4, 2, 5), (1, 3, 1, 2, 1)),
        (FIVE, (1, 3, 1, 1, 1)), (FIVE, ()),
    ]:  # fmt: skip
        x, y = values(*left), values(*right, seed=1)
        for operator, kind in (("ADD", "Add"), ("SUB", "Sub"), ("MUL", "Mul")):
            yield ModelCase(operator, f"{left} {right}", (x, y), options(kind))
        yield ModelCase("MUL", f"{left} {right} constant", (x, Const(y)), options("Mul"))
        case: dict[str, Any] = {"dtype": "bool", "exact": True}
        yield ModelCase("LESS", f"{left} {right}", (x, y), options("Less"), **case)
        target = np.broadcast_shapes(left, right)
        inputs = (np.asarray(values(*right, seed=3) > 0), values(*target), y)
        yield ModelCase("SELECT_V2", f"{left} {right}", inputs, options("SelectV2"), exact=True)
    for operator in ("NEG", "EXP", "LOGISTIC"):
        yield ModelCase(operator, f"{FIVE}", (values(*FIVE),))
    yield ModelCase("SOFTMAX", f"{FIVE}", (values(*FIVE),), options("Softmax", beta=1.0))


def _products() -> Iterable[ModelCase]:
    for batches, others in [
        ((2, 1, 3), (2, 1, 3)), ((2, 3, 2), (3, 2)), ((2, 1, 1), (1, 3, 2)), ((1, 2, 2), (3, 1, 1)), ((2, 2, 2), ()),
    ]:  # fmt: skip
        for turned in (0, 3):
            left, right = ((7, 5), (6, 7)) if turned else ((5, 7), (7, 6))
            table = options("BatchMatMul", adjX=bool(turned), adjY=bool(turned))
            inputs = (values(*batches, *left), values(*others, *right, seed=7))
            yield ModelCase("BATCH_MATMUL", f"rank 5 {batches} {others} {turned}", inputs, table)
    for shape, depth, keep in (FIVE, 5, True), (FIVE, 10, False), (SIX, 4, True):
        table = options("FullyConnected", keepNumDims=keep, fusedActivationFunction=1)
        for weights in (Const(values(7, depth)), values(7, depth)):
            label = f"{shape} {depth} {isinstance(weights, Const)}"
            yield ModelCase("FULLY_CONNECTED", label, (values(*shape), weights, Const(values(7))), table)
