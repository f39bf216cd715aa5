"""Scales of weights and biases for which LiteRT's kernels do not follow the file: such operators stay on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...kernels.operation import TfliteOp, Unsupported
from ...kernels.registry import OPERATORS
from ...kernels.tensor import INDEX_DTYPES, QUANTIZED_DTYPES, TensorInfo
from ..read.model import RawOperator
from .int16_tables import INTERPOLATED, refuse_coarse_table

SMALLEST = float(np.finfo(np.float32).tiny)
"""The smallest scale that is not denormal."""
SAME_SCALE = 1e-2
"""Largest difference of two scales that are the same, as a part of them: LiteRT's own bound is 0.02 of the output's."""
OVERFLOWS = {"int32": 2.0**31, "int64": 2.0**46}
"""Sums at which LiteRT's kernels overflow, by the type of the bias: it scales sums of 48 bits."""
_WITHOUT_ZERO_POINT = ("DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
"""Operators whose kernels in LiteRT read no zero point of int8 weights. CONV_2D's refuses one, FULLY_CONNECTED's
subtracts it.
"""


def refuse_scales(raw: RawOperator, stored: Mapping[int, TensorInfo]) -> None:
    """Raise Unsupported if LiteRT's kernels do not follow the file for the scales of an operator's weights or bias."""
    _refuse_denormal([stored[i] for i in (*raw.inputs, *raw.outputs) if i >= 0])
    row = OPERATORS.get(raw.name)
    if row is not None and row.channel_axis is not None:
        _refuse_weights(row, raw, stored)
        _refuse_bias(raw, stored)
        _refuse_large_bias(row, raw, stored)
    if not raw.custom and raw.name in _REFUSALS:
        _REFUSALS[raw.name]([stored[i] for i in raw.inputs], stored[raw.outputs[0]])
    if not raw.custom and raw.name in INTERPOLATED:
        refuse_coarse_table(raw.name, stored[raw.inputs[0]], stored[raw.outputs[0]])


def _refuse_denormal(tensors: Sequence[TensorInfo]) -> None:
    """GPUs take denormal floats for 0. Constants have their values already."""
    for tensor in tensors:
        if tensor.constant is not None or tensor.quantization is None or tensor.dtype not in QUANTIZED_DTYPES:
            continue
        if min(tensor.quantization.scales) < SMALLEST:
            raise Unsupported(f"the scale of tensor '{tensor.name}' is denormal: GPUs take it for 0")


def _refuse_other_steps(inputs: Sequence[TensorInfo], output: TensorInfo) -> None:
    """LiteRT's MAXIMUM and MINIMUM choose among the integers of the inputs, as if they all had the output's scale."""
    quantized = [tensor for tensor in (*inputs, output) if _has_scale(tensor)]
    for tensor in quantized[:-1]:
        if tensor.quantization != quantized[-1].quantization:
            raise Unsupported(f"its tensors '{tensor.name}' and '{quantized[-1].name}' differ in their scale")


def _refuse_fill(inputs: Sequence[TensorInfo], output: TensorInfo) -> None:
    """LiteRT's FILL takes no value of another scale than its output's, whatever their types."""
    value = inputs[1]
    if value.quantization != output.quantization:
        raise Unsupported(f"its value '{value.name}' and its output '{output.name}' differ in their scale")


def _refuse_cast(inputs: Sequence[TensorInfo], output: TensorInfo) -> None:
    """LiteRT's CAST takes integers as they are. A constant with a scale stands for real numbers on the GPU."""
    if _has_scale(inputs[0]) and inputs[0].constant is not None:
        raise Unsupported(f"its constant '{inputs[0].name}' has a scale, and LiteRT casts the integers")


def _refuse_negative(inputs: Sequence[TensorInfo], output: TensorInfo) -> None:
    """LiteRT's NEG changes the sign of integers, whatever their zero point and the output's scale are."""
    given, result = inputs[0].quantization, output.quantization
    if not _has_scale(inputs[0]) or given is None or result is None:
        return
    if given.scales != result.scales or any(map(sum, zip(given.zero_points, result.zero_points, strict=True))):
        raise Unsupported(
            f"LiteRT changes the sign of the integers of '{inputs[0].name}', which is not that of the numbers with "
            f"these scales and zero points"
        )


def _refuse_softmax(inputs: Sequence[TensorInfo], output: TensorInfo) -> None:
    """LiteRT's SOFTMAX adds no zero point to results of uint8; for int8 it refuses others than -128."""
    if output.dtype == "uint8" and output.quantization is not None and any(output.quantization.zero_points):
        raise Unsupported(f"its output '{output.name}' has a zero point, which LiteRT takes for 0")


def _refuse_concatenation(inputs: Sequence[TensorInfo], output: TensorInfo) -> None:
    """LiteRT's CONCATENATION converts integers of 8 bits to the output's scale, and copies those of 16."""
    if output.dtype == "int16":
        _refuse_other_steps(inputs, output)


def _refuse_division(inputs: Sequence[TensorInfo], output: TensorInfo) -> None:
    """LiteRT's FLOOR_DIV and FLOOR_MOD divide integers, whatever numbers they stand for."""
    for tensor in inputs:
        if _has_scale(tensor):
            raise Unsupported(f"LiteRT divides the integers of '{tensor.name}', whatever its scale is")


_REFUSALS: dict[str, Callable[[Sequence[TensorInfo], TensorInfo], None]] = {
    "CAST": _refuse_cast, "CONCATENATION": _refuse_concatenation, "FILL": _refuse_fill, "FLOOR_DIV": _refuse_division,
    "FLOOR_MOD": _refuse_division, "MAXIMUM": _refuse_other_steps, "MINIMUM": _refuse_other_steps,
    "NEG": _refuse_negative, "SOFTMAX": _refuse_softmax,
}  # fmt: skip
"""Checks of inputs and output, for operators whose kernels in LiteRT look at integers and not at their scales."""


def _has_scale(tensor: TensorInfo) -> bool:
    return tensor.quantization is not None and tensor.dtype in QUANTIZED_DTYPES


def _refuse_weights(row: TfliteOp, raw: RawOperator, stored: Mapping[int, TensorInfo]) -> None:
    """LiteRT's kernels take the scales of weights for those of the output's channels, whatever the file says."""
    axis, weights = row.channel_axis, stored[raw.inputs[1]]
    name, quantization = weights.name, weights.quantization
    if quantization is not None and len(quantization.scales) > 1 and quantization.axis != axis:
        raise Unsupported(
            f"the scales of its weights '{name}' are those of dimension {quantization.axis}, and LiteRT's kernels read "
            f"them as those of dimension {axis}"
        )
    if quantization is not None and len(quantization.scales) > 1 and any(quantization.zero_points):
        raise Unsupported(f"its weights '{name}' have zero points by channel, which LiteRT's kernels take for 0")
    has_zero_point = quantization is not None and weights.dtype == "int8" and any(quantization.zero_points)
    if has_zero_point and raw.name in _WITHOUT_ZERO_POINT:
        raise Unsupported(f"its weights '{name}' are int8 with a zero point, which LiteRT's kernels take for 0")


def _refuse_bias(raw: RawOperator, stored: Mapping[int, TensorInfo]) -> None:
    """LiteRT's kernels add the integers of a bias to sums of inputs times weights, whatever scale the file gives it.

    Converters let layers share a bias of zeros, which has the scale of one of them: zeros are zeros at any scale.
    """
    given = [stored[i] for i in raw.inputs if i >= 0]
    if len(given) < 3:
        return
    weights, bias = given[1], given[-1]
    source = next((tensor for tensor in given if tensor.constant is None and tensor.dtype in QUANTIZED_DTYPES), None)
    if bias.constant is None or bias.dtype not in INDEX_DTYPES or source is None:
        return
    if not (bias.quantization and weights.quantization and source.quantization):
        return
    products = weights.quantization.scale_array * source.quantization.scales[0]
    scales = bias.quantization.scale_array
    # Finite numbers, for which numpy's allclose takes a tenth of a millisecond.
    is_product = len(scales) in (1, len(products)) and (abs(scales - products) <= SAME_SCALE * abs(products)).all()
    if any(bias.quantization.zero_points) or not (is_product or not bias.constant.any()):
        raise Unsupported(
            f"its bias '{bias.name}' has another scale than its input times its weights, or a zero point, and LiteRT's "
            "kernels take its integers as they are"
        )


def _refuse_large_bias(row: TfliteOp, raw: RawOperator, stored: Mapping[int, TensorInfo]) -> None:
    """LiteRT's sums of integers overflow, if the bias is large enough; floats do not.

    Converters fill 32 bits with the bias of a channel whose weights are nearly zero. Its scale is so small that the
    whole range of the sums is no step of the output: such a channel is left alone.
    """
    if len(raw.inputs) <= row.optional[0] or raw.inputs[row.optional[0]] < 0:
        return
    bias, weights = stored[raw.inputs[row.optional[0]]], stored[raw.inputs[1]]
    if bias.constant is None or bias.dtype not in OVERFLOWS or bias.constant.size == 0:
        return
    most = np.abs(bias.constant.astype(np.float64)).reshape(-1)
    if bias.dtype == "int32" and most.max() > 2**30 and weights.constant is not None:
        others = tuple(i for i in range(weights.constant.ndim) if i != row.channel_axis)
        sums = 255 * np.abs(weights.constant.astype(np.float64)).sum(axis=others)
        most = most + sums if sums.shape == most.shape else most
    overflows = most >= OVERFLOWS[bias.dtype]
    if overflows.any() and (overflows & (OVERFLOWS[bias.dtype] * _steps(bias, stored[raw.outputs[0]]) >= 0.5)).any():
        raise Unsupported(f"its bias '{bias.name}' is so large that LiteRT's sums of integers overflow")


def _steps(bias: TensorInfo, output: TensorInfo) -> np.ndarray:
    """The value of 1 in the sum of each channel, in steps of the output; infinite if it is not known."""
    if bias.quantization is None or output.quantization is None:
        return np.array([np.inf])
    return bias.quantization.scale_array / output.quantization.scales[0]
