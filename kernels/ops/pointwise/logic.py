"""Comparisons, logical operators, SELECT and CAST. Truth values are 0 and 1 on the GPU, integers whole floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...operation import FusedOp, Launch, Lowering, Operator, Parsed, Unsupported
from ...tensor import INTEGERS, Integers, TensorId, TensorInfo, broadcast_shape, slices
from ..arguments import INTEGER_LIKE, require_movable, require_type
from .elementwise import Elementwise, lower_copy

COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
LOGICAL = ("LOGICAL_AND", "LOGICAL_OR")
BOOLEAN = frozenset({"bool"})


@dataclass(frozen=True)
class Select:
    """The first of two values where a condition holds, else the second; all three broadcast.

    ``rows`` says that the condition has one dimension, the first of the values'.
    """

    rows: bool = False


def _broadcast(attributes: Any, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [broadcast_shape(shapes)]


def _binary(name: str) -> Operator:
    def parse(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
        if name in LOGICAL:
            require_type(BOOLEAN, *inputs)
        else:
            require_movable(inputs, [])
        require_type(BOOLEAN, *outputs)
        left, right = inputs
        if left is None or right is None:
            raise Unsupported("it needs two operands")
        swapped = left.constant is not None and right.constant is None
        return Parsed(Elementwise(), (int(swapped),), (FusedOp(name, operand=int(not swapped), swapped=swapped),))

    return Operator(name, parse, _broadcast, lower_copy, max_version=5)


def _parse_not(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_type(BOOLEAN, *inputs, *outputs)
    return Parsed(Elementwise(), (0,), (FusedOp("LOGICAL_NOT"),))


def _parse_cast(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_type(INTEGER_LIKE | {"float32"}, *inputs, *outputs)
    if inputs[0] is None:
        raise Unsupported("it needs an input")
    source, destination = inputs[0].dtype, outputs[0].dtype
    if destination in ("float32", source) or source == "bool":
        return Parsed(Elementwise(), (0,))
    if destination == "bool":
        return Parsed(Elementwise(), (0,), (FusedOp("TO_BOOL"),))
    if source == "float32":
        return Parsed(Elementwise(), (0,), (FusedOp("TO_WHOLE"),))
    if destination in INTEGERS and (source not in INTEGERS or not _fits(INTEGERS[source], INTEGERS[destination])):
        raise Unsupported(f"{source} to {destination} wraps around, which a float32 does not")
    require_movable(inputs, [])
    return Parsed(Elementwise(), (0,))


def _fits(source: Integers, destination: Integers) -> bool:
    return destination.lowest <= source.lowest and source.highest <= destination.highest


def _parse_select(first: bool, options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_type(BOOLEAN, inputs[0])
    require_movable(inputs[1:], outputs)
    shapes = [tensor.shape for tensor in inputs if tensor is not None]
    if len(shapes) < 3:
        raise Unsupported("it needs a condition and two operands")
    rows = first and len(shapes[0]) == 1 and len(shapes[1]) > 1
    if first and (shapes[1] != shapes[2] or not (rows or shapes[0] in ((), shapes[1]))):
        raise Unsupported(f"a condition of shape {shapes[0]} does not choose between {shapes[1]} and {shapes[2]}")
    return Parsed(Select(rows), (0, 1, 2))


def _select_shapes(attributes: Select, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    if not attributes.rows:
        return [broadcast_shape(shapes)]
    if shapes[0] != shapes[1][:1]:
        raise ValueError(f"a condition of shape {shapes[0]} does not choose rows of {shapes[1]}")
    return [shapes[1]]


def _lower_select(lowering: Lowering) -> list[Launch]:
    batch, rows, columns, channels = lowering.shape(lowering.outputs[0])
    reads: dict[str, TensorId] = dict(zip(("condition", "first", "second"), lowering.inputs, strict=True))
    group_count = lowering.group_count(batch * rows * columns * slices(channels))
    return [Launch("choose", reads, {"dst": lowering.outputs[0]}, group_count, broadcast=frozenset(reads))]


OPERATORS = (
    *map(_binary, (*COMPARISONS, *LOGICAL)),
    Operator("LOGICAL_NOT", _parse_not, _broadcast, lower_copy, max_version=1),
    Operator("CAST", _parse_cast, _broadcast, lower_copy, max_version=9),
    Operator("SELECT", lambda *a: _parse_select(True, *a), _select_shapes, _lower_select, max_version=4),
    Operator("SELECT_V2", lambda *a: _parse_select(False, *a), _select_shapes, _lower_select, max_version=2),
)
