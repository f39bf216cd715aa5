"""Elementwise operators: one line of the table each. They are links, applied to whatever kernel writes the value.

``v`` is the value about to be written and ``w`` the second operand. Formulas: the TensorFlow Lite reference kernels.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from .operator import Launch, Link, Lowering, Operator, Parsed, TensorInfo, Unsupported

UNARY: dict[str, str] = {
    "ABS": "fabs(v)",
    "COS": "cos(v)",
    "EXP": "exp(v)",
    "FLOOR": "floor(v)",
    "HARD_SWISH": "v * clamp(v + F4(3.0f), F4(0.0f), F4(6.0f)) * F4(0.16666667f)",
    "LOG": "log(v)",
    "LOGISTIC": "F4(1.0f) / (F4(1.0f) + exp(-v))",
    "NEG": "-v",
    "RELU": "max(v, F4(0.0f))",
    "RELU6": "clamp(v, F4(0.0f), F4(6.0f))",
    "RELU_0_TO_1": "clamp(v, F4(0.0f), F4(1.0f))",
    "RELU_N1_TO_1": "clamp(v, F4(-1.0f), F4(1.0f))",
    "RSQRT": "RSQRT(v)",
    "SIN": "sin(v)",
    "SQRT": "sqrt(v)",
    "SQUARE": "v * v",
    "TANH": "tanh(v)",
}

BINARY: dict[str, str] = {
    "ADD": "v + w",
    "DIV": "v / w",
    "MAXIMUM": "max(v, w)",
    "MINIMUM": "min(v, w)",
    "MUL": "v * w",
    "SQUARED_DIFFERENCE": "(v - w) * (v - w)",
    "SUB": "v - w",
}

COMMUTATIVE = frozenset({"ADD", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE"})

EXPRESSIONS = UNARY | BINARY

ACTIVATIONS = (None, "RELU", "RELU_N1_TO_1", "RELU6", "TANH")
"""The fused activation functions of the schema, by number; 5 (SIGN_BIT) has no GPU form."""


def activation_links(number: int) -> tuple[Link, ...]:
    """The links of a fused activation function. Raises Unsupported for one that the GPU has no form of."""
    if number >= len(ACTIVATIONS):
        raise Unsupported(f"fused activation function {number} has no GPU form")
    name = ACTIVATIONS[number]
    return (Link(name),) if name else ()


@dataclass(frozen=True)
class Elementwise:
    """The attributes of a node that is nothing but its links."""


def broadcast_shape(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that NumPy's broadcasting rules give; ValueError where they give none."""
    result = []
    for sizes in itertools.zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            raise ValueError(f"shapes {shapes} do not broadcast")
        result.append(wide.pop() if wide else 1)
    return tuple(reversed(result))


def lower_copy(lowering: Lowering) -> list[Launch]:
    """One dispatch that reads every slice and writes it; the links do the work."""
    batch, height, width, channels = lowering.shape(lowering.outputs[0])
    items = batch * height * width * -(-channels // 4)
    reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
    return [Launch("copy", reads, writes, lowering.tiles(items), broadcast=frozenset({"src"}))]


def require_float(*tensors: TensorInfo | None) -> None:
    """Raise Unsupported unless every tensor present is float32, or a float16 constant."""
    for tensor in tensors:
        if tensor and tensor.dtype != "float32" and not (tensor.dtype == "float16" and tensor.constant is not None):
            raise Unsupported(f"tensor '{tensor.name}' is {tensor.dtype}; only float32 is supported")


def _output_shapes(attributes: Elementwise, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [broadcast_shape(shapes)]


def _unary(name: str) -> Operator:
    def parse(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
        require_float(*inputs, *outputs)
        return Parsed(Elementwise(), (0,), (Link(name),))

    return Operator(name, parse, _output_shapes, lower_copy, max_version=2)


def _binary(name: str) -> Operator:
    def parse(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
        require_float(*inputs, *outputs)
        left, right = inputs
        if left is None or right is None:
            raise Unsupported("it needs two operands")
        try:
            broadcast_shape([left.shape, right.shape])
            bhwc_broadcast = all(_aligned(tensor, outputs[0]) for tensor in (left, right))
        except ValueError as error:
            raise Unsupported(str(error)) from error
        if not bhwc_broadcast:
            raise Unsupported(f"shapes {left.shape} and {right.shape} broadcast across axes that BHWC keeps apart")
        activation = options.FusedActivationFunction() if hasattr(options, "FusedActivationFunction") else 0
        # The larger operand is the value, the other is read beside it; a constant is never the value.
        swapped = left.constant is not None or _size(left) < _size(right)
        if right.constant is not None and left.constant is None:
            swapped = False
        link = Link(name, operand=0 if swapped else 1, swapped=swapped)
        return Parsed(Elementwise(), (1 if swapped else 0,), (link, *activation_links(activation)))

    return Operator(name, parse, _output_shapes, lower_copy, max_version=3)


def _size(tensor: TensorInfo) -> int:
    size = 1
    for dimension in tensor.shape:
        size *= dimension
    return size


def _aligned(tensor: TensorInfo, output: TensorInfo) -> bool:
    """Whether broadcasting the BHWC forms means the same as broadcasting the TFLite shapes."""
    if len(tensor.shape) == len(output.shape):
        return True
    padded = (1,) * (len(output.shape) - len(tensor.shape)) + tensor.shape
    return TensorInfo("", padded, "").bhwc == tensor.bhwc


COPY = Operator("COPY", lambda *_: Parsed(Elementwise()), _output_shapes, lower_copy)
"""Not a TFLite operator: what the engine uses to move a tensor between memories."""

OPERATORS = (*map(_unary, UNARY), *map(_binary, BINARY))
