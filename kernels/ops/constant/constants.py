"""SHAPE, RANK, FILL and ZEROS_LIKE: their results are known as soon as the shapes of their inputs are.

For operators that read such a result it is a constant. It is copied only if it leaves the GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import INDEX_DTYPES, INTEGER_DTYPES, LARGEST_RANK, TensorInfo
from ..arguments import constant, declared_by, require_movable, require_type, shape_constant

LARGEST_FILLED = 1 << 24
"""The size of the largest constant that is filled with one number. Without a limit, a few bytes of a file could ask for
any size.
"""


@dataclass(frozen=True)
class Constant(Operation):
    """The ``values`` of each output, for the present shapes of the inputs."""

    values: tuple[np.ndarray, ...] = field(compare=False)

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [values.shape for values in self.values]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """No launches: the engine copies a constant output to the object that is bound to it."""
        return []


def _parse_shape(node: TfliteNode) -> Parsed:
    require_type(INDEX_DTYPES, *node.outputs)
    return Parsed(_measured(node.inputs[0], lambda shape: np.array(shape, node.outputs[0].dtype)))


def _parse_rank(node: TfliteNode) -> Parsed:
    require_type({"int32"}, *node.outputs)
    return Parsed(_measured(node.inputs[0], lambda shape: np.array(len(shape), np.int32)))


def _measured(source: TensorInfo | None, measure: Callable[[tuple[int, ...]], np.ndarray]) -> Constant:
    if source is None or min(source.shape, default=1) < 1:
        raise Unsupported("it needs an input of a known shape")
    return Constant((measure(source.shape),))


def _parse_fill(node: TfliteNode) -> Parsed:
    require_movable(node.inputs[1:2], node.outputs)
    shape, value = shape_constant(node.inputs[0], "shape").reshape(-1), constant(node.inputs[1], "value")
    if value.size != 1:
        raise Unsupported(f"a value of shape {value.shape} does not fill {shape.tolist()}")
    return Parsed(Constant((_filled(value, tuple(shape.tolist())),)))


def _parse_zeros(node: TfliteNode) -> Parsed:
    require_type(INTEGER_DTYPES.keys() | {"float32"}, *node.outputs)
    zero = np.zeros((), node.outputs[0].dtype)
    return Parsed(_measured(node.inputs[0], lambda shape: _filled(zero, shape)))


def _filled(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if math.prod(shape) > LARGEST_FILLED:
        raise Unsupported(f"{shape} is more than {LARGEST_FILLED} values, too many for a constant")
    return np.broadcast_to(value.reshape(()), shape)


TFLITE = (
    TfliteOp("SHAPE", _parse_shape, max_version=1, max_rank=LARGEST_RANK, results=(declared_by("OutType"),)),
    TfliteOp("RANK", _parse_rank, max_version=1, max_rank=LARGEST_RANK, results=("int32",)),
    TfliteOp("FILL", _parse_fill, max_version=5, inputs=2, max_rank=LARGEST_RANK, results=(1,)),
    TfliteOp("ZEROS_LIKE", _parse_zeros, max_version=1, max_rank=LARGEST_RANK),
)
