"""LOCAL_RESPONSE_NORMALIZATION: each value divided by a power of the squares of the channels around it.

y[c] = x[c] / (bias + alpha * sum of x[c - radius .. c + radius] squared) ** beta
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ..arguments import require_float


@dataclass(frozen=True)
class LocalResponse(Operation):
    """``radius`` is the number of channels on each side whose squares are added up; the rest are the formula's."""

    radius: int
    bias: float
    alpha: float
    beta: float

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [shapes[0]]

    def lower(self, lowering: Lowering) -> list[Launch]:
        constants = {"RADIUS": self.radius, "BIAS": self.bias, "ALPHA": self.alpha, "BETA": self.beta}
        return [lowering.launch("local_response", ("src",), constants)]


def _parse(node: TfliteNode) -> Parsed:
    options = node.options
    require_float(node.inputs[0], *node.outputs)
    if node.inputs[0] is None or len(node.inputs[0].shape) != 4:
        raise Unsupported("input must have rank 4")
    bias, alpha, beta = float(options.Bias()), float(options.Alpha()), float(options.Beta())
    if not (bias > 0 and all(map(math.isfinite, (bias, alpha, beta))) and options.Radius() >= 0):
        raise Unsupported(
            f"radius {options.Radius()} must not be negative, bias {bias} must be positive, and bias, alpha {alpha} "
            f"and beta {beta} must be finite"
        )
    return Parsed(LocalResponse(min(options.Radius(), node.inputs[0].shape[3]), bias, alpha, beta))


_OF_NAN = "NaN and infinities count in their windows; LiteRT's running sum carries them to the end of the pixel"
TFLITE = (TfliteOp("LOCAL_RESPONSE_NORMALIZATION", _parse, max_version=1, unlike_litert=_OF_NAN),)
