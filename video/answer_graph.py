"""Graphs of operators behind a model's outputs, written as TensorFlow Lite models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from .tflite_writer import G, Op, T, build

Shape = Sequence[int]
_TABLES = {"REDUCE_MAX": "Reducer", "SUM": "Reducer", "TOPK_V2": "TopKV2", "BATCH_MATMUL": "BatchMatMul"}
"""Names of option tables that do not follow from their operators' names."""


class AnswerGraph:
    """Operators, one after the other, on tensors that are known by their numbers."""

    def __init__(self) -> None:
        self._tensors, self._operators, self._inputs = list[T](), list[Op](), list[int]()

    def shape(self, tensor: int) -> tuple[int, ...]:
        """The shape of a tensor."""
        return tuple(self._tensors[tensor].shape)

    def input(self, shape: Shape, dtype: str = "float32") -> int:
        """Add an input."""
        self._inputs.append(self._add(shape, dtype))
        return self._inputs[-1]

    def integers(self, *values: int) -> int:
        """Add a constant vector of int32."""
        return self.constant(np.array(values, np.int32))

    def constant(self, values: npt.NDArray[Any]) -> int:
        """Add a constant."""
        return self._add(values.shape, values.dtype.name, values)

    def number(self, value: float, dtype: str = "float32") -> int:
        """Add a constant of rank 0."""
        return self._add((), dtype, np.array(value, dtype))

    def apply(self, operator: str, inputs: Sequence[int], shape: Shape, dtype: str = "float32", **options: Any) -> int:
        """Add an operator of one output of that shape; ``options`` are fields of its table."""
        return self.apply_for(operator, inputs, [(shape, dtype)], **options)[0]

    def apply_for(
        self, operator: str, inputs: Sequence[int], outputs: Sequence[tuple[Shape, str]], **options: Any
    ) -> list[int]:
        """Add an operator of several outputs."""
        words = "".join(word.capitalize() for word in operator.split("_"))
        table = getattr(schema, f"{_TABLES.get(operator, words)}OptionsT")()
        for name, value in options.items():
            assert hasattr(table, name), f"{operator} has no option {name}"
            setattr(table, name, value)
        made = [self._add(shape, dtype) for shape, dtype in outputs]
        self._operators.append(Op(operator, inputs, made, table))
        return made

    def reshape(self, tensor: int, shape: Shape) -> int:
        """A tensor's values in another shape."""
        if self.shape(tensor) == tuple(shape):
            return tensor
        return self.apply("RESHAPE", [tensor, self.integers(*shape)], shape, self._tensors[tensor].dtype)

    def turn(self, tensor: int, *order: int) -> int:
        """A tensor with its dimensions in another order."""
        given = self.shape(tensor)
        shape, dtype = [given[axis] for axis in order], self._tensors[tensor].dtype
        return self.apply("TRANSPOSE", [tensor, self.integers(*order)], shape, dtype)

    def part(self, tensor: int, axis: int, first: int, last: int) -> int:
        """The part of a tensor from ``first`` to before ``last`` along an axis."""
        shape = self.shape(tensor)
        begin, size = [0] * len(shape), list(shape)
        begin[axis], size[axis] = first, last - first
        if tuple(size) == shape:
            return tensor
        return self.apply("SLICE", [tensor, self.integers(*begin), self.integers(*size)], size)

    def name(self, tensor: int) -> str:
        """The name of a tensor in the model."""
        return self._tensors[tensor].name

    def build(self, *outputs: int) -> bytes:
        """The model's bytes."""
        return build(G(self._tensors, self._operators, self._inputs, outputs))

    def _add(self, shape: Shape, dtype: str, values: Any = None) -> int:
        self._tensors.append(T(f"t{len(self._tensors)}", tuple(shape), values, dtype))
        return len(self._tensors) - 1
