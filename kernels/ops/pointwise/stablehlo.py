"""Elementwise operators of StableHLO that files of TensorFlow Lite keep.

LiteRT's interpreter has kernels for ADD, MULTIPLY, MAXIMUM and MINIMUM, of operands of one shape. CBRT, CLAMP and
REMAINDER are of its GPU accelerator only. Semantics: openxla.org/stablehlo/spec, sections cbrt, clamp and remainder.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ...operation import FusedOp, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import LARGEST_RANK
from ..arguments import is_index, require_float
from .elementwise import Elementwise, parse_arithmetic, parse_division
from .integers import known_bounds

NAMES = {
    "STABLEHLO_ADD": "ADD", "STABLEHLO_MAXIMUM": "MAXIMUM", "STABLEHLO_MINIMUM": "MINIMUM", "STABLEHLO_MULTIPLY": "MUL"
}  # fmt: skip
"""TensorFlow Lite's own names of the same operators."""


def _parse_binary(node: TfliteNode, *, name: str) -> Parsed:
    require_one_shape(node)
    parsed = parse_arithmetic(node, name=name)
    if name not in ("MAXIMUM", "MINIMUM"):
        return parsed
    op, *others = parsed.epilogue
    # If a number is NaN, the result is the first operand here, and the second one of the operators without STABLEHLO.
    return replace(parsed, epilogue=(replace(op, swapped=not op.swapped), *others))


def require_one_shape(node: TfliteNode) -> None:
    """Raise Unsupported if operands differ in shape."""
    if len({tensor.shape for tensor in node.inputs if tensor is not None}) > 1:
        raise Unsupported("its operands differ in shape, which StableHLO does not broadcast")


def _parse_cube_root(node: TfliteNode) -> Parsed:
    require_float(*node.inputs, *node.outputs)
    return Parsed(Elementwise(), (0,), (FusedOp("CBRT"),))


def _parse_remainder(node: TfliteNode) -> Parsed:
    require_one_shape(node)
    return parse_division(node, name="REMAINDER")


def _parse_clamp(node: TfliteNode) -> Parsed:
    lowest, source, highest = node.inputs[:3]
    if lowest is None or source is None or highest is None or source.constant is not None:
        raise Unsupported("it needs two bounds, and between them an operand that is not constant")
    for bound in (lowest, highest):
        if bound.shape not in ((), source.shape):
            raise Unsupported(f"its bound '{bound.name}' has the shape {bound.shape}, not that of its operand or none")
    # A NaN stays one: if a number is NaN, the result is the second operand.
    epilogue = FusedOp("MAXIMUM", operand=0, swapped=True), FusedOp("MINIMUM", operand=2, swapped=True)
    dtype = node.outputs[0].dtype
    if not all(is_index(tensor, dtype) for tensor in node.inputs):
        require_float(*node.inputs, *node.outputs)
        return Parsed(Elementwise(), (1,), epilogue)
    bounds = [known_bounds(tensor) for tensor in (lowest, source, highest)]
    ends = min(low for low, _ in bounds), max(high for _, high in bounds)
    return Parsed(Elementwise(), (1,), epilogue, integers=True, bounds=ends)


_NO_BOUND = "a bound that is NaN does not count"
TFLITE = (
    *(
        TfliteOp(
            name, partial(_parse_binary, name=same), max_version=1, inputs=2, max_rank=LARGEST_RANK,
            takes_integers=True, keeps_declared_type=True,
        )
        for name, same in NAMES.items()
    ),
    TfliteOp("STABLEHLO_CBRT", _parse_cube_root, max_version=1, max_rank=LARGEST_RANK, only_gpu=True),
    TfliteOp(
        "STABLEHLO_REMAINDER", _parse_remainder, max_version=1, inputs=2, max_rank=LARGEST_RANK, only_gpu=True,
        unlike_litert="the error is one of the dividend's last place",
    ),
    TfliteOp(
        "STABLEHLO_CLAMP", _parse_clamp, max_version=1, inputs=3, max_rank=LARGEST_RANK, results=(1,), only_gpu=True,
        unlike_litert=_NO_BOUND,
    ),
)  # fmt: skip
