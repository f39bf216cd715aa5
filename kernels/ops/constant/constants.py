"""Operators whose result is known when the model is read: SHAPE, RANK, FILL and ZEROS_LIKE.

Operators that read it find a constant; only where it leaves the GPU is it computed, by a copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...operation import Launch, Lowering, Operator, Parsed, Unsupported
from ...tensor import TensorInfo
from ..arguments import INTEGER_LIKE, constant, require_movable, require_type

LARGEST_FILLED = 1 << 24
"""Values of the largest constant that is made of one number: a few bytes of a file could ask for any size."""


@dataclass(frozen=True)
class Constant:
    """``values`` of the output; those of SHAPE and RANK hold for an input of the shape ``given`` only."""

    values: np.ndarray = field(compare=False)
    given: tuple[int, ...] | None = None


def lower_constant(lowering: Lowering) -> list[Launch]:
    """Nothing: the engine copies an output whose values are constant to where it leaves the GPU."""
    return []


def constant_shapes(attributes: Constant, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    if attributes.given is not None and shapes[0] != attributes.given:
        raise ValueError(f"the shape {attributes.given} is part of the model, and cannot become {shapes[0]}")
    return [attributes.values.shape]


def _parse_shape(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_type(frozenset({"int32", "int64"}), *outputs)
    return Parsed(_measured(inputs[0], lambda shape: np.array(shape, outputs[0].dtype)))


def _parse_rank(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_type(frozenset({"int32"}), *outputs)
    return Parsed(_measured(inputs[0], lambda shape: np.array(len(shape), np.int32)))


def _measured(source: TensorInfo | None, measure: Callable[[tuple[int, ...]], np.ndarray]) -> Constant:
    if source is None or min(source.shape, default=1) < 1:
        raise Unsupported("it needs an input of a known shape")
    return Constant(measure(source.shape), source.shape)


def _parse_fill(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[1:2], outputs)
    shape, value = constant(inputs[0], "shape").reshape(-1), constant(inputs[1], "value")
    if value.size != 1 or outputs[0].shape != tuple(shape.tolist()):
        raise Unsupported(f"a value of shape {value.shape} does not fill {shape.tolist()}")
    return Parsed(Constant(_filled(value, outputs[0].shape)))


def _parse_zeros(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_type(INTEGER_LIKE | {"float32"}, *outputs)
    zero = np.zeros((), outputs[0].dtype)
    return Parsed(_measured(inputs[0], lambda shape: _filled(zero, shape)))


def _filled(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if math.prod(shape) > LARGEST_FILLED:
        raise Unsupported(f"{shape} is more than {LARGEST_FILLED} values, too many for a constant")
    return np.broadcast_to(value.reshape(()), shape)


FOLDED = Operator("CONSTANT", lambda *_: Parsed(None), constant_shapes, lower_constant)
"""Not a TFLite operator: what the engine makes of one that it has computed already (folding.py)."""

OPERATORS = (
    Operator("SHAPE", _parse_shape, constant_shapes, lower_constant, max_version=1),
    Operator("RANK", _parse_rank, constant_shapes, lower_constant, max_version=1),
    Operator("FILL", _parse_fill, constant_shapes, lower_constant, max_version=5),
    Operator("ZEROS_LIKE", _parse_zeros, constant_shapes, lower_constant, max_version=1),
)
