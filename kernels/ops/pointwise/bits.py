"""BITWISE_XOR and STABLEHLO_AND: they join the bits of integers, which are int32 in the kernel."""

from __future__ import annotations

from ...operation import FusedOp, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import INT32_BOUNDS, LARGEST_RANK, QUANTIZED_DTYPES, broadcast_shape
from ..arguments import require_type
from .elementwise import Elementwise

INTEGERS = frozenset({"int8", "uint8", "int16", "int32"})


def _parse_xor(node: TfliteNode) -> Parsed:
    return _joined(node, "BITWISE_XOR")


def _parse_and(node: TfliteNode) -> Parsed:
    if len({tensor.shape for tensor in node.inputs if tensor is not None}) > 1:
        raise Unsupported("its operands differ in shape, which StableHLO does not broadcast")
    if node.outputs[0].dtype != "bool":
        return _joined(node, "BITWISE_AND")
    parsed = _joined(node, "LOGICAL_AND", frozenset({"bool"}))
    return Parsed(parsed.operation, parsed.inputs, parsed.epilogue)


def _joined(node: TfliteNode, name: str, dtypes: frozenset[str] = INTEGERS) -> Parsed:
    require_type(dtypes, *node.inputs, *node.outputs)
    left, right = node.inputs[:2]
    if left is None or right is None or left.dtype != right.dtype:
        raise Unsupported("it needs two operands of one type")
    try:
        wide = broadcast_shape([left.shape, right.shape])
    except ValueError as error:
        raise Unsupported(str(error)) from error
    swapped = right.constant is None and (left.constant is not None or left.shape != wide)
    op = FusedOp(name, operand=int(not swapped), swapped=swapped)
    small = QUANTIZED_DTYPES.get(left.dtype)
    bounds = (small.lowest, small.highest) if small is not None else INT32_BOUNDS
    return Parsed(Elementwise(), (int(swapped),), (op,), integers=True, bounds=bounds)


TFLITE = (
    TfliteOp("BITWISE_XOR", _parse_xor, max_version=1, inputs=2, max_rank=LARGEST_RANK, takes_integers=True),
    TfliteOp(
        "STABLEHLO_AND", _parse_and, max_version=1, inputs=2, max_rank=LARGEST_RANK, takes_integers=True,
        keeps_declared_type=True,
    ),
)  # fmt: skip
