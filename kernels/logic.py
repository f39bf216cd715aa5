"""Comparisons, logical operators, SELECT and CAST. Truth values are 0 and 1 on the GPU, integers whole floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .elementwise import WHOLE, Elementwise, broadcast_shape, lower_copy, require_float, require_type
from .layout import slices
from .operator import Launch, Link, Lowering, Operator, Parsed, TensorInfo, Unsupported

COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
LOGICAL = ("LOGICAL_AND", "LOGICAL_OR")
BOOLEAN = frozenset({"bool"})


@dataclass(frozen=True)
class Select:
    """The first of two values where a condition holds, else the second; all three broadcast."""


def _broadcast(attributes: Any, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [broadcast_shape(shapes)]


def _binary(name: str) -> Operator:
    def parse(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
        if name in LOGICAL:
            require_type(BOOLEAN, *inputs)
        else:
            require_float(*inputs)
        require_type(BOOLEAN, *outputs)
        left, right = inputs
        if left is None or right is None:
            raise Unsupported("it needs two operands")
        swapped = left.constant is not None and right.constant is None
        return Parsed(Elementwise(), (int(swapped),), (Link(name, operand=int(not swapped), swapped=swapped),))

    return Operator(name, parse, _broadcast, lower_copy, max_version=3)


def _parse_not(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_type(BOOLEAN, *inputs, *outputs)
    return Parsed(Elementwise(), (0,), (Link("LOGICAL_NOT"),))


def _parse_cast(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_type(WHOLE | {"float32"}, *inputs, *outputs)
    if inputs[0] is None:
        raise Unsupported("it needs an input")
    source, target = inputs[0].dtype, outputs[0].dtype
    if source != target and target != "float32":
        if target != "bool" and source not in ("float32", "bool"):
            raise Unsupported(f"{source} to {target} has values that a float32 does not hold")
        return Parsed(Elementwise(), (0,), (Link("TO_BOOL" if target == "bool" else "TO_WHOLE"),))
    return Parsed(Elementwise(), (0,))


def _parse_select(first: bool, options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_type(BOOLEAN, inputs[0])
    require_float(*inputs[1:], *outputs)
    shapes = {tensor.shape for tensor in inputs if tensor is not None and tensor.shape}
    if first and len(shapes) > 1:
        raise Unsupported("SELECT with a condition of another shape is not supported")
    return Parsed(Select(), (0, 1, 2))


def _lower_select(lowering: Lowering) -> list[Launch]:
    batch, rows, columns, channels = lowering.shape(lowering.outputs[0])
    reads: dict[str, int] = dict(zip(("condition", "first", "second"), lowering.inputs, strict=True))
    tiles = lowering.tiles(batch * rows * columns * slices(channels))
    return [Launch("choose", reads, {"dst": lowering.outputs[0]}, tiles, broadcast=frozenset(reads))]


OPERATORS = (
    *map(_binary, (*COMPARISONS, *LOGICAL)),
    Operator("LOGICAL_NOT", _parse_not, _broadcast, lower_copy, max_version=1),
    Operator("CAST", _parse_cast, _broadcast, lower_copy, max_version=6),
    Operator("SELECT", lambda *a: _parse_select(True, *a), _broadcast, _lower_select, max_version=4),
    Operator("SELECT_V2", lambda *a: _parse_select(False, *a), _broadcast, _lower_select, max_version=2),
)
