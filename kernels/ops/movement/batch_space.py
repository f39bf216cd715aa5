"""SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: blocks of pixels to batches and back, around dilated convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode, TfliteOp, Unsupported
from ...tensor import bhwc, ranked, strides_of
from ..arguments import require_movable, shape_constant
from .pad import launch_pad
from .strided_copy import launch_strided_copy

Pairs = tuple[tuple[int, int], tuple[int, int]]
"""(before, after) for height and for width."""


@dataclass(frozen=True)
class SpaceToBatch(Operation):
    """Pixels of blocks of ``block`` (height, width) become batches, after ``padding`` with zeros.

    ``rank`` 3 is a tensor without height.
    """

    block: tuple[int, int]
    padding: Pairs
    rank: int

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        batch, height, width, channels = bhwc(shapes[0])
        (down, across), (rows, columns) = self.block, self.padding
        height, width = height + sum(rows), width + sum(columns)
        if height % down or width % across:
            raise ValueError(f"{height}x{width} padded pixels do not divide into blocks of {down}x{across}")
        return [ranked((batch * down * across, height // down, width // across, channels), self.rank)]

    def lower(self, lowering: Lowering) -> list[Launch]:
        (down, across), (rows, columns) = self.block, self.padding
        source, launches = lowering.inputs[0], []
        batch, height, width, channels = lowering.shape(source)
        height, width = height + sum(rows), width + sum(columns)
        if self.padding != ((0, 0), (0, 0)):
            padded = lowering.scratch((batch, height, width, channels))
            launches.append(launch_pad(lowering, source, padded, (0, rows[0], columns[0], 0)))
            source = padded
        shape = (batch, height // down, down, width // across, across, channels)
        strides = strides_of(shape)
        digits = [(shape[axis], strides[axis]) for axis in (2, 4, 0, 1, 3, 5)]
        return [*launches, launch_strided_copy(lowering, source, lowering.outputs[0], digits)]


@dataclass(frozen=True)
class BatchToSpace(Operation):
    """Batches become pixels of blocks of ``block`` (height, width), without the ``crops`` at the borders.

    ``rank`` 3 is a tensor without height.
    """

    block: tuple[int, int]
    crops: Pairs
    rank: int

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        batch, height, width, channels = bhwc(shapes[0])
        (down, across), (rows, columns) = self.block, self.crops
        if batch % (down * across):
            raise ValueError(f"batch {batch} does not divide into blocks of {down}x{across}")
        full = (batch // (down * across), height * down - sum(rows), width * across - sum(columns), channels)
        if min(full) < 1:
            raise ValueError(f"crops {self.crops} leave nothing of {shapes[0]}")
        return [ranked(full, self.rank)]

    def lower(self, lowering: Lowering) -> list[Launch]:
        (down, across), (rows, columns) = self.block, self.crops
        source, out = lowering.inputs[0], lowering.outputs[0]
        batch, height, width, channels = lowering.shape(source)
        shape = (down, across, batch // (down * across), height, width, channels)
        strides = strides_of(shape)
        digits = [(shape[axis], strides[axis]) for axis in (2, 3, 0, 4, 1, 5)]
        if self.crops == ((0, 0), (0, 0)):
            return [launch_strided_copy(lowering, source, out, digits)]
        uncropped_shape = (shape[2], height * down, width * across, channels)
        uncropped = lowering.scratch(uncropped_shape)
        strides = strides_of(uncropped_shape)
        cropped = list(zip(lowering.shape(out), strides, strict=True))
        base = rows[0] * strides[1] + columns[0] * strides[2]
        return [
            launch_strided_copy(lowering, source, uncropped, digits),
            launch_strided_copy(lowering, uncropped, out, cropped, base),
        ]


def _parse(node: TfliteNode, *, operation: type[SpaceToBatch | BatchToSpace]) -> Parsed:
    require_movable(node.inputs[:1], node.outputs)
    block = tuple(int(n) for n in shape_constant(node.inputs[1], "block shape").reshape(-1))
    table = shape_constant(node.inputs[2], "paddings" if operation is SpaceToBatch else "crops")
    rank = len(node.inputs[0].shape) if node.inputs[0] else 0
    if rank not in (3, 4) or len(block) != rank - 2 or table.shape != (rank - 2, 2):
        raise Unsupported(f"a block of {len(block)} dimensions does not fit an input of rank {rank}")
    if min(block) < 1 or table.min() < 0:
        raise Unsupported(f"block {block} must be positive, and paddings or crops not negative")
    amounts = tuple((int(before), int(after)) for before, after in table)
    if rank == 3:
        block, amounts = (1, *block), ((0, 0), *amounts)
    return Parsed(operation((block[0], block[1]), (amounts[0], amounts[1]), rank))


TFLITE = (
    TfliteOp("SPACE_TO_BATCH_ND", partial(_parse, operation=SpaceToBatch), max_version=4, inputs=3, moves_values=True),
    TfliteOp("BATCH_TO_SPACE_ND", partial(_parse, operation=BatchToSpace), max_version=4, inputs=3, moves_values=True),
)
