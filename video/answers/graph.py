"""Graphs of operators behind a model's outputs, written as TensorFlow Lite models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from ..embedded_network import embedded
from ..tflite_writer import G, Op, T, build

Shape = Sequence[int]
_TABLES = {
    **dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"), "Reducer"), "TOPK_V2": "TopKV2",
    "BATCH_MATMUL": "BatchMatMul", "PADV2": "PadV2", "MAXIMUM": "MaximumMinimum", "MINIMUM": "MaximumMinimum",
}  # fmt: skip
"""Names of option tables that do not follow from their operators' names."""
_WITHOUT_TABLE = frozenset({"FLOOR", "LOGISTIC", "RELU", "ROUND", "SQRT"})
_COMPARISONS = frozenset({"GREATER", "GREATER_EQUAL"})


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
        has_table = operator not in _WITHOUT_TABLE
        table = getattr(schema, f"{_TABLES.get(operator, words)}OptionsT")() if has_table else None
        for name, value in options.items():
            assert hasattr(table, name), f"{operator} has no option {name}"
            setattr(table, name, value)
        made = [self._add(shape, dtype) for shape, dtype in outputs]
        self._operators.append(Op(operator, inputs, made, table))
        return made

    def custom(self, operator: str, inputs: Sequence[int], shape: Shape, options: bytes) -> int:
        """Add a custom operator of one float32 output of that shape."""
        made = self._add(shape, "float32")
        self._operators.append(Op(operator, inputs, [made], options))
        return made

    def unary(self, operator: str, tensor: int) -> int:
        """An operator on each value of a float32 tensor."""
        return self.apply(operator, [tensor], self.shape(tensor))

    def binary(self, operator: str, first: int, second: int | float) -> int:
        """An operator on each pair of values; shapes broadcast. A comparison gives 1 if it holds, and else 0."""
        second = self.number(second) if isinstance(second, float) else second
        shape = np.broadcast_shapes(self.shape(first), self.shape(second))
        if operator in _COMPARISONS:
            return self.cast(self.apply(operator, [first, second], shape, "bool"), "float32")
        return self.apply(operator, [first, second], shape)

    def cast(self, tensor: int, dtype: str) -> int:
        """A tensor's values as another type; numbers lose what is behind the point as int32."""
        return self.apply("CAST", [tensor], self.shape(tensor), dtype)

    def reduced(self, operator: str, tensor: int, axis: int) -> int:
        """A reduction along an axis, which stays with the size 1."""
        shape = list(self.shape(tensor))
        shape[axis] = 1
        return self.apply(operator, [tensor, self.integers(axis)], shape, keepDims=True)

    def linear(self, tensor: int, matrix: npt.NDArray[Any], offset: npt.NDArray[Any] | float = 0.0) -> int:
        """The rows of a tensor times a constant ``matrix`` (in, out), plus a constant (out)."""
        weights = self.constant(np.ascontiguousarray(matrix.T, np.float32))
        addend = self.constant(np.broadcast_to(np.asarray(offset, np.float32), matrix.shape[1:]).copy())
        shape = (*self.shape(tensor)[:-1], matrix.shape[1])
        return self.apply("FULLY_CONNECTED", [tensor, weights, addend], shape, keepNumDims=True)

    def product(self, first: int, second: int) -> int:
        """The product of two matrices (..., n, k) and (..., k, m)."""
        shape = (*self.shape(first)[:-1], self.shape(second)[-1])
        return self.apply("BATCH_MATMUL", [first, second], shape)

    def join(self, tensors: Sequence[int], axis: int) -> int:
        """Tensors one behind the other along an axis."""
        shape = list(self.shape(tensors[0]))
        shape[axis] = sum(self.shape(each)[axis] for each in tensors)
        return tensors[0] if len(tensors) == 1 else self.apply("CONCATENATION", tensors, shape, axis=axis)

    def parts(self, tensor: int, axis: int) -> Iterator[int]:
        """The parts of the size 1 of a tensor along an axis, in order."""
        for number in range(self.shape(tensor)[axis]):
            yield self.part(tensor, axis, number, number + 1)

    def network(self, content: bytes, inputs: Sequence[int], batch: int = 1) -> list[int]:
        """Add the operators of a model's first subgraph on these inputs, ``batch`` at once. Returns its outputs."""
        tensors, operators, given, outputs = embedded(content, batch)
        places = dict(zip(given, inputs, strict=True))
        for number, tensor in enumerate(tensors):
            if number not in places:
                places[number] = len(self._tensors)
                tensor.name = f"t{len(self._tensors)}"
                self._tensors.append(tensor)
        for each in operators:
            taken, made = ([places.get(i, -1) for i in numbers] for numbers in (each.inputs, each.outputs))
            self._operators.append(Op(each.name, taken, made, each.options, each.version))
        return [places[number] for number in outputs]

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
