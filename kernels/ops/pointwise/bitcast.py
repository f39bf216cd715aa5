"""BITCAST: the same bits as another type of the same size.

A float32 and an int32 are two numbers of 16 bits on the way: a kernel computes in floats or in integers, and each holds
such numbers. Semantics: tflite/kernels/bitcast.cc.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...operation import FusedOp, Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import INT32_BOUNDS, LARGEST_RANK, QUANTIZED_DTYPES
from ..arguments import require_values
from .elementwise import Elementwise


@dataclass(frozen=True)
class BitsOfFloats(Operation):
    """float32 to int32, or back if ``to_floats``."""

    to_floats: bool

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [shapes[0]]

    def lower(self, lowering: Lowering) -> list[Launch]:
        source, destination = lowering.inputs[0], lowering.outputs[0]
        high, low = (lowering.scratch(lowering.shape(source)) for _ in range(2))
        count = lowering.groups_for(destination)
        split, join = ("split_integer", "float_of_halves") if self.to_floats else ("split_float", "integer_of_halves")
        return [
            Launch(split, {"src": source}, {"high": high, "low": low}, count, integers=self.to_floats),
            Launch(join, {"high": high, "low": low}, {"dst": destination}, count, integers=not self.to_floats),
        ]


def _parse(node: TfliteNode) -> Parsed:
    source, result = node.inputs[0], node.outputs[0]
    if source is None:
        raise Unsupported("it needs an input")
    given, wanted = source.dtype, result.dtype
    if (given, wanted) in (("float32", "int32"), ("int32", "float32")):
        to_floats = wanted == "float32"
        return Parsed(BitsOfFloats(to_floats), integers=True, bounds=None if to_floats else INT32_BOUNDS)
    if given == wanted:
        require_values([source], node.outputs)
        return Parsed(Elementwise())
    kinds = QUANTIZED_DTYPES.get(given), QUANTIZED_DTYPES.get(wanted)
    if kinds[0] is None or kinds[1] is None or kinds[0].nbytes != kinds[1].nbytes:
        raise Unsupported(f"tensor '{source.name}' is {given}, whose bits as {wanted} have no GPU form")
    require_values([source], [])
    values = (float(kinds[1].highest - kinds[1].lowest + 1), float(kinds[1].lowest))
    return Parsed(Elementwise(), (0,), (FusedOp("WRAP", values=values),))


TFLITE = (
    TfliteOp("BITCAST", _parse, max_version=1, max_rank=LARGEST_RANK, takes_integers=True, results=("",)),
)  # fmt: skip
