"""REVERSE_V2: a strided copy with negative strides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...operation import Launch, Lowering, Operator, Parsed
from ...tensor import TensorInfo, ranked, strides_of
from ..arguments import constant, require_movable
from .strided_copy import launch_strided_copy


@dataclass(frozen=True)
class Reverse:
    """The input from end to start along ``axes`` of its ``rank`` dimensions."""

    axes: frozenset[int]
    rank: int


def _parse_reverse(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    rank = len(inputs[0].shape) if inputs[0] else 0
    axes = frozenset(int(axis) % max(rank, 1) for axis in constant(inputs[1], "axes").reshape(-1))
    return Parsed(Reverse(axes, rank))


def _lower_reverse(lowering: Lowering) -> list[Launch]:
    source, attributes = lowering.inputs[0], lowering.attributes
    shape = ranked(lowering.shape(source), attributes.rank)
    strides = strides_of(shape)
    base = sum((shape[axis] - 1) * strides[axis] for axis in attributes.axes)
    digits = [
        (size, -stride if axis in attributes.axes else stride)
        for axis, (size, stride) in enumerate(zip(shape, strides, strict=True))
    ]
    return [launch_strided_copy(lowering, source, lowering.outputs[0], digits, base)]


OPERATORS = (Operator("REVERSE_V2", _parse_reverse, lambda _, shapes: [shapes[0]], _lower_reverse, max_version=4),)
