"""Cases of operators that take indices, of shifts, and of local response normalization."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from .operator_models import SHAPES, Const, ModelCase, ints, options, values

INDEXED = (
    ((2, 5, 6), (3, 1)), ((2, 5, 6), (4, 2)), ((2, 5, 6), (3, 3)), ((2, 5, 6), (2, 2, 2)), ((5, 6, 3, 4), (3, 1)),
    ((5, 6, 3, 4), (2, 4, 2)), ((2, 3, 5, 7), (3, 3)), ((2, 3, 5, 7), (2, 3, 4)), ((9,), (7, 1)), ((9,), (1,)),
    ((9, 8), (2, 1)), ((9, 8), (3, 5, 2)), ((9, 2), (2,)), ((4, 3), (1,)),
)  # fmt: skip
"""Shapes of a tensor and of indices into it; the last dimension of those is the number of coordinates."""


def indices_into(shape: tuple[int, ...], indices: tuple[int, ...]) -> npt.NDArray[np.int32]:
    """Indices of that shape inside a tensor; some are the same."""
    count = math.prod(indices[:-1])
    columns = [(np.arange(count) * (5 + axis) + axis) % shape[axis] for axis in range(indices[-1])]
    return np.stack(columns, -1).reshape(indices).astype(np.int32)


def gathers() -> Iterable[ModelCase]:
    deep = (
        ((2, 3, 2, 4, 5), (3, 2)),
        ((2, 3, 2, 4, 5), (2, 2, 3)),
        ((1, 2, 3, 2, 2, 4), (4, 1)),
        ((4, 3), (2, 1, 2, 3, 1)),
    )
    for number, (shape, indices) in enumerate((*INDEXED, *deep)):
        places, label = indices_into(shape, indices), f"{shape} {indices}"
        inputs = (values(*shape), Const(places))
        yield ModelCase("GATHER_ND", label, inputs, options("GatherNd"), exact=True)
        inputs = (values(*shape), places.astype(np.int64) if number % 2 else places)
        yield ModelCase("GATHER_ND", f"{label} computed", inputs, options("GatherNd"), exact=True, halves=False)
    for number, (rows, shape) in enumerate(
        [(7, (3,)), (6, (4,)), (5, (2, 5)), (9, (3, 2)), (4, (2, 3, 8)), (8, (6,)), (3, (2, 2, 3, 5))]
    ):
        for count in (1, 4):
            numbers = (np.arange(count) * 5 % rows).astype(np.int32)
            inputs, label = (Const(numbers), values(rows, *shape)), f"{rows} {shape} {count}"
            yield ModelCase("EMBEDDING_LOOKUP", label, inputs, exact=True)
            inputs = (numbers, Const(values(rows, *shape)) if number % 2 else values(rows, *shape))
            yield ModelCase("EMBEDDING_LOOKUP", f"{label} computed", inputs, exact=True, halves=False)


def scatters() -> Iterable[ModelCase]:
    for shape, indices in INDEXED:
        places, label = indices_into(shape, indices), f"{shape} {indices}"
        updates = values(*indices[:-1], *shape[indices[-1] :])
        table = options("ScatterNd")
        if not updates.shape:
            continue  # LiteRT refuses a single number
        yield ModelCase("SCATTER_ND", label, (Const(places), updates, ints(*shape)), table)
        inputs = (places, updates, ints(*shape))
        yield ModelCase("SCATTER_ND", f"{label} computed", inputs, table, halves=False)
    for shape, count in [
        ((9,), 4), ((7,), None), ((3, 10), 5), ((2, 4), 1), ((2, 5, 6), 7), ((3, 2, 9), 3), ((2, 3, 4, 7), 9),
        ((1, 3, 4, 2), 5), ((4, 1), 2), ((2, 3), 4),
    ]:  # fmt: skip
        places = indices_into(shape, (count or 1, len(shape)))
        if len(shape) == 1:
            places = places.reshape(() if count is None else (count,))
        fill, table = Const(np.float32(-0.5)), options("SparseToDense")
        for single in (True, False) if count else (True,):
            given = values() if single else values(count or 1)
            inputs = (Const(places), ints(*shape), given, fill)
            yield ModelCase("SPARSE_TO_DENSE", f"{shape} {count} {single}", inputs, table, exact=True)
            inputs, label = (places, *inputs[1:]), f"{shape} {count} {single} computed"
            yield ModelCase("SPARSE_TO_DENSE", label, inputs, table, exact=True, halves=False)


def updates() -> Iterable[ModelCase]:
    for shape in SHAPES:
        parts = [tuple(max(size // 2, 1) for size in shape), (*(max(size - 1, 1) for size in shape[:-1]), shape[-1])]
        for number, part in enumerate(parts):
            for place in ([0] * len(shape), [1] * len(shape), [n * 2 - 3 for n in shape]):
                starts = np.array(place, np.int32)
                inputs = (values(*shape), values(*part, seed=1), Const(starts))
                label, table = f"{shape} {part} {place}", options("DynamicUpdateSlice")
                if number or place[0]:
                    yield ModelCase("DYNAMIC_UPDATE_SLICE", label, inputs, table, exact=True)
                inputs = (*inputs[:2], starts)
                label = f"{label} computed"
                yield ModelCase("DYNAMIC_UPDATE_SLICE", label, inputs, table, exact=True, halves=False)


def computed_slices() -> Iterable[ModelCase]:
    """Slices that begin at a place that is computed; their sizes are known."""
    for shape, begin, size in [
        ((2, 3, 5, 7), (1, 0, 2, 3), (1, 2, 3, 4)), ((2, 3, 5, 8), (0, 1, 2, 0), (2, 2, 3, 8)), ((9,), (4,), (3,)),
        ((5, 6), (2, 1), (2, 5)), ((2, 5, 6), (1, 0, 4), (1, 5, 2)), ((3, 4, 1), (1, 2, 0), (2, 1, 1)),
        ((2, 3, 4, 2, 5), (1, 0, 1, 0, 2), (1, 3, 2, 2, 3)), ((3, 1, 6, 4), (1, 0, 5, 0), (2, 1, 1, 4)),
        ((2, 2, 3, 6), (0, 1, 2, 3), (2, 1, 1, 2)),
    ]:  # fmt: skip
        kind = np.int64 if len(shape) == 3 else np.int32
        inputs = (values(*shape), np.array(begin, kind), Const(np.array(size, kind)))
        yield ModelCase("SLICE", f"{shape} {begin} computed", inputs, exact=True, halves=False, shapes=(size,))
    for shape, begin, masks, left in [
        ((2, 3, 5, 7), (0, 1, 0, 0), {"beginMask": 13, "endMask": 13, "shrinkAxisMask": 2}, (2, 5, 7)),
        ((2, 3, 5, 8), (1, 0, -2, 0), {"beginMask": 10, "endMask": 10, "shrinkAxisMask": 5}, (3, 8)),
        ((4, 9), (0, -1), {"beginMask": 1, "endMask": 1, "shrinkAxisMask": 2}, (4,)),
        ((9, 6), (7,), {"shrinkAxisMask": 1}, (6,)),
        ((2, 5, 6), (3,), {"ellipsisMask": 1, "shrinkAxisMask": 2, "newAxisMask": 4}, (2, 5, 1)),
        ((3, 2, 2, 3, 4), (2,), {"shrinkAxisMask": 1}, (2, 2, 3, 4)),
    ]:  # fmt: skip
        begin = (0, *begin, 0) if "ellipsisMask" in masks else begin
        steps, table = ints(*[1] * len(begin)), options("StridedSlice", **masks)
        inputs = (values(*shape), np.array(begin, np.int32), np.array(begin, np.int32) + 1, steps)
        label = f"{shape} {begin} {masks['shrinkAxisMask']} computed"
        yield ModelCase("STRIDED_SLICE", label, inputs, table, exact=True, halves=False, shapes=(left,))


def shifts() -> Iterable[ModelCase]:
    for shape in [*SHAPES, (2, 3, 4, 2, 5)]:
        for dtype in ("int8", "uint8", "int16"):
            kind = np.iinfo(dtype)
            given = np.linspace(kind.min, kind.max, math.prod(shape)).astype(dtype).reshape(shape)
            places = (np.arange(math.prod(shape)) % (kind.bits + 1)).astype(dtype).reshape(shape)
            for operator in ("RIGHT_SHIFT",) if dtype == "uint8" else ("RIGHT_SHIFT", "STABLEHLO_SHIFT_LEFT"):
                inputs, label = (given, places), f"{shape} {dtype}"
                table = options("RightShift") if operator == "RIGHT_SHIFT" else None
                yield ModelCase(operator, label, inputs, table, dtype=dtype, exact=True, halves=False)
                inputs = (given, Const(places))
                yield ModelCase(operator, f"{label} constant", inputs, table, dtype=dtype, exact=True, halves=False)


def local_responses() -> Iterable[ModelCase]:
    for shape in ((2, 3, 5, 7), (1, 4, 5, 8), (2, 6, 3, 1), (1, 2, 3, 6), (1, 3, 2, 17)):
        for radius, bias, alpha, beta in ((2, 1.0, 0.5, 0.75), (0, 0.5, 1.0, 0.5), (5, 2.0, 0.25, 1.0), (1, 1, 1, 2)):
            table = options("LocalResponseNormalization", radius=radius, bias=bias, alpha=alpha, beta=beta)
            label = f"{shape} {radius} {beta}"
            yield ModelCase("LOCAL_RESPONSE_NORMALIZATION", label, (values(*shape) * 3,), table)


def shapes_of_both() -> Iterable[ModelCase]:
    sizes = ((2, 3, 5, 7), (5, 7), (1,), (3, 1, 1), (2, 1, 5, 1), (1, 3), (), (7,))
    for left in sizes:
        for right in sizes:
            try:
                np.broadcast_shapes(left, right)
            except ValueError:
                continue
            inputs, label = (ints(*left), ints(*right)), f"{left} {right}"
            yield ModelCase("BROADCAST_ARGS", label, inputs, dtype="int32", exact=True, halves=False, known=True)


def indexing_cases() -> Iterable[ModelCase]:
    """Every case of these operators."""
    yield from gathers()
    yield from scatters()
    yield from updates()
    yield from computed_slices()
    yield from shifts()
    yield from local_responses()
    yield from shapes_of_both()
