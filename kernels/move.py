"""Operators that only move values: RESHAPE and CONCATENATION."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .elementwise import activation_links, lower_copy, require_movable
from .layout import bhwc_axis, slices
from .operator import Launch, Lowering, Operator, Parsed, TensorInfo, Unsupported


@dataclass(frozen=True)
class Reshape:
    """``target`` may hold one -1, as in TFLite."""

    target: tuple[int, ...]


@dataclass(frozen=True)
class Concatenation:
    """``axis`` of TFLite shapes of ``rank`` dimensions, not negative."""

    axis: int
    rank: int


def _parse_reshape(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    target = inputs[1] if len(inputs) > 1 else None
    if target is not None and target.constant is not None:
        return Parsed(Reshape(tuple(int(n) for n in target.constant.reshape(-1))))
    if target is not None:
        raise Unsupported(f"tensor '{target.name}', its shape, is known only while the model runs")
    if target is None and options is not None and options.NewShapeLength():
        return Parsed(Reshape(tuple(int(n) for n in options.NewShapeAsNumpy())))
    return Parsed(Reshape(outputs[0].shape))


def _reshape_shapes(attributes: Reshape, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    total = int(np.prod(shapes[0], dtype=np.int64))
    known = int(np.prod([n for n in attributes.target if n != -1], dtype=np.int64))
    target = tuple(total // max(known, 1) if n == -1 else n for n in attributes.target)
    if int(np.prod(target, dtype=np.int64)) != total:
        raise ValueError(f"{shapes[0]} cannot be reshaped to {attributes.target}")
    return [target]


def _lower_reshape(lowering: Lowering) -> list[Launch]:
    batch, rows, columns, channels = lowering.shape(lowering.outputs[0])
    tiles = lowering.tiles(batch * rows * columns * slices(channels))
    return [Launch("reshape", {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}, tiles)]


def _parse_concatenation(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs, outputs)
    if any(tensor is None for tensor in inputs):
        raise Unsupported("an input is missing")
    rank = max(len(outputs[0].shape), 1)
    attributes = Concatenation(options.Axis() % rank, rank)
    return Parsed(attributes, tuple(range(len(inputs))), activation_links(options.FusedActivationFunction()))


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
        target = out if number == len(lowering.inputs) else lowering.scratch((shape[0], shape[1], shape[2], shape[3]))
        tiles = lowering.tiles(shape[0] * shape[1] * shape[2] * slices(shape[3]))
        launches.append(Launch("concat", {"first": joined, "second": source}, {"dst": target}, tiles, {"AXIS": axis}))
        joined = target
    return launches


OPERATORS = (
    Operator("RESHAPE", _parse_reshape, _reshape_shapes, _lower_reshape, max_version=1),
    Operator("CONCATENATION", _parse_concatenation, _concatenation_shapes, _lower_concatenation, max_version=7),
)
