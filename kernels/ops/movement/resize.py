"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR with both flags, as the TensorFlow Lite reference kernels define them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from ...operation import Fusion, Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...views import Resize
from ..arguments import require_float, shape_constant


@dataclass(frozen=True)
class ResizeImage(Operation):
    """The input with another height and width."""

    resize: Resize
    may_be_identity: ClassVar[bool] = True

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [(shapes[0][0], *self.resize.size, shapes[0][3])]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """A copy of the resized input. If one launch reads it, that may resize instead (lower/resized_reads.py)."""
        reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
        group_count, fusion = lowering.groups_for(lowering.outputs[0]), Fusion(is_copy=True)
        return [Launch("copy", reads, writes, group_count, resize=self.resize, fusion=fusion)]

    def keeps_steps(self) -> bool:
        return not self.resize.bilinear


def _parse(node: TfliteNode, *, bilinear: bool) -> Parsed:
    source, options = node.inputs[0], node.options
    require_float(source, *node.outputs)
    if source is None or len(source.shape) != 4:
        raise Unsupported("input must have rank 4")
    height, width = (int(n) for n in shape_constant(node.inputs[1], "size").reshape(-1))
    if min(height, width) < 1:
        raise Unsupported(f"output size {height}x{width} is empty")
    corners, half = bool(options.AlignCorners()), bool(options.HalfPixelCenters())
    if corners and half:
        raise Unsupported("align_corners and half_pixel_centers exclude each other")
    resize = Resize((height, width), align_corners=corners, half_pixel_centers=half, bilinear=bilinear)
    return Parsed(ResizeImage(resize))


TFLITE = (
    TfliteOp("RESIZE_BILINEAR", partial(_parse, bilinear=True), max_version=4, inputs=2, rescales=False),
    TfliteOp("RESIZE_NEAREST_NEIGHBOR", partial(_parse, bilinear=False), max_version=4, inputs=2, moves_values=True),
)
