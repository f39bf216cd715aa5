"""TILE and BROADCAST_TO: strided copies that read elements more than once."""

from __future__ import annotations

from dataclasses import dataclass

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import ranked, strides_of
from ..arguments import constant, require_movable
from .strided_copy import launch_strided_copy


@dataclass(frozen=True)
class Tile(Operation):
    """The input ``multiples[i]`` times along dimension i."""

    multiples: tuple[int, ...]

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [tuple(n * m for n, m in zip(shapes[0], self.multiples, strict=True))]

    def lower(self, lowering: Lowering) -> list[Launch]:
        source, multiples = lowering.inputs[0], self.multiples
        shape = ranked(lowering.shape(source), len(multiples))
        digits = [
            digit
            for size, stride, times in zip(shape, strides_of(shape), multiples, strict=True)
            for digit in ((times, 0), (size, stride))
        ]
        return [launch_strided_copy(lowering, source, lowering.outputs[0], digits)]


@dataclass(frozen=True)
class BroadcastTo(Operation):
    """The input repeated along its dimensions of size 1, and along new ones in front, up to ``destination``."""

    destination: tuple[int, ...]
    rank: int

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        same = self.destination[len(self.destination) - self.rank :]
        if any(size not in (1, wide) for size, wide in zip(shapes[0], same, strict=True)):
            raise ValueError(f"shape {shapes[0]} does not broadcast to {self.destination}")
        return [self.destination]

    def lower(self, lowering: Lowering) -> list[Launch]:
        source = lowering.inputs[0]
        shape = ranked(lowering.shape(source), self.rank)
        shape = (1,) * (len(self.destination) - len(shape)) + shape
        strides = strides_of(shape)
        digits = [
            (wide, 0 if size == 1 else stride)
            for wide, size, stride in zip(self.destination, shape, strides, strict=True)
        ]
        return [launch_strided_copy(lowering, source, lowering.outputs[0], digits)]


def _parse_tile(node: TfliteNode) -> Parsed:
    require_movable(node.inputs[:1], node.outputs)
    multiples = tuple(int(n) for n in constant(node.inputs[1], "multiples").reshape(-1))
    if node.inputs[0] is None or len(multiples) != len(node.inputs[0].shape) or min(multiples, default=1) < 1:
        raise Unsupported(f"multiples {multiples} do not fit the input")
    return Parsed(Tile(multiples))


def _parse_broadcast(node: TfliteNode) -> Parsed:
    require_movable(node.inputs[:1], node.outputs)
    destination = tuple(int(n) for n in constant(node.inputs[1], "shape").reshape(-1))
    if node.inputs[0] is None or len(destination) < len(node.inputs[0].shape):
        raise Unsupported(f"shape {destination} has fewer dimensions than the input")
    return Parsed(BroadcastTo(destination, len(node.inputs[0].shape)))


TFLITE = (
    TfliteOp("TILE", _parse_tile, max_version=3, inputs=2, moves_values=True),
    TfliteOp("BROADCAST_TO", _parse_broadcast, max_version=4, inputs=2),
)
