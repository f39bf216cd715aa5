"""REVERSE_V2: a strided copy with negative strides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...operation import Parsed, TfliteNode, TfliteOp
from ...tensor import LARGEST_RANK, strides_of
from ..arguments import axis_of, index_constant, require_values
from .strided_copy import Digit, Rearrangement


@dataclass(frozen=True)
class Reverse(Rearrangement):
    """The input from end to start along ``axes`` of its ``rank`` dimensions."""

    axes: frozenset[int]
    rank: int

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [shapes[0]]

    @property
    def input_rank(self) -> int:
        return self.rank

    def order(self, shape: tuple[int, ...]) -> tuple[list[Digit], int]:
        strides = strides_of(shape)
        base = sum((shape[axis] - 1) * strides[axis] for axis in self.axes)
        digits = [
            (size, -stride if axis in self.axes else stride)
            for axis, (size, stride) in enumerate(zip(shape, strides, strict=True))
        ]
        return digits, base


def _parse_reverse(node: TfliteNode) -> Parsed:
    require_values(node.inputs[:1], node.outputs)
    rank = len(node.inputs[0].shape) if node.inputs[0] else 0
    axes = frozenset(axis_of(axis, rank) for axis in index_constant(node.inputs[1], "axes").reshape(-1))
    return Parsed(Reverse(axes, rank))


TFLITE = (
    TfliteOp(
        "REVERSE_V2", _parse_reverse, max_version=4, inputs=2, max_rank=LARGEST_RANK, moves_values=True,
        fold=lambda _, inputs: np.flip(inputs[0], tuple(inputs[1].reshape(-1).tolist())),
    ),
)  # fmt: skip
