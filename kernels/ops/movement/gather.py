"""GATHER and ONE_HOT."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...operation import Collapsed, Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import INDEX_DTYPES, LARGEST_RANK, around_axis, ranked
from ..arguments import NEAREST_PLACE, axis_of, constant, is_index, require_float, require_type, require_values


@dataclass(frozen=True)
class OneHot(Operation):
    """``on`` at the index and ``off`` elsewhere, along a new dimension ``axis`` of ``depth`` values."""

    axis: int
    rank: int
    depth: int
    on: float | int
    off: float | int

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [(*shapes[0][: self.axis], self.depth, *shapes[0][self.axis :])]

    def lower(self, lowering: Lowering) -> list[Launch]:
        shape = ranked(lowering.shape(lowering.outputs[0]), self.rank)
        constants: dict[str, int | float] = {
            "INNER": math.prod(shape[self.axis + 1 :]), "DEPTH": self.depth, "ON": self.on,
            "OFF": self.off,
        }  # fmt: skip
        return [lowering.launch("one_hot", ("indices",), constants)]

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        output, axis = around_axis(self.output_shapes(shapes)[0], self.axis)
        indices = (*output[:axis], *output[axis + 1 :])
        return [Collapsed(replace(self, axis=axis, rank=4), (indices,), (output,))]


@dataclass(frozen=True)
class Gather(Operation):
    """Rows along ``axis``, chosen by indices. The first ``batches`` dimensions of the indices are those of the input.

    ``ranks`` are those of input and indices. An index that is computed outside the axis takes the nearest row.
    """

    axis: int
    batches: int
    ranks: tuple[int, int]

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        (shape, indices), axis, batches = shapes, self.axis, self.batches
        if shape[:batches] != indices[:batches]:
            raise ValueError(f"indices {indices} do not share {batches} batch dimensions with {shape}")
        return [(*shape[:axis], *indices[batches:], *shape[axis + 1 :])]

    def lower(self, lowering: Lowering) -> list[Launch]:
        axis, batches = self.axis, self.batches
        tensors = zip(lowering.inputs, self.ranks, strict=True)
        shape, indices = (ranked(lowering.shape(tensor), rank) for tensor, rank in tensors)
        constants: dict[str, int | float] = {
            "INNER": math.prod(shape[axis + 1 :]), "AXIS": shape[axis], "OUTER": math.prod(shape[batches:axis]),
            "INDICES": math.prod(indices[batches:]),
        }  # fmt: skip
        return [lowering.launch("gather", ("src", "indices"), constants)]

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        """The gather with four dimensions: batch, dimensions before the axis, the axis, and dimensions behind it if
        there are any.
        """
        (shape, indices), axis, batches = shapes, self.axis, self.batches
        behind = (math.prod(shape[axis + 1 :]),) if axis + 1 < len(shape) else ()
        source = (math.prod(shape[:batches]), math.prod(shape[batches:axis]), shape[axis], *behind)
        inputs = (source, (source[0], math.prod(indices[batches:])))
        gather = Gather(2, 1, (len(source), 2))
        return [Collapsed(gather, inputs, tuple(gather.output_shapes(list(inputs))))]


def _parse_one_hot(node: TfliteNode) -> Parsed:
    require_type(INDEX_DTYPES, node.inputs[0])
    integers = all(is_index(tensor, node.outputs[0].dtype) for tensor in node.inputs[2:])
    if not integers:
        require_float(*node.inputs[2:], *node.outputs)
    depth, on, off = (
        constant(node.inputs[i], what).reshape(-1)[0] for i, what in ((1, "depth"), (2, "on"), (3, "off"))
    )
    rank = len(node.inputs[0].shape) + 1 if node.inputs[0] else 1
    if depth < 1:
        raise Unsupported(f"depth {depth} must be positive")
    axis = axis_of(node.options.Axis(), rank)
    if integers:
        bounds = min(int(on), int(off)), max(int(on), int(off))
        return Parsed(OneHot(axis, rank, int(depth), int(on), int(off)), integers=True, bounds=bounds)
    return Parsed(OneHot(axis, rank, int(depth), float(on), float(off)))


def _parse_gather(node: TfliteNode) -> Parsed:
    require_values(node.inputs[:1], node.outputs)
    require_type(INDEX_DTYPES, node.inputs[1])
    source, indices = node.inputs[0], node.inputs[1]
    if source is None or indices is None or not source.shape:
        raise Unsupported("it needs indices, and an input of rank 1 or more")
    axis, batches = axis_of(node.options.Axis(), len(source.shape)), node.options.BatchDims()
    batches += len(indices.shape) if batches < 0 else 0
    if not 0 <= batches <= len(indices.shape):
        raise Unsupported(f"{batches} batch dimensions are not those of indices of shape {indices.shape}")
    if batches > axis or indices.shape[:batches] != source.shape[:batches]:
        raise Unsupported(f"indices {indices.shape} do not share {batches} batch dimensions with {source.shape}")
    known = indices.constant
    if known is not None and known.size and not 0 <= known.min() <= known.max() < source.shape[axis]:
        raise Unsupported(f"indices are outside axis {axis} of {source.shape}")
    return Parsed(Gather(axis, batches, (len(source.shape), len(indices.shape))), (0, 1))


def _fold_gather(options: Any, inputs: list[np.ndarray]) -> np.ndarray:
    values, indices = inputs
    if options.BatchDims() or indices.min(initial=0) < 0:
        raise ValueError("batches are not folded, and a negative index counts from no end")
    return np.take(values, indices, options.Axis())


TFLITE = (
    TfliteOp(
        "ONE_HOT", _parse_one_hot, max_version=1, inputs=4, max_rank=LARGEST_RANK, results=(2,), moves_values=True,
    ),
    TfliteOp(
        "GATHER", _parse_gather, max_version=8, inputs=2, max_rank=LARGEST_RANK, moves_values=True,
        fold=_fold_gather, unlike_litert=NEAREST_PLACE,
    ),
)  # fmt: skip
