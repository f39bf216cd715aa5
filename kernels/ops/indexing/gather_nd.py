"""GATHER_ND: parts of a tensor, each by an index that has a coordinate for each of the first dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...operation import Collapsed, Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import INDEX_DTYPES, LARGEST_RANK, ranked, strides_of
from ..arguments import NEAREST_PLACE, require_type, require_values

MOST_COORDINATES = 4


@dataclass(frozen=True)
class GatherNd(Operation):
    """An index has ``depth`` coordinates; ``ranks`` are those of input and indices.

    A coordinate that is computed outside the input takes the nearest place.
    """

    depth: int
    ranks: tuple[int, int]

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        shape, indices = shapes
        if indices[-1] != self.depth:
            raise ValueError(f"indices of shape {indices} do not have {self.depth} coordinates each")
        return [(*indices[:-1], *shape[self.depth :])]

    def lower(self, lowering: Lowering) -> list[Launch]:
        shape = ranked(lowering.shape(lowering.inputs[0]), self.ranks[0])
        constants = {"DEPTH": self.depth, "INNER": math.prod(shape[self.depth :])}
        constants |= coordinate_constants(shape[: self.depth], strides_of(shape))
        return [lowering.launch("gather_nd", ("src", "indices"), constants)]

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        """Indices in a row, and parts that are vectors."""
        (shape, indices), depth = shapes, self.depth
        source = (*shape[:depth], math.prod(shape[depth:])) if len(shape) > depth else shape
        if len(source) > MOST_COORDINATES:
            raise Unsupported(f"an input of shape {shape} has parts behind {depth} coordinates")
        gather, inputs = GatherNd(depth, (len(source), 2)), (source, (math.prod(indices[:-1]), depth))
        return [Collapsed(gather, inputs, tuple(gather.output_shapes(list(inputs))))]


def coordinate_constants(sizes: tuple[int, ...], strides: tuple[int, ...]) -> dict[str, int | float]:
    """The size and stride of the dimension of each coordinate, by the names that kernels know."""
    constants: dict[str, int | float] = {}
    for axis in range(MOST_COORDINATES):
        inside = axis < len(sizes)
        constants |= {f"SIZE_{axis}": sizes[axis] if inside else 1, f"STRIDE_{axis}": strides[axis] if inside else 0}
    return constants


def _parse(node: TfliteNode) -> Parsed:
    source, indices = node.inputs[:2]
    require_values([source], node.outputs)
    require_type(INDEX_DTYPES, indices)
    if source is None or indices is None or not indices.shape:
        raise Unsupported("it needs an input, and indices of rank 1 or more")
    depth = indices.shape[-1]
    if not 1 <= depth <= min(len(source.shape), MOST_COORDINATES):
        raise Unsupported(f"indices of {depth} coordinates do not fit an input of rank {len(source.shape)}")
    known = indices.constant
    if known is not None and known.size and ((known < 0) | (known >= source.shape[:depth])).any():
        raise Unsupported(f"tensor '{indices.name}' has indices outside the shape {source.shape}")
    return Parsed(GatherNd(depth, (len(source.shape), len(indices.shape))), (0, 1))


TFLITE = (
    TfliteOp(
        "GATHER_ND", _parse, max_version=5, inputs=2, max_rank=LARGEST_RANK, moves_values=True,
        unlike_litert=NEAREST_PLACE,
    ),
)  # fmt: skip
