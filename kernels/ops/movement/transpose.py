"""TRANSPOSE: a strided copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...operation import Launch, Lowering, Operator, Parsed, Unsupported
from ...tensor import TensorInfo, ranked, strides_of
from ..arguments import constant, require_movable
from .strided_copy import launch_strided_copy


@dataclass(frozen=True)
class Transpose:
    """Dimension i of the output is dimension ``order[i]`` of the input."""

    order: tuple[int, ...]


def _parse_transpose(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    source, order = inputs[0], constant(inputs[1], "permutation").reshape(-1)
    rank = len(source.shape) if source else 0
    order = tuple(int(axis) % max(rank, 1) for axis in order)
    if sorted(order) != list(range(rank)):
        raise Unsupported(f"{order} is no permutation of {rank} dimensions")
    return Parsed(Transpose(order))


def _lower_transpose(lowering: Lowering) -> list[Launch]:
    source, order = lowering.inputs[0], lowering.attributes.order
    shape = ranked(lowering.shape(source), len(order))
    strides = strides_of(shape)
    digits = [(shape[axis], strides[axis]) for axis in order]
    return [launch_strided_copy(lowering, source, lowering.outputs[0], digits)]


OPERATORS = (
    Operator(
        "TRANSPOSE",
        _parse_transpose,
        lambda attributes, shapes: [tuple(shapes[0][axis] for axis in attributes.order)],
        _lower_transpose,
        max_version=9,
    ),
)
