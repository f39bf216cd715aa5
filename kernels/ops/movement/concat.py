"""CONCATENATION and PACK."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import bhwc, bhwc_axis, ranked, slices
from ..arguments import activation_epilogue, require_movable
from ..pointwise.elementwise import lower_copy
from .reshape import launch_reshape


@dataclass(frozen=True)
class Concatenation(Operation):
    """``axis`` of TFLite shapes of ``rank`` dimensions, not negative."""

    axis: int
    rank: int
    may_be_identity: ClassVar[bool] = True

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        axis = self.axis
        others = {shape[:axis] + shape[axis + 1 :] for shape in shapes}
        if len(others) > 1:
            raise ValueError(f"shapes {shapes} cannot be joined along axis {axis}")
        return [(*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """One dispatch joins two tensors; more are joined one after the other."""
        if len(lowering.inputs) == 1:
            return lower_copy(lowering)
        launches = []
        axis = bhwc_axis(self.axis, self.rank)
        joined, out = lowering.inputs[0], lowering.outputs[0]
        for number, source in enumerate(lowering.inputs[1:], 2):
            shape = list(lowering.shape(joined))
            shape[axis] += lowering.shape(source)[axis]
            destination = (
                out if number == len(lowering.inputs) else lowering.scratch((shape[0], shape[1], shape[2], shape[3]))
            )
            group_count = lowering.group_count(shape[0] * shape[1] * shape[2] * slices(shape[3]))
            launches.append(
                Launch("concat", {"first": joined, "second": source}, {"dst": destination}, group_count, {"AXIS": axis})
            )
            joined = destination
        return launches


def _parse_concatenation(node: TfliteNode) -> Parsed:
    require_movable(node.inputs, node.outputs)
    if any(tensor is None for tensor in node.inputs):
        raise Unsupported("an input is missing")
    rank = max(len(node.outputs[0].shape), 1)
    operation = Concatenation(node.options.Axis() % rank, rank)
    return Parsed(
        operation, tuple(range(len(node.inputs))), activation_epilogue(node.options.FusedActivationFunction())
    )


@dataclass(frozen=True)
class Pack(Operation):
    """Inputs of ``rank`` - 1 dimensions side by side along a new dimension ``axis``."""

    axis: int
    rank: int

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [(*shapes[0][: self.axis], len(shapes), *shapes[0][self.axis :])]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """Each input with its new dimension, then joined one after the other."""
        axis = bhwc_axis(self.axis, self.rank)
        shape = list(ranked(lowering.shape(lowering.outputs[0]), self.rank))
        shape[self.axis] = 1
        launches, parts = [], []
        for source in lowering.inputs:
            part = source
            if lowering.shape(source) != bhwc(tuple(shape)):
                part = lowering.scratch(bhwc(tuple(shape)))
                launches.append(launch_reshape(lowering, source, part))
            parts.append(part)
        joined = parts[0]
        for number, part in enumerate(parts[1:], 2):
            shape[self.axis] = number
            wide = bhwc(tuple(shape))
            destination = lowering.outputs[0] if number == len(parts) else lowering.scratch(wide)
            group_count = lowering.group_count(wide[0] * wide[1] * wide[2] * slices(wide[3]))
            launches.append(
                Launch("concat", {"first": joined, "second": part}, {"dst": destination}, group_count, {"AXIS": axis})
            )
            joined = destination
        return launches if len(parts) > 1 else [launch_reshape(lowering, lowering.inputs[0], lowering.outputs[0])]


def _parse_pack(node: TfliteNode) -> Parsed:
    require_movable(node.inputs, node.outputs)
    first = node.inputs[0]
    if first is None or any(tensor is None or tensor.shape != first.shape for tensor in node.inputs):
        raise Unsupported("it needs inputs of one shape")
    rank = len(first.shape) + 1
    return Parsed(Pack(node.options.Axis() % rank, rank), tuple(range(len(node.inputs))))


TFLITE = (
    TfliteOp(
        "CONCATENATION", _parse_concatenation, max_version=7, moves_values=True,
        fold=lambda options, inputs: np.concatenate(inputs, options.Axis()),
    ),
    TfliteOp(
        "PACK", _parse_pack, max_version=5, moves_values=True,
        fold=lambda options, inputs: np.stack(inputs, options.Axis()),
    ),
)  # fmt: skip
