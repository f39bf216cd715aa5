"""Quantization parameters of a file, checked, because LiteRT's kernels rely on them. LiteRT aborts the process, or
crashes, at a scale that is not a positive number, at a zero point outside the type, at 8-bit sums and comparisons
without a scale, and at sums of much larger scale than their result. This was found with ai-edge-litert 2.3.0, operator
by operator, with and without XNNPACK.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tflite

from ...interop.errors import ModelError
from ...kernels.tensor import QUANTIZED_DTYPES, Quantization, TensorInfo
from . import tables
from .model import RawOperator
from .tables import numbers

_RANGES = {"int4": (-8, 7), **{name: (row.lowest, row.highest) for name, row in QUANTIZED_DTYPES.items()}}
"""The smallest and largest stored integer of the types of quantized tensors."""
_CURE = "convert the model again"
_SMALLEST = float(np.finfo(np.float32).tiny)
"""The smallest scale that is not denormal."""
_INEQUALITIES = frozenset("LESS LESS_EQUAL GREATER GREATER_EQUAL".split())
_HEADROOM = {"int8": 1 << 20, "uint8": 1 << 20, "int16": 1 << 15}
"""ADD takes the larger input's doubled scale if it is less than this, times the output's scale."""


def read_quantization(
    label: object, table: tflite.QuantizationParameters | None, shape: Sequence[int], dtype: str, *, constant: bool
) -> Quantization | None:
    """The parameters of a tensor, or None if it has no meaningful ones. Raises ModelError for invalid ones.

    The parameters of floats are never used, and those of int32 only for biases: invalid ones count as none.
    """
    if table is None:
        return None
    scales = numbers(table, tables.QUANTIZATION_SCALES, "f")
    if not scales:
        return None
    axis = table.QuantizedDimension()
    zero_points = numbers(table, tables.QUANTIZATION_ZERO_POINTS, "q") or (0,) * len(scales)
    if len(scales) > 1 and not (0 <= axis < len(shape) and len(scales) == shape[axis]):
        raise ModelError(f"{label} has {len(scales)} scales along axis {axis} of its shape {list(shape)}")
    if len(zero_points) not in (1, len(scales)):
        raise ModelError(f"{label} has {len(scales)} scales and {len(zero_points)} zero points")
    quantization = Quantization(scales, zero_points, axis)
    wrong = _unsound(quantization, dtype, constant=constant)
    if wrong and dtype in _RANGES:
        raise ModelError(f"{label} is quantized {dtype} {wrong}; {_CURE}")
    return None if wrong else quantization


def _unsound(quantization: Quantization, dtype: str, *, constant: bool) -> str:
    """The invalid parameter, or "". A constant may have a scale of 0: all its values are 0. A scale may be denormal:
    converters give one to a tensor that was always 0.
    """
    scales, points = quantization.scales, quantization.zero_points
    if not (min(scales) > 0 and math.isfinite(sum(scales))):  # a test of each takes five times as long
        wrong = [scale for scale in scales if not math.isfinite(scale) or scale < 0 or (scale == 0 and not constant)]
        if wrong:
            return f"with the scale {wrong[0]:g}, which is not a positive number"
    lowest, highest = _RANGES.get(dtype, (-(1 << 31), (1 << 31) - 1))
    if min(points) < lowest or max(points) > highest:
        wrong = next(point for point in points if not lowest <= point <= highest)
        return f"with the zero point {wrong}, which is not from {lowest} to {highest}"
    return ""


def check_scales(where: str, operator: RawOperator, tensors: Sequence[TensorInfo]) -> None:
    """Raise ModelError if LiteRT would abort the process over the scales of the operator's tensors."""
    inputs = [tensors[i] for i in operator.inputs if i >= 0]
    if operator.name in ("BATCH_MATMUL", "QUANTIZE"):
        _check_denormal(where, [*inputs, *(tensors[i] for i in operator.outputs)])
    if not inputs or not operator.outputs or inputs[0].dtype not in QUANTIZED_DTYPES:
        return
    outputs = [tensors[i] for i in operator.outputs]
    for tensor in _scaled(operator.name, inputs, outputs):
        # LiteRT gives a sum the type of its input, whatever the file declares.
        if (tensor.dtype in QUANTIZED_DTYPES or tensor in outputs) and not _scale(tensor):
            raise ModelError(
                f"{where} computes with tensor '{tensor.name}', which is {tensor.dtype} and has no single positive "
                f"scale; {_CURE}"
            )
    _check_headroom(where, operator.name, [_scale(tensor) for tensor in inputs], outputs[0])


def _check_denormal(where: str, tensors: Sequence[TensorInfo]) -> None:
    """Refuse 8-bit integers whose scale is denormal: XNNPACK divides by it, and crashes."""
    for tensor in tensors:
        if tensor.dtype in ("int8", "uint8") and tensor.constant is None and 0 < _scale(tensor) < _SMALLEST:
            raise ModelError(
                f"{where} computes with tensor '{tensor.name}', which is {tensor.dtype} of scale {_scale(tensor):g}, "
                "too small for LiteRT: calibrate the model with data for which the tensor is not always 0"
            )


def _scaled(name: str, inputs: list[TensorInfo], outputs: list[TensorInfo]) -> list[TensorInfo]:
    """The tensors whose scales an operator's kernel divides by, or uses for tables."""
    if inputs[0].dtype == "int16" and inputs[0].quantization is None:  # integers that stand for themselves
        return inputs[:1] if name in ("LOG", "RSQRT", "SQRT", "SUB") else []
    if name in ("ADD", "SQUARED_DIFFERENCE"):
        return inputs + outputs
    comparison = name in ("EQUAL", "NOT_EQUAL") or (inputs[0].dtype != "int16" and name in _INEQUALITIES)
    return inputs if comparison or name == "SUB" else []


def _check_headroom(where: str, name: str, scales: Sequence[float], result: TensorInfo) -> None:
    """Refuse results whose scale is too small for LiteRT's fixed-point arithmetic (or XNNPACK's, of BATCH_MATMUL)."""
    steps, limit = 0.0, 0
    if name == "ADD" and result.dtype in _HEADROOM:
        steps, limit = 2 * max(scales), _HEADROOM[result.dtype]
    elif name == "SQUARED_DIFFERENCE":
        steps, limit = (2 * max(scales)) ** 2, 1 << 14
    elif name == "BATCH_MATMUL" and result.dtype == "int8" and _scale(result):
        steps, limit = math.prod(scales), 256
    if steps and steps >= limit * _scale(result):
        raise ModelError(
            f"{where} has inputs of scales {', '.join(f'{s:g}' for s in scales)}, too large for the scale "
            f"{_scale(result):g} of its output '{result.name}'; {_CURE}"
        )


def _scale(tensor: TensorInfo) -> float:
    """The tensor's scale; 0 if it has none, or several."""
    quantization = tensor.quantization
    return quantization.scales[0] if quantization is not None and len(quantization.scales) == 1 else 0.0
