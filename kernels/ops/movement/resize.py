"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR with both flags, as the TensorFlow Lite reference kernels define them."""

from __future__ import annotations

from typing import Any

from ...operation import Launch, Lowering, Operator, Parsed, Unsupported
from ...tensor import TensorInfo, slices
from ...views import Resize
from ..arguments import constant, require_float


def _parse(bilinear: bool, options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_float(inputs[0], *outputs)
    if inputs[0] is None or len(inputs[0].shape) != 4:
        raise Unsupported("input must have rank 4")
    height, width = (int(n) for n in constant(inputs[1], "size").reshape(-1))
    if min(height, width) < 1:
        raise Unsupported(f"output size {height}x{width} is empty")
    corners, half = bool(options.AlignCorners()), bool(options.HalfPixelCenters())
    if corners and half:
        raise Unsupported("align_corners and half_pixel_centers exclude each other")
    return Parsed(Resize((height, width), corners, half, bilinear))


def _output_shapes(attributes: Resize, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [(shapes[0][0], *attributes.size, shapes[0][3])]


def _lower(lowering: Lowering) -> list[Launch]:
    """A copy that reads its source resized; whoever alone reads the result may do so itself (merge_launches.py)."""
    batch, rows, columns, channels = lowering.shape(lowering.outputs[0])
    group_count = lowering.group_count(batch * rows * columns * slices(channels))
    reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
    return [Launch("copy", reads, writes, group_count, resized=lowering.attributes)]


OPERATORS = (
    Operator("RESIZE_BILINEAR", lambda *a: _parse(True, *a), _output_shapes, _lower, max_version=4),
    Operator("RESIZE_NEAREST_NEIGHBOR", lambda *a: _parse(False, *a), _output_shapes, _lower, max_version=4),
)
