"""Cases of operators that move values: transposes, tiles, slices, splits, batches and space."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from .operator_models import SHAPES, Const, ModelCase, ints, options, values


def moving() -> Iterable[ModelCase]:
    def moves(operator: str, label: str, *inputs: Any, table: Any = None, version: int = 1) -> ModelCase:
        return ModelCase(operator, label, inputs, table, version=version, exact=True)

    for rank, shape in ((4, (2, 3, 5, 7)), (4, (1, 4, 8, 12)), (3, (2, 5, 6)), (2, (3, 10))):
        for order in list(itertools.permutations(range(rank)))[:: 3 if rank == 4 else 1]:
            yield moves("TRANSPOSE", f"{shape} {order}", values(*shape), ints(*order))
    for shape in SHAPES:
        for multiples in ([1, 2, 3, 2], [2, 1, 1, 3], [1, 1, 2, 1]):
            yield moves("TILE", f"{shape} {multiples}", values(*shape), ints(*multiples[-len(shape) :]))
        for axis in range(-1, len(shape)):
            yield moves("REVERSE_V2", f"{shape} {axis}", values(*shape), ints(axis))
    for shape, target in [
        ((1, 1, 1, 5), (2, 3, 4, 5)), ((3, 1, 5), (2, 3, 4, 5)), ((2, 1, 4, 1), (2, 3, 4, 6)), ((5,), (3, 5)),
        ((1, 8), (2, 3, 8)), ((4, 1), (2, 4, 7)), ((1, 3, 1, 8), (1, 3, 5, 8)), ((1,), (2, 2, 3)),
        ((2, 1), (2, 9)), ((1, 5, 1), (4, 5, 3)), ((2, 3, 1), (2, 3, 4)), ((1, 1), (5, 6)), ((6, 1), (2, 1, 6, 4)),
        ((1, 7), (7, 7)), ((2, 1, 1, 3), (2, 4, 5, 3)), ((1, 2, 3, 4), (2, 2, 3, 4)), ((4,), (2, 3, 5, 4)),
        ((3, 1, 1), (2, 3, 4, 4)), ((1, 4), (3, 2, 4)), ((2, 3), (2, 3)),
    ]:  # fmt: skip
        yield moves("BROADCAST_TO", f"{shape} {target}", values(*shape), ints(*target), version=2)
    for block in (2, 3, 4):
        for shape in ((2, 2, 3, 1), (1, 3, 2, 3), (2, 1, 4, 4), (1, 2, 2, 5), (1, 2, 1, 8), (2, 3, 2, 2), (1, 4, 4, 6)):
            b, h, w, c = shape
            depth = options("DepthToSpace", blockSize=block)
            yield moves("DEPTH_TO_SPACE", f"{shape} {block}", values(b, h, w, c * block * block), table=depth)
            space = options("SpaceToDepth", blockSize=block)
            yield moves("SPACE_TO_DEPTH", f"{shape} {block}", values(b, h * block, w * block, c), table=space)


def moving_truth() -> Iterable[ModelCase]:
    """Truth values, and small integers, through operators that move values."""
    x, y = values(2, 3, 5, 7) > 0, values(2, 3, 5, 2) > 0
    for operator, label, inputs, table in [
        ("TRANSPOSE", "bool", (x, ints(3, 0, 2, 1)), None),
        ("SLICE", "bool", (x, ints(0, 1, 1, 2), ints(2, 1, 3, 4)), None),
        ("CONCATENATION", "bool", (x, y), options("Concatenation", axis=3)),
        ("RESHAPE", "bool", (x, ints(6, 35)), options("Reshape", newShape=[6, 35])),
        ("GATHER", "bool", (x, ints(4, 0, 2)), options("Gather", axis=2)),
        ("REVERSE_V2", "bool", (x, ints(3)), None), ("EQUAL", "bool", (x, x[:1]), options("Equal")),
        ("NOT_EQUAL", "bool", (x, x[..., :1]), options("NotEqual")),
        ("EXPAND_DIMS", "bool", (x[0], Const(np.array(1, np.int32))), options("ExpandDims")),
    ]:  # fmt: skip
        shapes = ((2, 1, 3, 4),) if operator == "SLICE" else ()
        yield ModelCase(operator, label, inputs, table, shapes=shapes, dtype="bool", exact=True, halves=False)


def cutting() -> Iterable[ModelCase]:
    for shape in SHAPES:
        for label, begin, size in [
            ("middle", [n // 3 for n in shape], [max(n // 2, 1) for n in shape]),
            ("rest", [n // 2 for n in shape], [-1] * len(shape)),
            ("all", [0] * len(shape), list(shape)),
        ]:
            target = tuple(n - b if s == -1 else s for n, b, s in zip(shape, begin, size, strict=True))
            inputs = (values(*shape), ints(*begin), ints(*size))
            yield ModelCase("SLICE", f"{shape} {label}", inputs, shapes=(target,), exact=True)
    for case in STRIDED:
        shape, begin, end, steps, masks = case
        table = options("StridedSlice", **masks)
        inputs = (values(*shape), ints(*begin), ints(*end), ints(*steps))
        yield ModelCase("STRIDED_SLICE", f"{shape} {begin}:{end}:{steps} {masks}", inputs, table, exact=True)
    for shape in SHAPES:
        for axis, size in enumerate(shape):
            for parts in {size, 1, 2 if size % 2 == 0 else 1}:
                table = options("Split", numSplits=parts)
                inputs = (Const(np.array(axis - (parts == 1) * len(shape), np.int32)), values(*shape))
                yield ModelCase("SPLIT", f"{shape} {axis} {parts}", inputs, table, parts, exact=True)
            if size > 2:
                for sizes in ([1, size - 1], [size - 2, -1, 1], [0, 2, 0, -1]):
                    table, label = options("SplitV", numSplits=len(sizes)), f"{shape} {axis} {sizes}"
                    inputs = (values(*shape), ints(*sizes), Const(np.array(axis, np.int32)))
                    halves = 0 not in sizes  # of an empty part nothing is computed
                    yield ModelCase("SPLIT_V", label, inputs, table, len(sizes), exact=True, halves=halves)
            if len(shape) > 1:
                for sign in (axis, axis - len(shape)):
                    table = options("Unpack", num=size, axis=sign)
                    yield ModelCase("UNPACK", f"{shape} {sign}", (values(*shape),), table, size, exact=True)


STRIDED: list[tuple[tuple[int, ...], list[int], list[int], list[int], dict[str, int]]] = [
    ((2, 5, 6, 7), [0, 1, 2, 3], [2, 4, 6, 6], [1, 1, 1, 1], {}),
    ((2, 5, 6, 7), [0, 0, 0, 0], [2, 5, 6, 7], [1, 2, 3, 2], {}),
    ((2, 5, 6, 8), [0, 1, 1, 4], [2, 5, 6, 8], [1, 2, 2, 1], {}),
    ((2, 5, 6, 7), [-1, -3, -4, -5], [2, -1, -1, -1], [1, 1, 1, 2], {}),
    ((2, 5, 6, 7), [1, 4, 5, 6], [0, 0, 0, 0], [-1, -1, -2, -3], {}),
    ((2, 5, 6, 7), [1, 4, 5, 6], [0, 0, 0, 0], [-1, -1, -2, -3], {"endMask": 15}),
    ((2, 5, 6, 7), [1, 1, 1, 1], [1, 3, 4, 5], [1, 1, 1, 1], {"beginMask": 5}),
    ((2, 5, 6, 7), [0, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1], {"endMask": 14}),
    ((2, 5, 6, 7), [9, -9, 0, 0], [-9, 9, 99, 99], [-1, 1, 1, 1], {}),
    ((2, 5, 6, 7), [0, 2, 0, 0], [2, 3, 6, 7], [1, 1, 1, 1], {"shrinkAxisMask": 2}),
    ((2, 5, 6, 7), [1, 2, 0, 3], [2, 3, 6, 4], [1, 1, 1, 1], {"shrinkAxisMask": 11}),
    ((2, 5, 6, 7), [0, 0, 0, -2], [2, 5, 6, -1], [1, 1, 1, 1], {"shrinkAxisMask": 8}),
    ((2, 5, 6), [0, 0, 0], [2, 5, 6], [1, 1, 1], {"newAxisMask": 1}),
    ((5, 6), [0, 0, 0], [0, 5, 4], [1, 1, 1], {"newAxisMask": 1}),
    ((5, 6), [1, 0, 1], [4, 0, 5], [1, 1, 2], {"newAxisMask": 2}),
    ((5, 6), [0, 0, 1, 0], [0, 5, 5, 0], [1, 1, 1, 1], {"newAxisMask": 9}),
    ((2, 5, 6, 7), [0, 1], [0, 5], [1, 2], {"ellipsisMask": 1}),
    ((2, 5, 6, 7), [1, 0, 2], [2, 0, 6], [1, 1, 1], {"ellipsisMask": 2}),
    ((2, 5, 6, 7), [1, 0, 2], [2, 0, 3], [1, 1, 1], {"ellipsisMask": 2, "shrinkAxisMask": 4}),
    ((5, 6), [0, 0, 1], [0, 0, 4], [1, 1, 1], {"ellipsisMask": 1, "newAxisMask": 2}),
    ((2, 5, 6), [1, 2, 3], [2, 4, 6], [1, 1, 1], {"beginMask": 1, "endMask": 4}),
    ((2, 5, 6), [1], [2], [1], {"shrinkAxisMask": 1}),
    ((9,), [1], [8], [3], {}),
    ((9,), [-1], [-9], [-2], {}),
    ((3, 10), [0, 4], [3, 10], [2, 1], {}),
    ((3, 8), [1, 4], [3, 8], [1, 1], {}),
]


def batch_and_space() -> Iterable[ModelCase]:
    for block in ((2, 2), (1, 2), (3, 2), (2, 3)):
        for channels in (1, 3, 4, 5):
            for amounts in (((0, 0), (0, 0)), ((1, 2), (0, 1)), ((0, 1), (2, 0))):
                (h, w), ((top, bottom), (left, right)) = block, amounts
                shape = (2, 3 * h - top - bottom, 4 * w - left - right, channels)
                if min(shape) < 1:
                    continue
                table, label = Const(np.array(amounts, np.int32)), f"{block} {amounts} {channels}"
                inputs = (values(*shape), ints(*block), table)
                yield ModelCase("SPACE_TO_BATCH_ND", label, inputs, options("SpaceToBatchND"), exact=True)
                inputs = (values(2 * h * w, 3, 4, channels), ints(*block), table)
                yield ModelCase("BATCH_TO_SPACE_ND", label, inputs, options("BatchToSpaceND"), exact=True)
    same, label = Const(np.zeros((2, 2), np.int32)), "one picture, two channels"
    inputs = (values(1, 3, 4, 2), ints(1, 1), same)
    yield ModelCase("SPACE_TO_BATCH_ND", label, inputs, options("SpaceToBatchND"), exact=True)
    inputs = (values(6, 3, 4, 2), ints(3, 2), same)
    yield ModelCase("BATCH_TO_SPACE_ND", label, inputs, options("BatchToSpaceND"), exact=True)
    one = Const(np.array([[1, 2]], np.int32))
    inputs = (values(2, 6, 5), ints(3), one)
    yield ModelCase("SPACE_TO_BATCH_ND", "rank 3", inputs, options("SpaceToBatchND"), exact=True)
    inputs = (values(6, 4, 5), ints(3), one)
    yield ModelCase("BATCH_TO_SPACE_ND", "rank 3", inputs, options("BatchToSpaceND"), exact=True)


def movement_cases() -> Iterable[ModelCase]:
    """Every case of these operators."""
    yield from moving()
    yield from moving_truth()
    yield from cutting()
    yield from batch_and_space()
