"""Elementwise operators: expressions that are fused into the kernel that writes the value.

In an expression, ``v`` is the value about to be written, ``w`` the second operand and ``p`` up to four numbers. The
formulas are those of TensorFlow Lite's reference kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ...operation import FusedOp, Fusion, Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import INDEX_DTYPES, INT32_BOUNDS, LARGEST_RANK, QUANTIZED_DTYPES, Bounds, TensorInfo, broadcast_shape
from ..arguments import INFINITE_SUMS, activation_epilogue, finite, is_index, require_float
from .integers import ARITHMETIC, DIVISIONS, SIGNS, arithmetic_bounds, require_nonzero, sign_bounds

UNARY: dict[str, str] = {
    "ABS": "fabs(v)",
    "CEIL": "ceil(v)",
    "COS": "cos(v)",
    "ELU": "max(v, F4(0.0f)) + (exp(min(v, F4(0.0f))) - F4(1.0f))",
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
    "ROUND": "RINT(v)",
    "RSQRT": "RSQRT(v)",
    "SIGN": "sign(v)",
    "SIN": "sin(v)",
    "SQRT": "sqrt(v)",
    "SQUARE": "v * v",
    "TANH": "saturating_tanh(v)",
}
BINARY: dict[str, str] = {
    "ADD": "v + w",
    "ATAN2": "arc_tangent(v, w)",
    "DIV": "v / w",
    "FLOOR_DIV": "floor_div(v, w)",
    "FLOOR_MOD": "floor_mod(v, w)",
    "MAXIMUM": "chosen_or_nan(v, w, max(v, w))",
    "MINIMUM": "chosen_or_nan(v, w, min(v, w))",
    "MUL": "v * w",
    "POW": "power(v, w)",
    "PRELU": "prelu(v, w)",
    "SQUARED_DIFFERENCE": "(v - w) * (v - w)",
    "SUB": "v - w",
}
COMMUTATIVE = frozenset({"ADD", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE"})
WITH_OPTIONS: dict[str, str] = {
    "GELU": "F4(0.5f) * max(v, F4(-10.0f)) * (F4(1.0f) + error_function(v * F4(0.70710678f)))",
    "GELU_TANH": (
        "F4(0.5f) * max(v, F4(-10.0f)) * (F4(1.0f) + saturating_tanh(v * (F4(0.79788456f) + F4(0.03567741f) * v * v)))"
    ),
    "LEAKY_RELU": "leaky(v, p.x)",
}
LOGIC: dict[str, str] = {
    "EQUAL": "is_equal(v, w)",
    "GREATER": "is_less(w, v)",
    "GREATER_EQUAL": "is_less(w, v) + is_equal(v, w)",
    "LESS": "is_less(v, w)",
    "LESS_EQUAL": "is_less(v, w) + is_equal(v, w)",
    "LOGICAL_AND": "v * w",
    "LOGICAL_NOT": "F4(1.0f) - v",
    "LOGICAL_OR": "max(v, w)",
    "LEFT_SHIFT": "shift_left(v, w, p)",
    "NOT_EQUAL": "F4(1.0f) - is_equal(v, w)",
    "RIGHT_SHIFT": "shift_right(v, w, p)",
    "TO_BOOL": "F4(1.0f) - is_equal(v, F4(0.0f))",
    "TO_WHOLE": "trunc(v)",
}
"""The expressions of logic.py and shifts.py."""
STABLEHLO: dict[str, str] = {"CBRT": "cube_roots(v)", "REMAINDER": "truncated_rests(v, w)"}
"""The expressions of stablehlo.py."""
EPILOGUE_ONLY: dict[str, str] = {
    "ADD_STEPS": "v + w * F4(p.x)", "CLIP": "clamp(v, F4(p.x), F4(p.y))", "QUANTIZE": "round_to_steps(v, p)",
    "SILU": "v / (F4(1.0f) + exp(-v))", "SILU_OF_STEPS": "v * round_to_steps(F4(1.0f) / (F4(1.0f) + exp(-v)), p)",
    "STEPS": "clamp(RINT(v), F4(p.x), F4(p.y)) * F4(p.z)", "TO_HALF": "NEAREST_HALF4(v)",
    "TO_STEPS": "clamp(RINT(v / F4(p.x)), F4(p.y), F4(p.z))", "WRAP": "v - F4(p.x) * floor((v - F4(p.y)) / F4(p.x))",
}  # fmt: skip
"""Expressions that only occur as epilogues: no TensorFlow Lite operator stands for them."""
EXPRESSIONS = UNARY | BINARY | WITH_OPTIONS | LOGIC | STABLEHLO | EPILOGUE_ONLY


@dataclass(frozen=True)
class Elementwise(Operation):
    """A copy. Its epilogue computes the values, so that it can be fused into any kernel."""

    may_be_identity: ClassVar[bool] = True

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [broadcast_shape(shapes)]

    def lower(self, lowering: Lowering) -> list[Launch]:
        return lower_copy(lowering)

    def keeps_steps(self) -> bool:
        return True


def lower_copy(lowering: Lowering) -> list[Launch]:
    """One dispatch that reads every slice and writes it; the epilogue does the work."""
    reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
    group_count, fusion = lowering.groups_for(lowering.outputs[0]), Fusion(is_copy=True, single_pass_read=True)
    return [Launch("copy", reads, writes, group_count, broadcast=frozenset({"src"}), fusion=fusion)]


def _parse_unary(node: TfliteNode, *, name: str) -> Parsed:
    require_float(*node.inputs, *node.outputs)
    return Parsed(Elementwise(), (0,), (FusedOp(name),))


def _parse_sign(node: TfliteNode, *, name: str) -> Parsed:
    """An operator of one operand that LiteRT has for integers too."""
    source, dtype = node.inputs[0], node.outputs[0].dtype
    if source is None or not is_index(source, dtype):
        return _parse_unary(node, name=name)
    return Parsed(Elementwise(), (0,), (FusedOp(name),), integers=True, bounds=sign_bounds(name, source, dtype))


def _parse_binary(node: TfliteNode, *, name: str) -> Parsed:
    require_float(*node.inputs, *node.outputs)
    return _binary(node, name)


def parse_arithmetic(node: TfliteNode, *, name: str) -> Parsed:
    """Parse a binary operator of two floats, or of two integers."""
    dtype = node.outputs[0].dtype
    left, right = _operands(node)
    if not (is_index(left, dtype) and is_index(right, dtype)):
        return _parse_binary(node, name=name)
    return _binary(node, name, arithmetic_bounds(name, left, right, dtype))


def parse_division(node: TfliteNode, *, name: str) -> Parsed:
    """Parse a division of two floats, or of two integers; an integer may not be divided by zero."""
    _, right = _operands(node)
    if right.dtype in INDEX_DTYPES:
        require_nonzero(right)
    return parse_arithmetic(node, name=name)


def _operands(node: TfliteNode) -> tuple[TensorInfo, TensorInfo]:
    left, right = node.inputs
    if left is None or right is None:
        raise Unsupported("it needs two operands")
    return left, right


def _binary(node: TfliteNode, name: str, bounds: Bounds | None = None) -> Parsed:
    """Parse a binary operator. ``bounds`` are those of its result if it computes on integers, else None."""
    left, right = _operands(node)
    try:
        broadcast_shape([left.shape, right.shape])
    except ValueError as error:
        raise Unsupported(str(error)) from error
    activation = node.options.FusedActivationFunction() if hasattr(node.options, "FusedActivationFunction") else 0
    # The larger operand is the value, the other is read beside it; a constant is never the value.
    swapped = left.constant is not None or _size(left) < _size(right)
    if right.constant is not None and left.constant is None:
        swapped = False
    op = FusedOp(name, operand=0 if swapped else 1, swapped=swapped)
    integers = bounds is not None
    if bounds is not None and activation:
        bounds = min(bounds[0], 0), max(bounds[1], 0)
    epilogue = (op, *activation_epilogue(activation))
    return Parsed(Elementwise(), (1 if swapped else 0,), epilogue, integers=integers, bounds=bounds)


def _parse_first_shape(node: TfliteNode, *, name: str) -> Parsed:
    """A binary operator whose output has the shape of the first operand in LiteRT. ATAN2 does not broadcast at all."""
    parsed = _parse_binary(node, name=name)
    left, right = (tensor.shape for tensor in node.inputs if tensor is not None)
    if left != (right if name == "ATAN2" else broadcast_shape([left, right])):
        raise Unsupported(f"operands of the shapes {left} and {right}: LiteRT does not broadcast these")
    return parsed


def _size(tensor: TensorInfo) -> int:
    size = 1
    for dimension in tensor.shape:
        size *= dimension
    return size


def _parse_gelu(node: TfliteNode) -> Parsed:
    require_float(*node.inputs, *node.outputs)
    return Parsed(
        Elementwise(), (0,), (FusedOp("GELU_TANH" if node.options and node.options.Approximate() else "GELU"),)
    )


LARGEST_MULTIPLIER = 1 << 14
"""A factor between the steps of two tensors at which products of 16-bit integers still fit into LiteRT's 32 bits."""


def _parse_leaky_relu(node: TfliteNode) -> Parsed:
    require_float(*node.inputs, *node.outputs)
    alpha, source, result = float(node.options.Alpha()), node.inputs[0], node.outputs[0]
    if source is not None and source.stored_dtype in QUANTIZED_DTYPES:
        finite(alpha, "alpha")  # LiteRT makes a fixed-point number of it
        scales = [tensor.quantization.scales[0] for tensor in (source, result) if tensor.quantization]
        if len(scales) == 2 and abs(alpha) * scales[0] >= LARGEST_MULTIPLIER * scales[1]:
            raise Unsupported(f"its alpha is {alpha:g}, at which LiteRT's integers overflow")
    return Parsed(Elementwise(), (0,), (FusedOp("LEAKY_RELU", values=(alpha,)),))


def _parse_add_n(node: TfliteNode) -> Parsed:
    integers = all(is_index(tensor, "int32") for tensor in (*node.inputs, *node.outputs))
    if not integers:
        require_float(*node.inputs, *node.outputs)
    runtime = [i for i, tensor in enumerate(node.inputs) if tensor is not None and tensor.constant is None]
    if not runtime or len({tensor.shape for tensor in node.inputs if tensor is not None}) > 1 or None in node.inputs:
        raise Unsupported("it needs inputs of one shape, and one at least that is not constant")
    others = (i for i in range(len(node.inputs)) if i != runtime[0])
    epilogue = tuple(FusedOp("ADD", operand=i) for i in others)
    bounds = INT32_BOUNDS if integers else None
    return Parsed(Elementwise(), (runtime[0],), epilogue, integers=integers, bounds=bounds)


def _folded(operator: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[Any, list[np.ndarray]], np.ndarray]:
    """The ``fold`` of a row: its arithmetic on constants."""

    def fold(options: Any, inputs: list[np.ndarray]) -> np.ndarray:
        if getattr(options, "FusedActivationFunction", lambda: 0)():
            raise ValueError("an activation function is not folded")
        return operator(inputs[0], inputs[1])

    return fold


def _quotient(dividend: np.ndarray, divisor: np.ndarray) -> np.ndarray:
    """The quotient, towards zero for integers. Raises ValueError for those that are divided by zero."""
    if dividend.dtype.kind == "f":
        return dividend / divisor
    return _nonzero(np.abs(dividend), divisor) // np.abs(divisor) * np.sign(dividend) * np.sign(divisor)


def _nonzero(dividend: np.ndarray, divisor: np.ndarray) -> np.ndarray:
    """The dividend. Raises ValueError if an integer is divided by zero, which LiteRT refuses while the model runs."""
    if divisor.dtype.kind != "f" and not divisor.all():
        raise ValueError("integers are divided by zero")
    return dividend


_FOLDS = {
    "ADD": _folded(np.add),
    "DIV": _folded(_quotient),
    "FLOOR_DIV": _folded(lambda dividend, divisor: np.floor_divide(_nonzero(dividend, divisor), divisor)),
    "FLOOR_MOD": _folded(lambda dividend, divisor: np.mod(_nonzero(dividend, divisor), divisor)),
    "MAXIMUM": _folded(lambda left, right: np.where(left > right, left, right)),
    "MINIMUM": _folded(lambda left, right: np.where(left < right, left, right)),
    "MUL": _folded(np.multiply),
    "SUB": _folded(np.subtract),
}
_UNARY_FOLDS: dict[str, Callable[[Any, list[np.ndarray]], np.ndarray]] = {
    "ABS": lambda _, inputs: np.abs(inputs[0]),
    "CEIL": lambda _, inputs: np.ceil(inputs[0]),
    "FLOOR": lambda _, inputs: np.floor(inputs[0]),
    "NEG": lambda _, inputs: -inputs[0],
    "ROUND": lambda _, inputs: np.rint(inputs[0]),
    "SQRT": lambda _, inputs: np.sqrt(inputs[0]),
}
_HUGE = "on OpenGL exact to 1e7; on PoCL, a huge or infinite angle makes up to three beside it inexact"
_UNLIKE: dict[str, str] = {
    **dict.fromkeys(("RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "ELU", "SIGN"), "NaN becomes a bound, or 0"),
    "ATAN2": "of 0 the sign does not count; of two infinities, or NaN, the result is any",
    "COS": _HUGE,
    "FLOOR_DIV": "a float divided by 0 is infinite or NaN; LiteRT stops",
    "FLOOR_MOD": "the error is one of the dividend's last place",
    "GELU": "below -5 it is up to 8e-7, and not 0; of -infinity it is not NaN",
    "HARD_SWISH": "beyond 5.6e37 it is infinite",
    "POW": "infinities and numbers below 1.2e-38 are the driver's",
    "SIN": _HUGE,
}
"""The ``unlike_litert`` of these. max and min, by which the first ones are made, give for NaN what the driver does. An
exact form would be longer, and they end most convolutions.
"""
_BINARY_PARSERS = {
    **dict.fromkeys(ARITHMETIC, parse_arithmetic),
    **dict.fromkeys(DIVISIONS, parse_division),
    **dict.fromkeys(("ATAN2", "PRELU"), _parse_first_shape),
}
TFLITE = (
    *(
        TfliteOp(
            name, partial(_parse_sign if name in SIGNS else _parse_unary, name=name), max_version=5,
            max_rank=LARGEST_RANK, fold=_UNARY_FOLDS.get(name), unlike_litert=_UNLIKE.get(name, ""),
        )
        for name in UNARY
    ),
    *(
        TfliteOp(
            name, partial(_BINARY_PARSERS.get(name, _parse_binary), name=name), max_version=8, inputs=2,
            max_rank=LARGEST_RANK, fold=_FOLDS.get(name), unlike_litert=_UNLIKE.get(name, ""),
        )
        for name in BINARY
    ),
    TfliteOp("ADD_N", _parse_add_n, max_version=2, max_rank=LARGEST_RANK, unlike_litert=INFINITE_SUMS),
    TfliteOp("GELU", _parse_gelu, max_version=3, max_rank=LARGEST_RANK, unlike_litert=_UNLIKE["GELU"]),
    TfliteOp("LEAKY_RELU", _parse_leaky_relu, max_version=2, max_rank=LARGEST_RANK),
)  # fmt: skip
