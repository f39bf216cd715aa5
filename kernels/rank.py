"""Operators that change the number of dimensions: SQUEEZE, EXPAND_DIMS and PACK."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .conv import constant
from .elementwise import require_movable
from .layout import bhwc, bhwc_axis, slices
from .operator import Launch, Lowering, Operator, Parsed, TensorInfo, Unsupported
from .view import ranked


@dataclass(frozen=True)
class Squeeze:
    """Without the dimensions ``axes``, which have size 1; without all of that size where there are no axes."""

    axes: tuple[int, ...]


@dataclass(frozen=True)
class ExpandDimensions:
    """A new dimension of size 1 before dimension ``axis``."""

    axis: int


@dataclass(frozen=True)
class Pack:
    """Inputs of ``rank`` - 1 dimensions side by side along a new dimension ``axis``."""

    axis: int
    rank: int


def launch_reshape(lowering: Lowering, source: int, target: int) -> Launch:
    """One dispatch that writes the values of ``source``, in their order, to ``target``."""
    batch, rows, columns, channels = lowering.shape(target)
    tiles = lowering.tiles(batch * rows * columns * slices(channels))
    return Launch("reshape", {"src": source}, {"dst": target}, tiles)


def _lower_reshape(lowering: Lowering) -> list[Launch]:
    return [launch_reshape(lowering, lowering.inputs[0], lowering.outputs[0])]


def _parse_squeeze(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    if inputs[0] is None:
        raise Unsupported("it needs an input")
    rank = max(len(inputs[0].shape), 1)
    given = options.SqueezeDimsAsNumpy().tolist() if options and options.SqueezeDimsLength() else []
    return Parsed(Squeeze(tuple(sorted({int(axis) % rank for axis in given}))))


def _squeeze_shapes(attributes: Squeeze, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    axes = attributes.axes or [axis for axis, size in enumerate(shapes[0]) if size == 1]
    if any(shapes[0][axis] != 1 for axis in axes):
        raise ValueError(f"dimensions {axes} of {shapes[0]} do not all have size 1")
    return [tuple(size for axis, size in enumerate(shapes[0]) if axis not in axes)]


def _parse_expand(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    if inputs[0] is None:
        raise Unsupported("it needs an input")
    places = len(inputs[0].shape) + 1
    axis = int(constant(inputs[1], "axis").reshape(-1)[0])
    if not -places <= axis < places:
        raise Unsupported(f"axis {axis} is outside {places} dimensions")
    return Parsed(ExpandDimensions(axis % places))


def _expand_shapes(attributes: ExpandDimensions, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [(*shapes[0][: attributes.axis], 1, *shapes[0][attributes.axis :])]


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
        target = lowering.outputs[0] if number == len(parts) else lowering.scratch(wide)
        tiles = lowering.tiles(wide[0] * wide[1] * wide[2] * slices(wide[3]))
        launches.append(Launch("concat", {"first": joined, "second": part}, {"dst": target}, tiles, {"AXIS": axis}))
        joined = target
    return launches if len(parts) > 1 else [launch_reshape(lowering, lowering.inputs[0], lowering.outputs[0])]


OPERATORS = (
    Operator("SQUEEZE", _parse_squeeze, _squeeze_shapes, _lower_reshape, max_version=2),
    Operator("EXPAND_DIMS", _parse_expand, _expand_shapes, _lower_reshape, max_version=1),
    Operator("PACK", _parse_pack, _pack_shapes, _lower_pack, max_version=5),
)
