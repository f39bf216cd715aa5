"""Comparisons, logical operators, SELECT and CAST. Truth values are 0 and 1 on the GPU, integers are floats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np

from ...operation import FusedOp, Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import (
    INTEGER_DTYPES,
    LARGEST_RANK,
    QUANTIZED_DTYPES,
    Bounds,
    IntegerRange,
    TensorId,
    TensorInfo,
    bounds_of,
    broadcast_shape,
)
from ..arguments import require_type, require_values
from .elementwise import Elementwise

COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
LOGICAL = ("LOGICAL_AND", "LOGICAL_OR")
BOOLEAN = frozenset({"bool"})


@dataclass(frozen=True)
class Select(Operation):
    """The first of two values if a condition holds, else the second; all three broadcast.

    ``rows``: the condition has one dimension, the first of the values'.
    """

    _: KW_ONLY
    rows: bool = False

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        if not self.rows:
            return [broadcast_shape(shapes)]
        if shapes[0] != shapes[1][:1]:
            raise ValueError(f"a condition of shape {shapes[0]} does not choose rows of {shapes[1]}")
        return [shapes[1]]

    def lower(self, lowering: Lowering) -> list[Launch]:
        reads: dict[str, TensorId] = dict(zip(("condition", "first", "second"), lowering.inputs, strict=True))
        group_count = lowering.groups_for(lowering.outputs[0])
        return [Launch("choose", reads, {"dst": lowering.outputs[0]}, group_count, broadcast=frozenset(reads))]


def _parse_binary(node: TfliteNode, *, name: str) -> Parsed:
    if name in LOGICAL:
        require_type(BOOLEAN, *node.inputs)
    else:
        require_values(node.inputs, [])
    require_type(BOOLEAN, *node.outputs)
    left, right = node.inputs
    if left is None or right is None:
        raise Unsupported("it needs two operands")
    swapped = left.constant is not None and right.constant is None
    return Parsed(Elementwise(), (int(swapped),), (FusedOp(name, operand=int(not swapped), swapped=swapped),))


def _parse_not(node: TfliteNode) -> Parsed:
    require_type(BOOLEAN, *node.inputs, *node.outputs)
    return Parsed(Elementwise(), (0,), (FusedOp("LOGICAL_NOT"),))


def _parse_cast(node: TfliteNode) -> Parsed:
    require_type(INTEGER_DTYPES.keys() | {"float32"}, *node.inputs, *node.outputs)
    if node.inputs[0] is None:
        raise Unsupported("it needs an input")
    source, destination = node.inputs[0].dtype, node.outputs[0].dtype
    if destination in ("float32", source) or source == "bool":
        return Parsed(Elementwise(), (0,), bounds=(0, 1) if source == "bool" else None)
    if destination == "bool":
        return Parsed(Elementwise(), (0,), (FusedOp("TO_BOOL"),))
    if source == "float32":
        return Parsed(Elementwise(), (0,), (FusedOp("TO_WHOLE"),))
    if destination in QUANTIZED_DTYPES and (
        source not in QUANTIZED_DTYPES or not _fits(QUANTIZED_DTYPES[source], QUANTIZED_DTYPES[destination])
    ):
        raise Unsupported(f"{source} to {destination} wraps around, which a float32 does not")
    require_values(node.inputs, [])
    return Parsed(Elementwise(), (0,), bounds=_bounds_of_cast(node.inputs[0]))


def _bounds_of_cast(source: TensorInfo) -> Bounds | None:
    """The bounds of integers made of integers."""
    kind = QUANTIZED_DTYPES.get(source.dtype)
    return bounds_of(source) if kind is None else (kind.lowest, kind.highest)


def _fits(source: IntegerRange, destination: IntegerRange) -> bool:
    return destination.lowest <= source.lowest and source.highest <= destination.highest


def _parse_select(node: TfliteNode, *, by_rows: bool) -> Parsed:
    require_type(BOOLEAN, node.inputs[0])
    require_values(node.inputs[1:], node.outputs)
    shapes = [tensor.shape for tensor in node.inputs if tensor is not None]
    if len(shapes) < 3:
        raise Unsupported("it needs a condition and two operands")
    rows = by_rows and len(shapes[0]) == 1 and len(shapes[1]) > 1
    if by_rows and (shapes[1] != shapes[2] or not (rows or shapes[0] in ((), shapes[1]))):
        raise Unsupported(f"a condition of shape {shapes[0]} does not choose between {shapes[1]} and {shapes[2]}")
    return Parsed(Select(rows=rows), (0, 1, 2))


def _folded(operator: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[Any, list[np.ndarray]], np.ndarray]:
    return lambda _, inputs: operator(inputs[0], inputs[1])


_FOLDS = {name: _folded(getattr(np, name.lower())) for name in (*COMPARISONS, *LOGICAL)}
"""NumPy has the same names."""
TFLITE = (
    *(
        TfliteOp(
            name, partial(_parse_binary, name=name), max_version=5, inputs=2, max_rank=LARGEST_RANK, fold=_FOLDS[name],
            results=("bool",),
        )
        for name in (*COMPARISONS, *LOGICAL)
    ),
    TfliteOp(
        "LOGICAL_NOT", _parse_not, max_version=1, max_rank=LARGEST_RANK,
        fold=lambda _, inputs: np.logical_not(inputs[0]),
    ),
    TfliteOp(
        "CAST", _parse_cast, max_version=9, max_rank=LARGEST_RANK, takes_integers=True,
        fold=lambda _, inputs: inputs[0], results=("",),
        unlike_litert="NaN becomes an integer that the driver chooses",
    ),
    TfliteOp(
        "SELECT", partial(_parse_select, by_rows=True), max_version=4, inputs=3, max_rank=LARGEST_RANK, results=(1,),
        moves_values=True,
    ),
    TfliteOp(
        "SELECT_V2", partial(_parse_select, by_rows=False), max_version=2, inputs=3, max_rank=LARGEST_RANK,
        fold=lambda _, inputs: np.where(inputs[0], inputs[1], inputs[2]), results=(1,), moves_values=True,
    ),
)  # fmt: skip
