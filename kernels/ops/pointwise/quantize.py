"""Quantized tensors: QUANTIZE, DEQUANTIZE, DENSIFY, and the float view of tensors of integers with a scale.

Kernels compute in float32 on value = scale * (stored - zero point). Constants are dequantized once, here. The epilogue
of the kernel that writes a quantized tensor rounds it to the values that its integers can hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from ...operation import FusedOp, Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import INDEX_DTYPES, INTEGER_DTYPES, LARGEST_RANK, QUANTIZED_DTYPES, Quantization, TensorInfo
from ...views import Quantized
from ..arguments import require_float
from .elementwise import Elementwise, lower_copy

_CONSTANTS = QUANTIZED_DTYPES.keys() | {"int4"}
"""The integer types of quantized constants: weights and operands. Biases have wider types."""


@dataclass(frozen=True)
class Dequantize(Operation):
    """A float16, integer or sparse constant as float32. It is folded before the model runs, unless the tensor is an
    output.
    """

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [shapes[0]]

    def lower(self, lowering: Lowering) -> list[Launch]:
        return lower_copy(lowering)


@dataclass(frozen=True, eq=False)
class ScaledIntegers:
    """Weights as integers, which stands for the array of their float32 values: NumPy makes it when it is asked for.

    Convolutions of integers never ask. A start that finds its constants packed then computes none of them.
    """

    stored: np.ndarray
    quantization: Quantization

    @property
    def shape(self) -> tuple[int, ...]:
        return self.stored.shape

    @property
    def ndim(self) -> int:
        return self.stored.ndim

    @property
    def dtype(self) -> np.dtype[np.float32]:
        return np.dtype(np.float32)

    @cached_property
    def values(self) -> np.ndarray:
        """The numbers that the integers stand for."""
        return _values(self.stored, self.quantization)

    def integers(self) -> np.ndarray:
        """The integers less their zero points: whole multiples of the scales."""
        if not any(self.quantization.zero_points):
            return self.stored
        return self.stored.astype(np.int16) - _along_axis(self.stored, self.quantization.zero_points, self.quantization)

    def reshape(self, *shape: int) -> np.ndarray | ScaledIntegers:
        """Values in another shape, still as integers if the channels stay the first dimension."""
        axis = self.quantization.axis
        if len(self.quantization.scales) == 1 or (axis == 0 and shape[0] == self.shape[0]):
            return ScaledIntegers(self.stored.reshape(shape), self.quantization)
        return self.values.reshape(shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.values if dtype is None else self.values.astype(dtype)

    def __getitem__(self, key: Any) -> np.ndarray:
        return self.values[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.values, name)


def half_view(tensor: TensorInfo) -> TensorInfo:
    """The float32 tensor that stands for a computed one of float16; any other tensor as it is."""
    if tensor.dtype == "float16" and tensor.constant is None:
        return replace(tensor, dtype="float32", stored_dtype="float16", quantization=None)
    return tensor


def float_view(tensor: TensorInfo, *, real: bool = False, weights: bool = False) -> TensorInfo:
    """The float32 tensor that stands for a quantized one, or for one of float16; any other tensor as it is.

    A constant becomes its values, and has no quantization any more. One of int32 or int64 has float32 values only if
    it is ``real``, a bias: an axis or a size stands for itself. The values of ``weights`` are computed when they are
    needed. A computed tensor keeps its quantization, and its integer type as ``stored_dtype``; with one scale per
    channel it has no float view, and stays as it is.
    """
    quantization = tensor.quantization
    if tensor.dtype == "float16":
        return half_view(tensor)
    if quantization is None or not _is_valid(quantization.scales):
        return tensor
    if tensor.constant is not None:
        if tensor.dtype in INDEX_DTYPES and not real:
            return replace(tensor, quantization=None)
        return _dequantized(tensor, weights=weights) if tensor.dtype in _CONSTANTS | INDEX_DTYPES else tensor
    if tensor.dtype in QUANTIZED_DTYPES and len(quantization.scales) == 1:
        return replace(tensor, dtype="float32", stored_dtype=tensor.dtype)
    return tensor


def _is_valid(scales: tuple[float, ...]) -> bool:
    return math.isfinite(sum(scales)) and min(scales) > 0


def _dequantized(tensor: TensorInfo, *, weights: bool) -> TensorInfo:
    stored, quantization = tensor.constant, tensor.quantization
    assert quantization is not None and stored is not None
    if stored.dtype.itemsize > 1:
        return replace(tensor, dtype="float32", constant=_values(stored, quantization), quantization=None)
    lazy = weights and tensor.dtype in ("int8", "uint8")
    floats = cast("np.ndarray", ScaledIntegers(stored, quantization)) if lazy else _values(stored, quantization)
    return replace(tensor, dtype="float32", constant=floats, quantization=None, scales=quantization.scales)


def _values(stored: np.ndarray, quantization: Quantization) -> np.ndarray:
    # float32 holds integers of 8 and 16 bits, so that a product is rounded once there, as it is from float64.
    kind = np.float32 if stored.dtype.itemsize <= 2 else np.float64
    values = stored.astype(kind)
    if any(quantization.zero_points):
        values -= _along_axis(stored, quantization.zero_points, quantization, kind)
    values *= _along_axis(stored, quantization.scale_array, quantization, kind)
    return values.astype(np.float32, copy=False)


def _along_axis(
    stored: np.ndarray,
    numbers: Sequence[float] | np.ndarray,
    quantization: Quantization,
    kind: type[np.number[Any]] = np.int16,
) -> np.ndarray:
    """Numbers for each value: one per channel, along the axis; or one for all."""
    ends = (-1, *(1,) * (stored.ndim - 1 - quantization.axis)) if len(numbers) > 1 else ()
    return np.array(numbers, kind).reshape(ends)


def stored_view(tensor: TensorInfo) -> Quantized | None:
    """The view of a computed tensor of integers as the model stores it; None if it is float32 there too."""
    if tensor.dtype in INTEGER_DTYPES:
        return Quantized(tensor.bhwc, tensor.dtype, 1.0, 0)
    if tensor.stored_dtype == "":
        return None
    if tensor.stored_dtype == "float16":
        return Quantized(tensor.bhwc, "float16", 1.0, 0)
    assert tensor.quantization is not None
    return Quantized(
        tensor.bhwc, tensor.stored_dtype, tensor.quantization.scales[0], tensor.quantization.zero_points[0]
    )


def stored_values(tensor: TensorInfo, values: np.ndarray) -> np.ndarray:
    """The integers, or halves, that stand for float32 values in a tensor of the model (not its float view)."""
    if tensor.dtype == "float16":
        return values.astype(np.float16)
    kind = INTEGER_DTYPES[tensor.dtype]
    if tensor.quantization is None:  # numbers that stand for themselves
        stored = np.rint(values)
    else:
        stored = np.rint(values / np.float32(tensor.quantization.scales[0])) + tensor.quantization.zero_points[0]
    return np.clip(stored, kind.lowest, kind.highest).astype(tensor.dtype)


def rounding_op(tensor: TensorInfo) -> FusedOp | None:
    """The operation that rounds a computed tensor to the values that its integers, or halves, can hold; None if it has
    neither.
    """
    if tensor.stored_dtype == "":
        return None
    if tensor.stored_dtype == "float16":
        return FusedOp("TO_HALF")
    assert tensor.quantization is not None
    zero_point = tensor.quantization.zero_points[0]
    kind = QUANTIZED_DTYPES[tensor.stored_dtype]
    return FusedOp(
        "QUANTIZE", values=(tensor.quantization.scales[0], kind.lowest - zero_point, kind.highest - zero_point)
    )


def rounding_epilogue(row: TfliteOp, node: TfliteNode, parsed: Parsed) -> tuple[FusedOp, ...]:
    """The end of an operator's epilogue, which rounds the outputs to values that their integers can hold.

    Raises Unsupported for several outputs that need rounding, and for an operator that computes on the stored integers.
    """
    inputs, outputs = node.inputs, node.outputs
    if row.takes_integers and any(t is not None and t.stored_dtype in QUANTIZED_DTYPES for t in (*inputs, *outputs)):
        raise Unsupported("it works on the integers of quantized tensors, which the GPU does not have")
    if not any([tensor.stored_dtype for tensor in outputs]):
        return ()
    scales = {(t.stored_dtype, t.quantization) for t in (*inputs, *outputs) if t is not None and t.dtype == "float32"}
    if row.moves_values and not parsed.epilogue and len(scales) == 1:
        return ()
    if not (not row.moves_values if row.rescales is None else row.rescales) and len(scales) > 1:
        raise Unsupported(
            f"its output '{outputs[0].name}' has another scale than its input, and LiteRT's kernel copies the integers"
        )
    op = rounding_op(outputs[0])
    if len(outputs) > 1 or op is None:
        raise Unsupported("several quantized outputs, or their scales differ from the input's")
    return (op,)


def _parse_quantize(node: TfliteNode) -> Parsed:
    require_float(*node.inputs, *node.outputs)
    if node.outputs[0].stored_dtype == "":
        raise Unsupported(f"tensor '{node.outputs[0].name}' has no scale")
    return Parsed(Elementwise())


def _parse_dequantize(node: TfliteNode) -> Parsed:
    require_float(*node.inputs, *node.outputs)
    source = node.inputs[0]
    return Parsed(Dequantize() if source is not None and source.constant is not None else Elementwise())


def _parse_densify(node: TfliteNode) -> Parsed:
    source = node.inputs[0]
    if source is None or source.constant is None or not source.dtype.startswith("sparse "):
        raise Unsupported("its input is no sparse constant")
    if source.constant.shape != node.outputs[0].shape or source.constant.dtype.name not in ("float16", "float32"):
        raise Unsupported("its output is not its input, of type float16 or float32")
    return Parsed(Dequantize())


@dataclass(frozen=True)
class Store(Operation):
    """A copy to memory that holds integers (views.Quantized). The engine adds it if such memory is bound."""

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [shapes[0]]

    def lower(self, lowering: Lowering) -> list[Launch]:
        items = -(-math.prod(lowering.shape(lowering.outputs[0])) // 4)
        reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
        return [Launch("quantize", reads, writes, lowering.group_count(items), {"ITEMS": items})]


_OF_NAN = "NaN becomes an integer that the driver chooses, mostly the lowest; LiteRT's the highest"
TFLITE = (
    TfliteOp("DENSIFY", _parse_densify, max_version=1, max_rank=LARGEST_RANK),
    TfliteOp("QUANTIZE", _parse_quantize, max_version=6, max_rank=LARGEST_RANK, unlike_litert=_OF_NAN, results=("",)),
    TfliteOp(
        "DEQUANTIZE", _parse_dequantize, max_version=9, max_rank=LARGEST_RANK, real_integers=(0,), results=("float32",)
    ),
)
