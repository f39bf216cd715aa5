"""RIGHT_SHIFT and STABLEHLO_SHIFT_LEFT. Integers are whole numbers in floats here, so shifts halve and double them."""

from __future__ import annotations

from ...operation import FusedOp, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import INTEGER_DTYPES, LARGEST_RANK
from ..arguments import require_movable, require_type
from .elementwise import Elementwise

SHIFTED = ("int8", "uint8", "int16", "int32")
"""The types that are shifted. A float32 holds all values of the small ones, and int32 that the GPU computed."""


def _parse_right(node: TfliteNode) -> Parsed:
    return _parse_shift(node, "RIGHT_SHIFT")


def _parse_left(node: TfliteNode) -> Parsed:
    if len({tensor.shape for tensor in node.inputs if tensor is not None}) > 1:
        raise Unsupported("its operands differ in shape, which LiteRT does not broadcast")
    return _parse_shift(node, "LEFT_SHIFT")


def _parse_shift(node: TfliteNode, name: str) -> Parsed:
    require_type(SHIFTED, *node.inputs, *node.outputs)
    require_movable(node.inputs, [])
    left, right = node.inputs[:2]
    if left is None or right is None or left.dtype != right.dtype:
        raise Unsupported("it needs two operands of one type")
    swapped = left.constant is not None and right.constant is None
    bits = 8 * INTEGER_DTYPES[left.dtype].nbytes
    op = FusedOp(name, operand=int(not swapped), swapped=swapped, values=(float(bits), 2.0**bits))
    return Parsed(Elementwise(), (int(swapped),), (op,))


TFLITE = (
    TfliteOp("RIGHT_SHIFT", _parse_right, max_version=2, inputs=2, max_rank=LARGEST_RANK, takes_integers=True),
    TfliteOp("STABLEHLO_SHIFT_LEFT", _parse_left, max_version=1, inputs=2, max_rank=LARGEST_RANK, takes_integers=True),
)
