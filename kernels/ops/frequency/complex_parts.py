"""COMPLEX_ABS, REAL and IMAG: real numbers from complex ones. An operator on the GPU must have computed the input."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp
from ..arguments import SPECTRA, require_float, require_type


@dataclass(frozen=True)
class ComplexPart(Operation):
    """The absolute value, or else the real or the imaginary part, of each number."""

    _: KW_ONLY
    absolute: bool = False
    imaginary: bool = False

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [shapes[0]]

    def lower(self, lowering: Lowering) -> list[Launch]:
        constants: dict[str, int | float] = {"ABSOLUTE": int(self.absolute), "IMAGINARY": int(self.imaginary)}
        destination = lowering.outputs[0]
        groups = lowering.groups_for(destination)
        return [Launch("complex_part", {"src": lowering.inputs[0]}, {"dst": destination}, groups, constants)]


def _parse(node: TfliteNode, operation: ComplexPart) -> Parsed:
    require_type({"complex64"}, node.inputs[0])
    require_float(*node.outputs)
    return Parsed(operation)


TFLITE = tuple(
    TfliteOp(name, partial(_parse, operation=operation), max_version=1, unlike_litert=SPECTRA, results=("float32",))
    for name, operation in (
        ("COMPLEX_ABS", ComplexPart(absolute=True)), ("IMAG", ComplexPart(imaginary=True)), ("REAL", ComplexPart()),
    )
)  # fmt: skip
