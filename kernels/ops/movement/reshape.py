"""RESHAPE, SQUEEZE and EXPAND_DIMS: the same values in the same order, in another shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...operation import Launch, Lowering, Operator, Parsed, Unsupported
from ...tensor import TensorId, TensorInfo, slices
from ..arguments import constant, require_movable


@dataclass(frozen=True)
class Reshape:
    """``destination`` may hold one -1, as in TFLite."""

    destination: tuple[int, ...]


def _parse_reshape(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    destination = inputs[1] if len(inputs) > 1 else None
    if destination is not None and destination.constant is not None:
        return Parsed(Reshape(tuple(int(n) for n in destination.constant.reshape(-1))))
    if destination is not None:
        raise Unsupported(f"tensor '{destination.name}', its shape, is known only while the model runs")
    if destination is None and options is not None and options.NewShapeLength():
        return Parsed(Reshape(tuple(int(n) for n in options.NewShapeAsNumpy())))
    return Parsed(Reshape(outputs[0].shape))


def _reshape_shapes(attributes: Reshape, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    total = int(np.prod(shapes[0], dtype=np.int64))
    known = int(np.prod([n for n in attributes.destination if n != -1], dtype=np.int64))
    destination = tuple(total // max(known, 1) if n == -1 else n for n in attributes.destination)
    if int(np.prod(destination, dtype=np.int64)) != total:
        raise ValueError(f"{shapes[0]} cannot be reshaped to {attributes.destination}")
    return [destination]


@dataclass(frozen=True)
class Squeeze:
    """Without the dimensions ``axes``, which have size 1; without all of that size where there are no axes."""

    axes: tuple[int, ...]


@dataclass(frozen=True)
class ExpandDimensions:
    """A new dimension of size 1 before dimension ``axis``."""

    axis: int


def launch_reshape(lowering: Lowering, source: TensorId, destination: TensorId) -> Launch:
    """One dispatch that writes the values of ``source``, in their order, to ``destination``."""
    batch, rows, columns, channels = lowering.shape(destination)
    group_count = lowering.group_count(batch * rows * columns * slices(channels))
    return Launch("reshape", {"src": source}, {"dst": destination}, group_count)


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


OPERATORS = (
    Operator("RESHAPE", _parse_reshape, _reshape_shapes, _lower_reshape, max_version=1),
    Operator("SQUEEZE", _parse_squeeze, _squeeze_shapes, _lower_reshape, max_version=2),
    Operator("EXPAND_DIMS", _parse_expand, _expand_shapes, _lower_reshape, max_version=1),
)
