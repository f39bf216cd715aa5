"""TRANSPOSE: a strided copy."""

from __future__ import annotations

from dataclasses import dataclass

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import ranked, strides_of
from ..arguments import axis_of, constant, require_movable
from .strided_copy import launch_strided_copy


@dataclass(frozen=True)
class Transpose(Operation):
    """Dimension i of the output is dimension ``order[i]`` of the input."""

    order: tuple[int, ...]

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [tuple(shapes[0][axis] for axis in self.order)]

    def lower(self, lowering: Lowering) -> list[Launch]:
        source, order = lowering.inputs[0], self.order
        shape = ranked(lowering.shape(source), len(order))
        strides = strides_of(shape)
        digits = [(shape[axis], strides[axis]) for axis in order]
        return [launch_strided_copy(lowering, source, lowering.outputs[0], digits)]


def _parse_transpose(node: TfliteNode) -> Parsed:
    require_movable(node.inputs[:1], node.outputs)
    source, order = node.inputs[0], constant(node.inputs[1], "permutation").reshape(-1)
    rank = len(source.shape) if source else 0
    order = tuple(axis_of(axis, rank) for axis in order)
    if sorted(order) != list(range(rank)):
        raise Unsupported(f"{order} is no permutation of {rank} dimensions")
    return Parsed(Transpose(order))


TFLITE = (TfliteOp("TRANSPOSE", _parse_transpose, max_version=9, inputs=2, moves_values=True),)
