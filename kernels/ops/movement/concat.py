"""CONCATENATION and PACK."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...operation import Launch, Lowering, Operator, Parsed, Unsupported
from ...tensor import TensorInfo, bhwc, bhwc_axis, ranked, slices
from ..arguments import activation_epilogue, require_movable
from ..pointwise.elementwise import lower_copy
from .reshape import launch_reshape


@dataclass(frozen=True)
class Concatenation:
    """``axis`` of TFLite shapes of ``rank`` dimensions, not negative."""

    axis: int
    rank: int


def _parse_concatenation(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs, outputs)
    if any(tensor is None for tensor in inputs):
        raise Unsupported("an input is missing")
    rank = max(len(outputs[0].shape), 1)
    attributes = Concatenation(options.Axis() % rank, rank)
    return Parsed(attributes, tuple(range(len(inputs))), activation_epilogue(options.FusedActivationFunction()))


def _concatenation_shapes(attributes: Concatenation, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    axis = attributes.axis
    others = {shape[:axis] + shape[axis + 1 :] for shape in shapes}
    if len(others) > 1:
        raise ValueError(f"shapes {shapes} cannot be joined along axis {axis}")
    return [(*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])]


def _lower_concatenation(lowering: Lowering) -> list[Launch]:
    """One dispatch joins two tensors; more are joined one after the other."""
    if len(lowering.inputs) == 1:
        return lower_copy(lowering)
    launches = []
    axis = bhwc_axis(lowering.attributes.axis, lowering.attributes.rank)
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


@dataclass(frozen=True)
class Pack:
    """Inputs of ``rank`` - 1 dimensions side by side along a new dimension ``axis``."""

    axis: int
    rank: int


def _parse_pack(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs, outputs)
    first = inputs[0]
    if first is None or any(tensor is None or tensor.shape != first.shape for tensor in inputs):
        raise Unsupported("it needs inputs of one shape")
    rank = len(first.shape) + 1
    return Parsed(Pack(options.Axis() % rank, rank), tuple(range(len(inputs))))


def _pack_shapes(attributes: Pack, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [(*shapes[0][: attributes.axis], len(shapes), *shapes[0][attributes.axis :])]


def _lower_pack(lowering: Lowering) -> list[Launch]:
    """Each input with its new dimension, then joined one after the other."""
    attributes: Pack = lowering.attributes
    axis = bhwc_axis(attributes.axis, attributes.rank)
    shape = list(ranked(lowering.shape(lowering.outputs[0]), attributes.rank))
    shape[attributes.axis] = 1
    launches, parts = [], []
    for source in lowering.inputs:
        part = source
        if lowering.shape(source) != bhwc(tuple(shape)):
            part = lowering.scratch(bhwc(tuple(shape)))
            launches.append(launch_reshape(lowering, source, part))
        parts.append(part)
    joined = parts[0]
    for number, part in enumerate(parts[1:], 2):
        shape[attributes.axis] = number
        wide = bhwc(tuple(shape))
        destination = lowering.outputs[0] if number == len(parts) else lowering.scratch(wide)
        group_count = lowering.group_count(wide[0] * wide[1] * wide[2] * slices(wide[3]))
        launches.append(
            Launch("concat", {"first": joined, "second": part}, {"dst": destination}, group_count, {"AXIS": axis})
        )
        joined = destination
    return launches if len(parts) > 1 else [launch_reshape(lowering, lowering.inputs[0], lowering.outputs[0])]


OPERATORS = (
    Operator("CONCATENATION", _parse_concatenation, _concatenation_shapes, _lower_concatenation, max_version=7),
    Operator("PACK", _parse_pack, _pack_shapes, _lower_pack, max_version=5),
)
