"""The custom operator WarpAffine: a picture of a batch, resampled along a map that is computed while the model runs.

It is framebind's own: the same by other operators has a tensor of coordinates, of a place for each pixel.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ..arguments import require_float

OPTIONS = struct.Struct("<5i")
"""The options in a file: the picture's number in the batch, height and width of the result, ``fine`` and ``steps``."""
MOST_STEPS = 1 << 15


@dataclass(frozen=True)
class WarpAffine(Operation):
    """One picture of (b, h, w, c), resampled to (1, ``size``, c) as by OpenCV's warpAffine, with zeros outside.

    The other inputs are (b, 4), x and y that are gained with each column and with each row, and (b, 2), x and y at the
    first pixel: in ``fine`` of a pixel, to which column's and row's parts are rounded, and their sum to ``steps``.
    """

    picture: int
    size: tuple[int, int]
    fine: int
    steps: int

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        source, slopes, starts = shapes
        if len(source) != 4 or slopes != (source[0], 4) or starts != (source[0], 2):
            raise ValueError(f"maps of shapes {slopes} and {starts} are not (batch, 4) and (batch, 2) of {source}")
        return [(1, *self.size, source[3])]

    def lower(self, lowering: Lowering) -> list[Launch]:
        constants: dict[str, int | float] = {
            "PICTURE": self.picture, "FINE": float(self.fine), "STEPS": float(self.steps),
        }  # fmt: skip
        return [lowering.launch("warp_affine", ("src", "slopes", "starts"), constants)]


def _parse(node: TfliteNode) -> Parsed:
    require_float(*node.inputs, *node.outputs)
    shapes: list[tuple[int, ...]] = [() if each is None else each.shape for each in node.inputs]
    if len(shapes) != 3 or not isinstance(node.options, bytes) or len(node.options) != OPTIONS.size:
        raise Unsupported("it needs a picture, two inputs of its map, and options of five int32")
    picture, height, width, fine, steps = OPTIONS.unpack(node.options)
    operation = WarpAffine(picture, (height, width), fine, steps)
    operation.output_shapes(shapes)
    if not (0 <= picture < shapes[0][0] and height > 0 and width > 0 and 0 < steps <= fine <= MOST_STEPS):
        raise Unsupported(f"its options are out of range: {(picture, height, width, fine, steps)}")
    return Parsed(operation, (0, 1, 2))


TFLITE = (TfliteOp("WarpAffine", _parse, custom=True, inputs=3),)
