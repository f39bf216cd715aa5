"""TRANSPOSE: a strided copy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...operation import Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import LARGEST_RANK, strides_of
from ..arguments import axis_of, index_constant, require_values
from .strided_copy import Digit, Rearrangement


@dataclass(frozen=True)
class Transpose(Rearrangement):
    """Dimension i of the output is dimension ``permutation[i]`` of the input."""

    permutation: tuple[int, ...]

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [tuple(shapes[0][axis] for axis in self.permutation)]

    @property
    def input_rank(self) -> int:
        return len(self.permutation)

    def order(self, shape: tuple[int, ...]) -> tuple[list[Digit], int]:
        strides = strides_of(shape)
        return [(shape[axis], strides[axis]) for axis in self.permutation], 0


def _parse_transpose(node: TfliteNode) -> Parsed:
    require_values(node.inputs[:1], node.outputs)
    source, order = node.inputs[0], index_constant(node.inputs[1], "permutation").reshape(-1)
    rank = len(source.shape) if source else 0
    order = tuple(axis_of(axis, rank) for axis in order)
    if sorted(order) != list(range(rank)):
        raise Unsupported(f"{order} is no permutation of {rank} dimensions")
    return Parsed(Transpose(order))


TFLITE = (
    TfliteOp(
        "TRANSPOSE", _parse_transpose, max_version=9, inputs=2, max_rank=LARGEST_RANK, moves_values=True,
        fold=lambda _, inputs: np.transpose(inputs[0], inputs[1].reshape(-1)),
    ),
)  # fmt: skip
