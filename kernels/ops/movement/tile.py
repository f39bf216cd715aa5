"""TILE and BROADCAST_TO: strided copies that read elements more than once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...operation import Launch, Lowering, Operator, Parsed, Unsupported
from ...tensor import TensorInfo, ranked, strides_of
from ..arguments import constant, require_movable
from .strided_copy import launch_strided_copy


@dataclass(frozen=True)
class Tile:
    """The input ``multiples[i]`` times along dimension i."""

    multiples: tuple[int, ...]


@dataclass(frozen=True)
class BroadcastTo:
    """The input repeated along its dimensions of size 1, and along new ones in front, up to ``destination``."""

    destination: tuple[int, ...]
    rank: int


def _parse_tile(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    multiples = tuple(int(n) for n in constant(inputs[1], "multiples").reshape(-1))
    if inputs[0] is None or len(multiples) != len(inputs[0].shape) or min(multiples, default=1) < 1:
        raise Unsupported(f"multiples {multiples} do not fit the input")
    return Parsed(Tile(multiples))


def _lower_tile(lowering: Lowering) -> list[Launch]:
    source, multiples = lowering.inputs[0], lowering.attributes.multiples
    shape = ranked(lowering.shape(source), len(multiples))
    digits = [
        digit
        for size, stride, times in zip(shape, strides_of(shape), multiples, strict=True)
        for digit in ((times, 0), (size, stride))
    ]
    return [launch_strided_copy(lowering, source, lowering.outputs[0], digits)]


def _parse_broadcast(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    destination = tuple(int(n) for n in constant(inputs[1], "shape").reshape(-1))
    if inputs[0] is None or len(destination) < len(inputs[0].shape):
        raise Unsupported(f"shape {destination} has fewer dimensions than the input")
    return Parsed(BroadcastTo(destination, len(inputs[0].shape)))


def _broadcast_shapes(attributes: BroadcastTo, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    same = attributes.destination[len(attributes.destination) - attributes.rank :]
    if any(size not in (1, wide) for size, wide in zip(shapes[0], same, strict=True)):
        raise ValueError(f"shape {shapes[0]} does not broadcast to {attributes.destination}")
    return [attributes.destination]


def _lower_broadcast(lowering: Lowering) -> list[Launch]:
    source, attributes = lowering.inputs[0], lowering.attributes
    shape = ranked(lowering.shape(source), attributes.rank)
    shape = (1,) * (len(attributes.destination) - len(shape)) + shape
    strides = strides_of(shape)
    digits = [
        (wide, 0 if size == 1 else stride)
        for wide, size, stride in zip(attributes.destination, shape, strides, strict=True)
    ]
    return [launch_strided_copy(lowering, source, lowering.outputs[0], digits)]


OPERATORS = (
    Operator(
        "TILE",
        _parse_tile,
        lambda attributes, shapes: [tuple(n * m for n, m in zip(shapes[0], attributes.multiples, strict=True))],
        _lower_tile,
        max_version=3,
    ),
    Operator("BROADCAST_TO", _parse_broadcast, _broadcast_shapes, _lower_broadcast, max_version=4),
)
