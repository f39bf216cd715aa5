"""Models of several operators, such as exporters spell a formula with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....video.tflite_writer import G, Op, T, build
from .operator_models import options

KINDS = {"MEAN": "Reducer", "SUM": "Reducer", "FULLY_CONNECTED": "FullyConnected", "BATCH_MATMUL": "BatchMatMul"}
"""The kinds of option tables whose name is not that of the operator in another case."""


class Formula:
    """Tensors and operators of a model, which ``inputs`` begin."""

    def __init__(self, *inputs: Sequence[int]) -> None:
        self._tensors, self._operators = [T(f"x{i}", shape) for i, shape in enumerate(inputs)], list[Op]()
        self.inputs = range(len(inputs))

    def shape(self, tensor: int) -> tuple[int, ...]:
        """The shape of a tensor."""
        return tuple(self._tensors[tensor].shape)

    def constant(self, values: Any, dtype: str = "float32") -> int:
        """A constant tensor."""
        array = np.array(values, dtype)
        self._tensors.append(T(f"c{len(self._tensors)}", array.shape, array, dtype))
        return len(self._tensors) - 1

    def add(self, name: str, *inputs: int, shape: Sequence[int] = (), dtype: str = "float32", **fields: Any) -> int:
        """The result of an operator; without a shape, the broadcast one of its inputs."""
        found = shape or np.broadcast_shapes(*(tuple(self._tensors[i].shape) for i in inputs))
        self._tensors.append(T(f"t{len(self._tensors)}", found, dtype=dtype))
        kind = KINDS.get(name, name.title().replace("_", ""))
        table = options(kind, **fields) if fields or name in ("ADD", "SUB", "MUL", "DIV") else None
        self._operators.append(Op(name, inputs, [len(self._tensors) - 1], table))
        return len(self._tensors) - 1

    def mean(self, source: int, axis: int = -1, *, keep: bool = True) -> int:
        """The mean along an axis."""
        shape = list(self._tensors[source].shape)
        shape[axis : axis + 1 or None] = [1] if keep else []
        return self.add("MEAN", source, self.constant([axis], "int32"), shape=shape, keepDims=keep)

    def reshape(self, source: int, *shape: int, dtype: str = "float32") -> int:
        """The tensor in another shape."""
        given = self.constant(shape, "int32")
        return self.add("RESHAPE", source, given, shape=shape, dtype=dtype, newShape=list(shape))

    def transpose(self, source: int, *order: int) -> int:
        """The tensor with its dimensions in another order."""
        shape = [self._tensors[source].shape[axis] for axis in order]
        return self.add("TRANSPOSE", source, self.constant(order, "int32"), shape=shape)

    def model(self, *outputs: int) -> bytes:
        """The model with these outputs."""
        return build(G(self._tensors, self._operators, list(self.inputs), outputs))
