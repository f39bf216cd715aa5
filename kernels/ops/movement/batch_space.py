"""SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: blocks of pixels to batches and back, around dilated convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...operation import Launch, Lowering, Operator, Parsed, Unsupported
from ...tensor import TensorInfo, bhwc, ranked, slices, strides_of
from ..arguments import constant, require_movable
from .strided_copy import launch_strided_copy


@dataclass(frozen=True)
class BatchSpace:
    """``block`` and ``amounts`` (before, after) for height and width; amounts are padded first, or cropped last.

    ``rank`` 3 is a tensor without height.
    """

    block: tuple[int, int]
    amounts: tuple[tuple[int, int], tuple[int, int]]
    rank: int
    to_batch: bool


def _parse(to_batch: bool, options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    block = tuple(int(n) for n in constant(inputs[1], "block shape").reshape(-1))
    table = constant(inputs[2], "paddings" if to_batch else "crops")
    rank = len(inputs[0].shape) if inputs[0] else 0
    if rank not in (3, 4) or len(block) != rank - 2 or table.shape != (rank - 2, 2):
        raise Unsupported(f"a block of {len(block)} dimensions does not fit an input of rank {rank}")
    if min(block) < 1 or table.min() < 0:
        raise Unsupported(f"block {block} must be positive, and paddings or crops not negative")
    amounts = tuple((int(before), int(after)) for before, after in table)
    if rank == 3:
        block, amounts = (1, *block), ((0, 0), *amounts)
    return Parsed(BatchSpace((block[0], block[1]), (amounts[0], amounts[1]), rank, to_batch))


def _output_shapes(attributes: BatchSpace, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    batch, height, width, channels = bhwc(shapes[0])
    (down, across), (rows, columns) = attributes.block, attributes.amounts
    if attributes.to_batch:
        height, width = height + sum(rows), width + sum(columns)
        if height % down or width % across:
            raise ValueError(f"{height}x{width} padded pixels do not divide into blocks of {down}x{across}")
        full = (batch * down * across, height // down, width // across, channels)
    else:
        if batch % (down * across):
            raise ValueError(f"batch {batch} does not divide into blocks of {down}x{across}")
        full = (batch // (down * across), height * down - sum(rows), width * across - sum(columns), channels)
        if min(full) < 1:
            raise ValueError(f"crops {attributes.amounts} leave nothing of {shapes[0]}")
    return [ranked(full, attributes.rank)]


def _lower_to_batch(lowering: Lowering) -> list[Launch]:
    attributes: BatchSpace = lowering.attributes
    (down, across), (rows, columns) = attributes.block, attributes.amounts
    source, launches = lowering.inputs[0], []
    batch, height, width, channels = lowering.shape(source)
    height, width = height + sum(rows), width + sum(columns)
    if attributes.amounts != ((0, 0), (0, 0)):
        padded = lowering.scratch((batch, height, width, channels))
        before = {"BEFORE_B": 0, "BEFORE_H": rows[0], "BEFORE_W": columns[0], "BEFORE_C": 0, "MODE": 0, "VALUE": 0.0}
        group_count = lowering.group_count(batch * height * width * slices(channels))
        launches.append(Launch("pad", {"src": source}, {"dst": padded}, group_count, before))
        source = padded
    shape = (batch, height // down, down, width // across, across, channels)
    strides = strides_of(shape)
    digits = [(shape[axis], strides[axis]) for axis in (2, 4, 0, 1, 3, 5)]
    return [*launches, launch_strided_copy(lowering, source, lowering.outputs[0], digits)]


def _lower_to_space(lowering: Lowering) -> list[Launch]:
    attributes: BatchSpace = lowering.attributes
    (down, across), (rows, columns) = attributes.block, attributes.amounts
    source, out = lowering.inputs[0], lowering.outputs[0]
    batch, height, width, channels = lowering.shape(source)
    shape = (down, across, batch // (down * across), height, width, channels)
    strides = strides_of(shape)
    digits = [(shape[axis], strides[axis]) for axis in (2, 3, 0, 4, 1, 5)]
    if attributes.amounts == ((0, 0), (0, 0)):
        return [launch_strided_copy(lowering, source, out, digits)]
    whole = (shape[2], height * down, width * across, channels)
    spread = lowering.scratch(whole)
    strides = strides_of(whole)
    cropped = list(zip(lowering.shape(out), strides, strict=True))
    base = rows[0] * strides[1] + columns[0] * strides[2]
    return [
        launch_strided_copy(lowering, source, spread, digits),
        launch_strided_copy(lowering, spread, out, cropped, base),
    ]


OPERATORS = (
    Operator("SPACE_TO_BATCH_ND", lambda *a: _parse(True, *a), _output_shapes, _lower_to_batch, max_version=4),
    Operator("BATCH_TO_SPACE_ND", lambda *a: _parse(False, *a), _output_shapes, _lower_to_space, max_version=4),
)
