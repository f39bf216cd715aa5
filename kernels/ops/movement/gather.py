"""Operators that compute or read whole numbers: ARG_MAX, ARG_MIN, ONE_HOT and GATHER."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...operation import Launch, Lowering, Operator, Parsed, Unsupported
from ...tensor import TensorInfo, ranked, slices
from ..arguments import constant, require_float, require_movable, require_type

INTEGERS = frozenset({"int32", "int64"})


@dataclass(frozen=True)
class OneHot:
    """``on`` at the index and ``off`` elsewhere, along a new dimension ``axis`` of ``depth`` values."""

    axis: int
    rank: int
    depth: int
    on: float
    off: float


@dataclass(frozen=True)
class Gather:
    """Rows along ``axis``; the first ``batches`` dimensions of the indices are the input's own.

    ``ranks`` are those of input and indices. An index that is computed outside the axis takes the nearest row.
    """

    axis: int
    batches: int
    ranks: tuple[int, int]


def _tiles(lowering: Lowering) -> int:
    batch, rows, columns, channels = lowering.shape(lowering.outputs[0])
    return lowering.group_count(batch * rows * columns * slices(channels))


def _parse_one_hot(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_type(INTEGERS, inputs[0])
    require_float(*inputs[2:], *outputs)
    depth, on, off = (constant(inputs[i], what).reshape(-1)[0] for i, what in ((1, "depth"), (2, "on"), (3, "off")))
    rank = len(inputs[0].shape) + 1 if inputs[0] else 1
    if depth < 1:
        raise Unsupported(f"depth {depth} must be positive")
    return Parsed(OneHot(options.Axis() % rank, rank, int(depth), float(on), float(off)))


def _one_hot_shapes(attributes: OneHot, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [(*shapes[0][: attributes.axis], attributes.depth, *shapes[0][attributes.axis :])]


def _lower_one_hot(lowering: Lowering) -> list[Launch]:
    attributes: OneHot = lowering.attributes
    shape = ranked(lowering.shape(lowering.outputs[0]), attributes.rank)
    constants: dict[str, int | float] = {
        "INNER": math.prod(shape[attributes.axis + 1 :]), "DEPTH": attributes.depth, "ON": attributes.on,
        "OFF": attributes.off,
    }  # fmt: skip
    reads, writes = {"indices": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
    return [Launch("one_hot", reads, writes, _tiles(lowering), constants)]


def _parse_gather(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    require_type(INTEGERS, inputs[1])
    source, indices = inputs[0], inputs[1]
    if source is None or indices is None or not source.shape:
        raise Unsupported("it needs indices, and an input of rank 1 or more")
    axis, batches = options.Axis() % len(source.shape), options.BatchDims() % (len(indices.shape) + 1)
    if batches > axis or indices.shape[:batches] != source.shape[:batches]:
        raise Unsupported(f"indices {indices.shape} do not share {batches} batch dimensions with {source.shape}")
    known = indices.constant
    if known is not None and known.size and not 0 <= known.min() <= known.max() < source.shape[axis]:
        raise Unsupported(f"indices are outside axis {axis} of {source.shape}")
    return Parsed(Gather(axis, batches, (len(source.shape), len(indices.shape))), (0, 1))


def _gather_shapes(attributes: Gather, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    (shape, indices), axis, batches = shapes, attributes.axis, attributes.batches
    if shape[:batches] != indices[:batches]:
        raise ValueError(f"indices {indices} do not share {batches} batch dimensions with {shape}")
    return [(*shape[:axis], *indices[batches:], *shape[axis + 1 :])]


def _lower_gather(lowering: Lowering) -> list[Launch]:
    attributes: Gather = lowering.attributes
    axis, batches = attributes.axis, attributes.batches
    tensors = zip(lowering.inputs, attributes.ranks, strict=True)
    shape, indices = (ranked(lowering.shape(tensor), rank) for tensor, rank in tensors)
    constants: dict[str, int | float] = {
        "INNER": math.prod(shape[axis + 1 :]), "AXIS": shape[axis], "OUTER": math.prod(shape[batches:axis]),
        "INDICES": math.prod(indices[batches:]),
    }  # fmt: skip
    reads, writes = {"src": lowering.inputs[0], "indices": lowering.inputs[1]}, {"dst": lowering.outputs[0]}
    return [Launch("gather", reads, writes, _tiles(lowering), constants)]


OPERATORS = (
    Operator("ONE_HOT", _parse_one_hot, _one_hot_shapes, _lower_one_hot, max_version=1),
    Operator("GATHER", _parse_gather, _gather_shapes, _lower_gather, max_version=8),
)
