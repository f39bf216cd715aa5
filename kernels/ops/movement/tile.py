"""TILE and BROADCAST_TO: strided copies that read elements more than once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...operation import Collapsed, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import LARGEST_RANK, strides_of
from ..arguments import require_values, shape_constant
from .strided_copy import MAX_DIGITS, Digit, Rearrangement, StridedCopy, merged_digits


@dataclass(frozen=True)
class Tile(Rearrangement):
    """The input ``multiples[i]`` times along dimension i."""

    multiples: tuple[int, ...]

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [tuple(n * m for n, m in zip(shapes[0], self.multiples, strict=True))]

    @property
    def input_rank(self) -> int:
        return len(self.multiples)

    def order(self, shape: tuple[int, ...]) -> tuple[list[Digit], int]:
        digits = [
            digit
            for size, stride, times in zip(shape, strides_of(shape), self.multiples, strict=True)
            for digit in ((times, 0), (size, stride))
        ]
        return digits, 0

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        """One copy, or one for each dimension if it counts along too many."""
        if len(merged_digits(self.order(shapes[0])[0])) <= MAX_DIGITS:
            return super().collapsed(shapes)
        steps, shape = list[Collapsed](), shapes[0]
        for axis, times in enumerate(self.multiples):
            rest = math.prod(shape[axis:])
            wide = (*shape[:axis], shape[axis] * times, *shape[axis + 1 :])
            digits = ((math.prod(shape[:axis]), rest), (times, 0), (rest, 1))
            steps.append(Collapsed(StridedCopy(digits, 0, wide), (shape,), (wide,)))
            shape = wide
        return steps


@dataclass(frozen=True)
class BroadcastTo(Rearrangement):
    """The input repeated along its dimensions of size 1, and along new ones in front, up to ``destination``."""

    destination: tuple[int, ...]
    rank: int

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        same = self.destination[len(self.destination) - self.rank :]
        if any(size not in (1, wide) for size, wide in zip(shapes[0], same, strict=True)):
            raise ValueError(f"shape {shapes[0]} does not broadcast to {self.destination}")
        return [self.destination]

    @property
    def input_rank(self) -> int:
        return self.rank

    def order(self, shape: tuple[int, ...]) -> tuple[list[Digit], int]:
        shape = (1,) * (len(self.destination) - len(shape)) + shape
        digits = [
            (wide, 0 if size == 1 else stride)
            for wide, size, stride in zip(self.destination, shape, strides_of(shape), strict=True)
        ]
        return digits, 0


def _parse_tile(node: TfliteNode) -> Parsed:
    require_values(node.inputs[:1], node.outputs)
    multiples = tuple(int(n) for n in shape_constant(node.inputs[1], "multiples").reshape(-1))
    if node.inputs[0] is None or len(multiples) != len(node.inputs[0].shape) or min(multiples, default=1) < 1:
        raise Unsupported(f"multiples {multiples} do not fit the input")
    return Parsed(Tile(multiples))


def _parse_broadcast(node: TfliteNode) -> Parsed:
    require_values(node.inputs[:1], node.outputs)
    destination = tuple(int(n) for n in shape_constant(node.inputs[1], "shape").reshape(-1))
    if node.inputs[0] is None or len(destination) < len(node.inputs[0].shape):
        raise Unsupported(f"shape {destination} has fewer dimensions than the input")
    return Parsed(BroadcastTo(destination, len(node.inputs[0].shape)))


TFLITE = (
    TfliteOp(
        "TILE", _parse_tile, max_version=3, inputs=2, max_rank=LARGEST_RANK, moves_values=True,
        fold=lambda _, inputs: np.tile(inputs[0], inputs[1].reshape(-1)),
    ),
    TfliteOp(
        "BROADCAST_TO", _parse_broadcast, max_version=4, inputs=2, max_rank=LARGEST_RANK, moves_values=True,
        fold=lambda _, inputs: np.broadcast_to(inputs[0], inputs[1].reshape(-1)),
    ),
)  # fmt: skip
