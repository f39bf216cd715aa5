"""SPACE_TO_DEPTH and DEPTH_TO_SPACE: strided copies."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import strides_of
from ..arguments import require_movable
from .strided_copy import launch_strided_copy


@dataclass(frozen=True)
class SpaceDepth(Operation):
    """Squares of ``block`` x ``block`` pixels to channels, or channels to such squares (``to_depth`` False)."""

    block: int
    _: KW_ONLY
    to_depth: bool

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        (batch, height, width, channels), block = shapes[0], self.block
        fits = height % block == width % block == 0 if self.to_depth else channels % (block * block) == 0
        if not fits:
            raise ValueError(f"shape {shapes[0]} does not divide into blocks of {block}")
        if self.to_depth:
            return [(batch, height // block, width // block, channels * block * block)]
        return [(batch, height * block, width * block, channels // (block * block))]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """A copy between (y, row of the block, x, column of the block, c) and (y, x, row, column, c)."""
        source, block = lowering.inputs[0], self.block
        batch, height, width, channels = lowering.shape(source)
        if self.to_depth:
            shape = (batch, height // block, block, width // block, block, channels)
        else:
            shape = (batch, height, width, block, block, channels // (block * block))
        strides = strides_of(shape)
        digits = [(shape[axis], strides[axis]) for axis in (0, 1, 3, 2, 4, 5)]
        return [launch_strided_copy(lowering, source, lowering.outputs[0], digits)]


def _parse(node: TfliteNode, *, to_depth: bool) -> Parsed:
    require_movable(node.inputs[:1], node.outputs)
    if node.inputs[0] is None or len(node.inputs[0].shape) != 4 or node.options.BlockSize() < 1:
        raise Unsupported("input must have rank 4 and the block size must be positive")
    return Parsed(SpaceDepth(node.options.BlockSize(), to_depth=to_depth))


TFLITE = (
    TfliteOp("DEPTH_TO_SPACE", partial(_parse, to_depth=False), max_version=2, moves_values=True),
    TfliteOp("SPACE_TO_DEPTH", partial(_parse, to_depth=True), max_version=2, moves_values=True),
)
