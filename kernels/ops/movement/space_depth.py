"""SPACE_TO_DEPTH and DEPTH_TO_SPACE: strided copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...operation import Launch, Lowering, Operator, Parsed, Unsupported
from ...tensor import TensorInfo, strides_of
from ..arguments import require_movable
from .strided_copy import launch_strided_copy


@dataclass(frozen=True)
class SpaceDepth:
    """Squares of ``block`` x ``block`` pixels to channels, or channels to such squares (``to_depth`` False)."""

    block: int
    to_depth: bool


def _parse_space_depth(
    to_depth: bool, options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]
) -> Parsed:
    require_movable(inputs[:1], outputs)
    if inputs[0] is None or len(inputs[0].shape) != 4 or options.BlockSize() < 1:
        raise Unsupported("input must have rank 4 and the block size must be positive")
    return Parsed(SpaceDepth(options.BlockSize(), to_depth))


def _space_depth_shapes(attributes: SpaceDepth, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    (batch, height, width, channels), block = shapes[0], attributes.block
    fits = height % block == width % block == 0 if attributes.to_depth else channels % (block * block) == 0
    if not fits:
        raise ValueError(f"shape {shapes[0]} does not divide into blocks of {block}")
    if attributes.to_depth:
        return [(batch, height // block, width // block, channels * block * block)]
    return [(batch, height * block, width * block, channels // (block * block))]


def _lower_space_depth(lowering: Lowering) -> list[Launch]:
    """Both move values between (y, row of the block, x, column of the block, c) and (y, x, row, column, c)."""
    source, block = lowering.inputs[0], lowering.attributes.block
    batch, height, width, channels = lowering.shape(source)
    if lowering.attributes.to_depth:
        rows, columns = height // block, width // block
        shape = (batch, rows, block, columns, block, channels)
        order = (0, 1, 3, 2, 4, 5)
    else:
        shape = (batch, height, width, block, block, channels // (block * block))
        order = (0, 1, 3, 2, 4, 5)
    strides = strides_of(shape)
    digits = [(shape[axis], strides[axis]) for axis in order]
    return [launch_strided_copy(lowering, source, lowering.outputs[0], digits)]


OPERATORS = (
    Operator("DEPTH_TO_SPACE", lambda *a: _parse_space_depth(False, *a), _space_depth_shapes, _lower_space_depth, 2),
    Operator("SPACE_TO_DEPTH", lambda *a: _parse_space_depth(True, *a), _space_depth_shapes, _lower_space_depth, 2),
)
