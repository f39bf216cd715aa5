"""Operators whose output shows values of the input in another order: one kernel, told sizes and strides.

TRANSPOSE, TILE, BROADCAST_TO, REVERSE_V2, DEPTH_TO_SPACE, SPACE_TO_DEPTH; other files build theirs on ``launch_view``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .conv import constant
from .elementwise import require_movable
from .layout import Shape, slices
from .operator import Launch, Lowering, Operator, Parsed, TensorInfo, Unsupported

Digit = tuple[int, int]
"""(size, stride): a place of the output's counting, and how far in the input one step of it leads."""

MAX_DIGITS = 8


@dataclass(frozen=True)
class Transpose:
    """Dimension i of the output is dimension ``order[i]`` of the input."""

    order: tuple[int, ...]


@dataclass(frozen=True)
class Tile:
    """The input ``multiples[i]`` times along dimension i."""

    multiples: tuple[int, ...]


@dataclass(frozen=True)
class BroadcastTo:
    """The input repeated along its dimensions of size 1, and along new ones in front, up to ``target``."""

    target: tuple[int, ...]
    rank: int


@dataclass(frozen=True)
class Reverse:
    """The input from end to start along ``axes`` of its ``rank`` dimensions."""

    axes: frozenset[int]
    rank: int


@dataclass(frozen=True)
class SpaceDepth:
    """Squares of ``block`` x ``block`` pixels to channels, or channels to such squares (``to_depth`` False)."""

    block: int
    to_depth: bool


def ranked(shape: Shape, rank: int) -> tuple[int, ...]:
    """The TFLite shape of ``rank`` dimensions whose BHWC form is ``shape``."""
    batch, height, width, channels = shape
    by_rank = ((), (channels,), (batch, channels), (batch, width, channels), (batch, height, width, channels))
    return by_rank[rank]


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """How many values lie between neighbours along each dimension."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def launch_view(lowering: Lowering, source: int, target: int, digits: Sequence[Digit], base: int = 0) -> Launch:
    """One dispatch. ``digits`` count the values of ``target``, the outermost first; their sizes multiply to its size.

    ``base`` is the number of the input's value that the output's first value shows.
    """
    batch, rows, columns, channels = lowering.shape(target)
    kept = [digit for digit in digits if digit[0] != 1] or [(1, 0)]
    assert math.prod(size for size, _ in kept) == batch * rows * columns * channels and len(kept) <= MAX_DIGITS
    whole = _moves_slices(kept, base, channels, lowering.shape(source)[3])
    constants: dict[str, int | float] = {"BASE": base, "WHOLE": int(whole)}
    for place, (size, stride) in enumerate([(1, 0)] * (MAX_DIGITS - len(kept)) + kept):
        constants |= {f"SIZE_{place}": size, f"STRIDE_{place}": stride}
    tiles = lowering.tiles(batch * rows * columns * slices(channels))
    return Launch("view", {"src": source}, {"dst": target}, tiles, constants)


def _moves_slices(digits: list[Digit], base: int, channels: int, source_channels: int) -> bool:
    """Whether every slice of the output is one slice of the input, so that no lane has to be looked up."""
    *outer, (size, stride) = digits
    if (size, stride) != (channels, 1):
        return False
    if source_channels % 4 == 0:
        return base % 4 == 0 and all(stride % 4 == 0 for _, stride in outer)
    first = base % source_channels
    inside = first % 4 == 0 and first + channels <= source_channels
    return inside and all(stride % source_channels == 0 for _, stride in outer)


# TRANSPOSE, TILE, BROADCAST_TO, REVERSE_V2 ----------------------------------------------------------------------------


def _parse_transpose(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    source, order = inputs[0], constant(inputs[1], "permutation").reshape(-1)
    rank = len(source.shape) if source else 0
    order = tuple(int(axis) % max(rank, 1) for axis in order)
    if sorted(order) != list(range(rank)):
        raise Unsupported(f"{order} is no permutation of {rank} dimensions")
    return Parsed(Transpose(order))


def _lower_transpose(lowering: Lowering) -> list[Launch]:
    source, order = lowering.inputs[0], lowering.attributes.order
    shape = ranked(lowering.shape(source), len(order))
    strides = strides_of(shape)
    digits = [(shape[axis], strides[axis]) for axis in order]
    return [launch_view(lowering, source, lowering.outputs[0], digits)]


def _parse_tile(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    multiples = tuple(int(n) for n in constant(inputs[1], "multiples").reshape(-1))
    if inputs[0] is None or len(multiples) != len(inputs[0].shape) or min(multiples, default=1) < 1:
        raise Unsupported(f"multiples {multiples} do not fit the input")
    return Parsed(Tile(multiples))


def _lower_tile(lowering: Lowering) -> list[Launch]:
    source, multiples = lowering.inputs[0], lowering.attributes.multiples
    shape = ranked(lowering.shape(source), len(multiples))
    digits = [
        digit
        for size, stride, times in zip(shape, strides_of(shape), multiples, strict=True)
        for digit in ((times, 0), (size, stride))
    ]
    return [launch_view(lowering, source, lowering.outputs[0], digits)]


def _parse_broadcast(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    target = tuple(int(n) for n in constant(inputs[1], "shape").reshape(-1))
    if inputs[0] is None or len(target) < len(inputs[0].shape):
        raise Unsupported(f"shape {target} has fewer dimensions than the input")
    return Parsed(BroadcastTo(target, len(inputs[0].shape)))


def _broadcast_shapes(attributes: BroadcastTo, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    same = attributes.target[len(attributes.target) - attributes.rank :]
    if any(size not in (1, wide) for size, wide in zip(shapes[0], same, strict=True)):
        raise ValueError(f"shape {shapes[0]} does not broadcast to {attributes.target}")
    return [attributes.target]


def _lower_broadcast(lowering: Lowering) -> list[Launch]:
    source, attributes = lowering.inputs[0], lowering.attributes
    shape = ranked(lowering.shape(source), attributes.rank)
    shape = (1,) * (len(attributes.target) - len(shape)) + shape
    strides = strides_of(shape)
    digits = [
        (wide, 0 if size == 1 else stride) for wide, size, stride in zip(attributes.target, shape, strides, strict=True)
    ]
    return [launch_view(lowering, source, lowering.outputs[0], digits)]


def _parse_reverse(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_movable(inputs[:1], outputs)
    rank = len(inputs[0].shape) if inputs[0] else 0
    axes = frozenset(int(axis) % max(rank, 1) for axis in constant(inputs[1], "axes").reshape(-1))
    return Parsed(Reverse(axes, rank))


def _lower_reverse(lowering: Lowering) -> list[Launch]:
    source, attributes = lowering.inputs[0], lowering.attributes
    shape = ranked(lowering.shape(source), attributes.rank)
    strides = strides_of(shape)
    base = sum((shape[axis] - 1) * strides[axis] for axis in attributes.axes)
    digits = [
        (size, -stride if axis in attributes.axes else stride)
        for axis, (size, stride) in enumerate(zip(shape, strides, strict=True))
    ]
    return [launch_view(lowering, source, lowering.outputs[0], digits, base)]


# DEPTH_TO_SPACE, SPACE_TO_DEPTH ---------------------------------------------------------------------------------------


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
    return [launch_view(lowering, source, lowering.outputs[0], digits)]


OPERATORS = (
    Operator(
        "TRANSPOSE",
        _parse_transpose,
        lambda attributes, shapes: [tuple(shapes[0][axis] for axis in attributes.order)],
        _lower_transpose,
        max_version=9,
    ),
    Operator(
        "TILE",
        _parse_tile,
        lambda attributes, shapes: [tuple(n * m for n, m in zip(shapes[0], attributes.multiples, strict=True))],
        _lower_tile,
        max_version=3,
    ),
    Operator("BROADCAST_TO", _parse_broadcast, _broadcast_shapes, _lower_broadcast, max_version=4),
    Operator("REVERSE_V2", _parse_reverse, lambda _, shapes: [shapes[0]], _lower_reverse, max_version=4),
    Operator("DEPTH_TO_SPACE", lambda *a: _parse_space_depth(False, *a), _space_depth_shapes, _lower_space_depth, 2),
    Operator("SPACE_TO_DEPTH", lambda *a: _parse_space_depth(True, *a), _space_depth_shapes, _lower_space_depth, 2),
)
