"""CONCATENATION and PACK."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...operation import Collapsed, Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import LARGEST_RANK, TensorId, around_axis, bhwc, bhwc_axis, ranked
from ..arguments import axis_of, require_values
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
        if len(lowering.inputs) == 1:
            return lower_copy(lowering)
        return _join(lowering, lowering.inputs, bhwc_axis(self.axis, self.rank))

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        return _collapsed(shapes, self.axis)


@dataclass(frozen=True)
class Pack(Operation):
    """Inputs of ``rank`` - 1 dimensions side by side along a new dimension ``axis``."""

    axis: int
    rank: int

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [(*shapes[0][: self.axis], len(shapes), *shapes[0][self.axis :])]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """A reshape of each input whose BHWC form changes with the new dimension, and then a concatenation."""
        shape = list(ranked(lowering.shape(lowering.outputs[0]), self.rank))
        shape[self.axis] = 1
        if len(lowering.inputs) == 1:
            return [launch_reshape(lowering, lowering.inputs[0], lowering.outputs[0])]
        launches, parts = list[Launch](), list[TensorId]()
        for source in lowering.inputs:
            part = source
            if lowering.shape(source) != bhwc(tuple(shape)):
                part = lowering.scratch(bhwc(tuple(shape)))
                launches.append(launch_reshape(lowering, source, part))
            parts.append(part)
        return [*launches, *_join(lowering, parts, bhwc_axis(self.axis, self.rank))]

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        return _collapsed([(*shape[: self.axis], 1, *shape[self.axis :]) for shape in shapes], self.axis)


def _collapsed(shapes: Sequence[tuple[int, ...]], axis: int) -> Sequence[Collapsed]:
    """The concatenation of tensors of these shapes along ``axis``, with four dimensions."""
    inputs = tuple(around_axis(shape, axis)[0] for shape in shapes)
    joined = Concatenation(around_axis(shapes[0], axis)[1], 4)
    return [Collapsed(joined, inputs, tuple(joined.output_shapes(list(inputs))))]


def launch_concat(lowering: Lowering, first: TensorId, second: TensorId, destination: TensorId, axis: int) -> Launch:
    """One dispatch that writes two tensors side by side along ``axis`` of BHWC."""
    reads, writes = {"first": first, "second": second}, {"dst": destination}
    return Launch("concat", reads, writes, lowering.groups_for(destination), {"AXIS": axis})


def _join(lowering: Lowering, parts: Sequence[TensorId], axis: int) -> list[Launch]:
    """Launches that write two or more tensors side by side to the output.

    One launch joins two tensors, so n tensors take n - 1 launches, each of which copies all that is joined so far.
    Most concatenations take none: transform/concatenations.py lets their inputs be written in place.
    """
    launches, joined = list[Launch](), parts[0]
    for number, part in enumerate(parts[1:], 2):
        shape = list(lowering.shape(joined))
        shape[axis] += lowering.shape(part)[axis]
        wide = (shape[0], shape[1], shape[2], shape[3])
        destination = lowering.outputs[0] if number == len(parts) else lowering.scratch(wide)
        launches.append(launch_concat(lowering, joined, part, destination, axis))
        joined = destination
    return launches


def _parse_concatenation(node: TfliteNode) -> Parsed:
    require_values(node.inputs, node.outputs)
    if node.inputs[0] is None or any(tensor is None for tensor in node.inputs):
        raise Unsupported("an input is missing")
    rank = len(node.inputs[0].shape)
    if node.options.FusedActivationFunction():
        raise Unsupported(
            "it has a fused activation function, which some of LiteRT's kernels refuse and others leave out"
        )
    return Parsed(Concatenation(axis_of(node.options.Axis(), rank), rank), tuple(range(len(node.inputs))))


def _parse_pack(node: TfliteNode) -> Parsed:
    require_values(node.inputs, node.outputs)
    first = node.inputs[0]
    if first is None or any(tensor is None or tensor.shape != first.shape for tensor in node.inputs):
        raise Unsupported("it needs inputs of one shape")
    rank = len(first.shape) + 1
    return Parsed(Pack(axis_of(node.options.Axis(), rank), rank), tuple(range(len(node.inputs))))


TFLITE = (
    TfliteOp(
        "CONCATENATION", _parse_concatenation, max_version=7, max_rank=LARGEST_RANK, moves_values=True, rescales=True,
        fold=lambda options, inputs: np.concatenate(inputs, options.Axis()),
    ),
    TfliteOp(
        "PACK", _parse_pack, max_version=5, max_rank=LARGEST_RANK, moves_values=True,
        fold=lambda options, inputs: np.stack(inputs, options.Axis()),
    ),
)  # fmt: skip
