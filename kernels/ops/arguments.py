"""Checks of an operator's tensors, axes, biases and activation functions, shared by many operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

import numpy as np

from ..operation import FusedOp, TfliteNode, Unsupported
from ..tensor import INDEX_DTYPES, INTEGER_DTYPES, QUANTIZED_DTYPES, TensorInfo


def constant(tensor: TensorInfo | None, what: str) -> np.ndarray:
    """The values of a constant input. Raises Unsupported if it is computed at run time."""
    given = _given(tensor, what)
    if given.constant is None:
        raise Unsupported(
            f"{what} must be constant: kernels are made for one value, and tensor '{given.name}' is known only later"
        )
    return given.constant


def index_constant(tensor: TensorInfo | None, what: str) -> np.ndarray:
    """The values of a constant input of integers: axes, a permutation, sizes. Raises Unsupported for other types."""
    values = constant(tensor, what)
    require_type(INDEX_DTYPES, tensor)
    return values


def shape_constant(tensor: TensorInfo | None, what: str, dtypes: Collection[str] = INDEX_DTYPES) -> np.ndarray:
    """The values of an input from which the shape of the result follows. Raises Unsupported if it is computed, or of
    another type.
    """
    given = _given(tensor, what)
    if given.constant is None:
        raise Unsupported(
            f"{what} must be constant: the shape of the result follows from it, and tensor '{given.name}' is known "
            "only while the model runs"
        )
    require_type(dtypes, given)
    return given.constant


def _given(tensor: TensorInfo | None, what: str) -> TensorInfo:
    if tensor is None:
        raise Unsupported(f"{what} must be given")
    return tensor


LARGEST_EXACT_INTEGER = 1 << 24
"""A float32 holds every integer up to this one."""
ACTIVATIONS = (None, "RELU", "RELU_N1_TO_1", "RELU6", "TANH")
"""The fused activation functions of the schema, by number; 5 (SIGN_BIT) has no GPU form."""


INFINITE_SUMS = "a sum beyond 3.4e38 is infinite; LiteRT's is the largest float"
"""The ``unlike_litert`` of operators whose kernels in LiteRT have an activation's bounds where there is none."""
SPECTRA = "errors are parts of the largest value: one infinity, or a square beyond 3.4e38, makes NaN of all"
"""The ``unlike_litert`` of Fourier transforms."""
NEAREST_PLACE = "LiteRT stops at a computed place outside the tensor; the GPU cannot, and takes the nearest one"
"""The ``unlike_litert`` of operators that read at indices which may be computed while the model runs."""


def axis_of(axis: int, rank: int) -> int:
    """An axis that counts from the front, for one that may count from the end. Raises Unsupported if it is neither."""
    if not -rank <= axis < rank:
        raise Unsupported(f"axis {axis} is outside rank {rank}")
    return int(axis) % rank


T = TypeVar("T")


def member(members: Sequence[T], number: int, what: str) -> T:
    """The member of an enum of the schema, by its number in the file. Every such number is looked up here.

    Raises Unsupported for a number without a member. (A plain index would let negative numbers count from the end.)
    """
    if not 0 <= number < len(members):
        raise Unsupported(f"{what} {number} has no GPU form")
    return members[number]


def widening(*sources: str) -> Callable[[TfliteNode], str]:
    """The type of an output: int16 if the file declares it so and the first input has one of these types, else that of
    the first input (see ``TfliteOp.results``).
    """

    def widened(node: TfliteNode) -> str:
        source = node.inputs[0].dtype if node.inputs[0] is not None else ""
        return "int16" if source in sources and node.outputs[0].dtype == "int16" else source

    return widened


def declared_by(option: str) -> Callable[[TfliteNode], str]:
    """The type of an output that an option names (see ``TfliteOp.results``)."""

    def declared(node: TfliteNode) -> str:
        number = getattr(node.options, option)() if node.options is not None else -1
        return {0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64"}.get(number, "")

    return declared


def finite(value: float, what: str) -> float:
    """Check a number of an option table that goes into a kernel's text. Raises Unsupported unless it is finite."""
    if not math.isfinite(value):
        raise Unsupported(f"its {what} is {value}, which is not finite")
    return float(value)


def activation_epilogue(number: int) -> tuple[FusedOp, ...]:
    """The epilogue for a fused activation function. Raises Unsupported if the GPU does not have it.

    TANH is left to the CPU: LiteRT's kernels accept it but compute no activation, and LiteRT is the reference.
    """
    name = member(ACTIVATIONS, number, "fused activation function")
    if name == "TANH":
        raise Unsupported("its fused activation function is TANH, which LiteRT's kernels leave out")
    return (FusedOp(name),) if name else ()


def require_float(*tensors: TensorInfo | None) -> None:
    """Raise Unsupported unless every tensor present is float32, or a float16 constant."""
    for tensor in tensors:
        if tensor and tensor.dtype != "float32" and not (tensor.dtype == "float16" and tensor.constant is not None):
            raise Unsupported(f"tensor '{tensor.name}' is {_no_float(tensor)}")


def _no_float(tensor: TensorInfo) -> str:
    """The type of a tensor that cannot be float32 on the GPU, and the types that can, for a message."""
    if tensor.dtype in QUANTIZED_DTYPES and tensor.quantization is not None:
        return f"{tensor.dtype} with {len(tensor.quantization.scales)} scales; a computed tensor needs one"
    if tensor.dtype in QUANTIZED_DTYPES:
        return f"{tensor.dtype} without a scale, so that its integers stand for no real numbers"
    if tensor.constant is not None and tensor.dtype not in INTEGER_DTYPES:
        return f"{tensor.dtype} and constant; constants are float32, float16, or integers with scales"
    return f"{tensor.dtype}; the operator takes float32, and int8, uint8 and int16 with a scale"


def require_movable(sources: Sequence[TensorInfo | None], outputs: Sequence[TensorInfo]) -> None:
    """Raise Unsupported unless an operator can move values from sources to outputs: float32, or integers that a float32
    holds.
    """
    for tensor in sources:
        if tensor and (tensor.dtype not in INTEGER_DTYPES or (tensor.quantization and tensor.dtype != "float32")):
            require_float(tensor)
        elif tensor and not is_exact(tensor):
            raise Unsupported(
                f"tensor '{tensor.name}' is {tensor.dtype}, and may hold integers that a float32 does not"
            )
    _require_one_type(sources, outputs)


def _require_one_type(sources: Sequence[TensorInfo | None], outputs: Sequence[TensorInfo]) -> None:
    """Raise Unsupported if outputs have another type than the first source: LiteRT gives them the source's type, and
    ignores the type in the file.
    """
    for tensor in outputs:
        if not sources or sources[0] is None or tensor.dtype != sources[0].dtype:
            require_float(tensor, *sources[:1])


def require_values(sources: Sequence[TensorInfo | None], outputs: Sequence[TensorInfo]) -> None:
    """Raise Unsupported unless an operator whose kernels also take int32 can move values from sources to outputs."""
    indices = [tensor for tensor in sources if tensor and tensor.dtype in INDEX_DTYPES and tensor.quantization is None]
    require_movable([tensor for tensor in sources if tensor not in indices], [])
    _require_one_type(sources, outputs)


def is_exact(tensor: TensorInfo) -> bool:
    """Whether a float32 holds every value of a tensor of truth values or integers."""
    if tensor.dtype not in INDEX_DTYPES or tensor.exact_in_f32:
        return True
    return tensor.constant is not None and int(np.abs(tensor.constant).max(initial=0)) <= LARGEST_EXACT_INTEGER


def is_index(tensor: TensorInfo | None, dtype: str) -> bool:
    """Whether a tensor has this type, one of indices, and its integers stand for themselves."""
    return tensor is not None and tensor.dtype == dtype and dtype in INDEX_DTYPES and tensor.quantization is None


def require_type(dtypes: Collection[str], *tensors: TensorInfo | None) -> None:
    """Raise Unsupported unless every tensor present is of one of these types."""
    for tensor in tensors:
        if tensor and tensor.dtype not in dtypes:
            raise Unsupported(
                f"tensor '{tensor.name}' is {tensor.dtype}; only {', '.join(sorted(dtypes))} is supported"
            )


def optional_bias(inputs: list[TensorInfo | None], channels: int) -> np.ndarray | None:
    """The constant bias, input 2; None if there is none. Raises Unsupported unless it has one value per output channel.

    A bias that is computed becomes part of the epilogue: see ``computed_bias``.
    """
    if len(inputs) < 3 or inputs[2] is None or inputs[2].constant is None:
        return None
    bias = inputs[2].constant.reshape(-1)
    if bias.size != channels:
        raise Unsupported(f"bias has {bias.size} values for {channels} output channels")
    return bias


def computed_bias(inputs: list[TensorInfo | None], channels: int, *, position: int = 2) -> tuple[FusedOp, ...]:
    """The epilogue that adds a bias that is not constant."""
    bias = inputs[position] if len(inputs) > position else None
    return () if bias is None or bias.constant is not None else bias_epilogue(inputs, channels, position=position)


def bias_epilogue(inputs: list[TensorInfo | None], channels: int, *, position: int = 2) -> tuple[FusedOp, ...]:
    """The epilogue that adds the bias, one value per output channel; empty if there is none."""
    bias = inputs[position] if len(inputs) > position else None
    if bias is None:
        return ()
    if bias.shape != (channels,):
        raise Unsupported(f"bias has the shape {bias.shape} for {channels} output channels")
    return (FusedOp("ADD", operand=position),)
