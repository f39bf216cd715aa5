"""The custom operator Resampler: bilinear samples at computed places.

Semantics: the C++ GPU delegate's gl/kernels/resampler.cc, which are those of TensorFlow Addons' resampler.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ..arguments import require_float


@dataclass(frozen=True)
class Resampler(Operation):
    """Samples of the first input (b, h, w, c) at the positions in the second (b, y, x, 2): x, then y, in pixels."""

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        source, warp = shapes
        if len(source) != 4 or len(warp) != 4 or source[0] != warp[0] or warp[3] < 2:
            raise ValueError(f"places of shape {warp} are not (batch, height, width, 2), of the batch of {source}")
        return [(*warp[:3], source[3])]

    def lower(self, lowering: Lowering) -> list[Launch]:
        return [lowering.launch("resampler", ("src", "warp"))]


def _parse(node: TfliteNode) -> Parsed:
    require_float(*node.inputs, *node.outputs)
    source, warp = node.inputs
    if source is None or warp is None:
        raise Unsupported("it needs a picture and places")
    Resampler().output_shapes([source.shape, warp.shape])
    return Parsed(Resampler(), (0, 1))


TFLITE = (TfliteOp("Resampler", _parse, custom=True),)
