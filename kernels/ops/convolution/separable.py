"""A depthwise convolution and the 1x1 convolution that reads it, as one dispatch if that is faster than two.

delegate/transform/separable.py makes the operation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from ...operation import FusedOp, Launch, Lowering, Operation, PackedArray
from ...target import Target, TuningChoice
from ...tensor import FLOAT_MAX, slices
from ..window import Window
from .conv import Convolution, launch_convolution
from .depthwise import Depthwise, launch_depthwise
from .heuristics import (
    LARGEST_BLOCK,
    PAIR_LOCAL_SLICES,
    PAIR_PIXELS,
    PAIR_PIXELS_BESIDE_MATRIX_UNITS,
    PAIR_PRODUCTS,
    TILE_INVOCATIONS,
    UNIT_INVOCATIONS,
    WHOLE_PIXELS,
)
from .packing import pack_bias, pack_depthwise, pack_weights

CLAMPS: dict[tuple[str, ...], tuple[float, float]] = {
    (): (-FLOAT_MAX, FLOAT_MAX), ("RELU",): (0.0, FLOAT_MAX), ("RELU6",): (0.0, 6.0),
    ("RELU_0_TO_1",): (0.0, 1.0), ("RELU_N1_TO_1",): (-1.0, 1.0),
}  # fmt: skip
"""The activations that may stand between the two convolutions, with the range to which they clamp."""


@dataclass(frozen=True)
class Rounding:
    """The requantization between two convolutions of integers: each sum is multiplied by its channel's factor, rounded
    to a whole step, and clamped to ``lowest`` and ``highest``. ``operand`` is the constant tensor of the ``factors``,
    one per channel.
    """

    factors: np.ndarray = field(compare=False)
    operand: int
    lowest: float
    highest: float


def epilogue_between(activation: tuple[str, ...], rounding: Rounding | None) -> tuple[FusedOp, ...]:
    """The epilogue of the first of two convolutions, if each is a step of its own."""
    if rounding is None:
        return tuple(FusedOp(name) for name in activation)
    return (FusedOp("MUL", rounding.operand), FusedOp("STEPS", values=(rounding.lowest, rounding.highest, 1.0)))


def pack_bias_between(bias: np.ndarray | None, rounding: Rounding | None, channels: int) -> PackedArray:
    """The bias of the first of two convolutions, with the factors of the ``rounding`` behind it."""
    packed = pack_bias(bias, channels)
    if rounding is None:
        return packed
    factors = pack_bias(np.broadcast_to(rounding.factors, (channels,)), channels)
    return PackedArray(2 * packed.rows, lambda: np.concatenate([packed.make(), factors.make()]))


MOST_EARLY_TERMS = 2
"""The most terms of a 1x1 sum whose weights an invocation loads before anything else. Others were not measured."""


@dataclass(frozen=True)
class Separable(Operation):
    """``activation``, a key of CLAMPS, or ``rounding`` is applied between the two; ``depthwise.multiplier`` is 1."""

    limits_errors: ClassVar[bool] = True

    depthwise: Depthwise
    activation: tuple[str, ...]
    pointwise: Convolution
    rounding: Rounding | None = None

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        batch, height, width, _ = shapes[0]
        return [(batch, *self.depthwise.window.output_size(height, width), self.pointwise.weights.shape[0])]

    def lower(self, lowering: Lowering) -> list[Launch]:
        batch, rows, columns, channels = lowering.shape(lowering.outputs[0])
        depth, taps = lowering.shape(lowering.inputs[0])[3], math.prod(self.depthwise.window.size)
        pair = Pair(batch * rows * columns, columns, taps, slices(depth), slices(channels))
        if is_one_step(pair, lowering.target):
            return [_launch_joined(lowering, self, pair)]
        between = lowering.scratch((batch, rows, columns, depth))
        first = launch_depthwise(lowering, between, self.depthwise)
        epilogue = epilogue_between(self.activation, self.rounding)
        return [replace(first, epilogue=epilogue), launch_convolution(lowering, between, self.pointwise)]


class SeparableTile(NamedTuple):
    """The outputs of a work-group: ``slices`` output slices of ``runs`` times ``run`` neighbouring pixels of a row.

    An invocation sums up ``block`` pixels; ``block`` divides run * runs.
    """

    run: int
    runs: int
    block: int
    slices: int

    @property
    def pixels(self) -> int:
        return self.run * self.runs


class Pair(NamedTuple):
    """The sizes that decide about tiles: the output's pixels and columns, the window's taps, and the slices of the
    tensor between the two convolutions (``depth``) and of the output (``out``).
    """

    pixels: int
    columns: int
    taps: int
    depth: int
    out: int

    @property
    def many_products(self) -> bool:
        """Whether the weights of the pointwise convolution are too many for one tile."""
        return self.depth * self.out > PAIR_PRODUCTS


def is_one_step(pair: Pair, target: Target) -> bool:
    """Whether a pair is faster as one dispatch."""
    few = PAIR_PIXELS_BESIDE_MATRIX_UNITS if target.matrix_units else PAIR_PIXELS
    return pair.depth <= PAIR_LOCAL_SLICES and (pair.pixels <= few or not pair.many_products)


@lru_cache(maxsize=256)
def tile_candidates(pair: Pair, target: Target) -> tuple[SeparableTile, ...]:
    """Tiles that fit into local memory: the rule's first. They are kept, because networks repeat their blocks."""
    sizes = part_tiles(pair, target) if pair.many_products else whole_tiles(pair)
    rule = choose_part(pair, sizes, target) if pair.many_products else choose_whole(pair, sizes, target)
    close = sizes[max(sizes.index(rule) - 2, 0) : sizes.index(rule) + 3]
    return tuple(dict.fromkeys((rule, *close)))


def whole_tiles(pair: Pair) -> list[SeparableTile]:
    """Tiles of all output slices, small ones first. If windows are large, neighbouring pixels share their reads."""
    run = 2 if pair.taps >= 25 and pair.columns > 1 and 2 * pair.depth <= PAIR_LOCAL_SLICES else 1
    sizes = [n for n in WHOLE_PIXELS if n == 1 or (n % run == 0 and n * pair.depth <= PAIR_LOCAL_SLICES)]
    return [SeparableTile(min(run, n), n // min(run, n), _block(n), pair.out) for n in sizes]


@cache
def _block(pixels: int) -> int:
    return max(n for n in range(1, LARGEST_BLOCK + 1) if pixels % n == 0)


def choose_whole(pair: Pair, sizes: list[SeparableTile], target: Target) -> SeparableTile:
    """The smallest tile among those that need the fewest rounds of the device."""
    at_once = max(target.invocations // TILE_INVOCATIONS, 1)

    def rounds(tile: SeparableTile) -> int:
        runs = pair.pixels // pair.columns * -(-pair.columns // tile.run)
        return -(-runs // (tile.runs * at_once))

    return min(sizes, key=lambda tile: (rounds(tile), tile.pixels))


def part_tiles(pair: Pair, target: Target) -> list[SeparableTile]:
    """Tiles of a part of the output slices, for few pixels, from many tiles to few. Each computes the depthwise values
    of its pixels by itself.
    """
    most = (
        max(PAIR_LOCAL_SLICES, 3 * target.group_size) // pair.depth
    )  # devices with large groups have twice the local memory
    pairs = min(2, pair.columns, most)
    fours = (2, 2) if 2 * pair.depth <= target.group_size and pair.columns > 1 else (min(4, pair.columns), 1)
    small, large = (pairs, 1), fours if fours[0] * fours[1] <= most else (pairs, 1)
    shares = [4, 8]
    while shares[-1] < pair.out:
        shares.append(2 * shares[-1])
    sizes = [(*small, 4), (*small, 8), *((*large, share) for share in shares[1:])]
    tiles = [SeparableTile(run, runs, run * runs, min(share, pair.out)) for run, runs, share in sizes]
    return list(dict.fromkeys(tiles))


def choose_part(pair: Pair, sizes: list[SeparableTile], target: Target) -> SeparableTile:
    """The first size with at most one tile per compute unit, because each tile takes long."""
    units = target.invocations / UNIT_INVOCATIONS
    few = [t for t in sizes if -(-pair.pixels // t.pixels) * -(-pair.out // t.slices) <= units]
    return (few or sizes[-1:])[0]


def divide_window(rows: int, runs: int, group_size: int) -> tuple[int, int]:
    """The number of invocations that share the window of each of ``runs`` runs and slices, so that none is idle; and
    the number of window rows for each of them.
    """
    each = -(-rows // max(min(group_size // runs, rows), 1))
    return -(-rows // each), each


def _depthwise_half(window: Window, tile: SeparableTile, depth: int, group_size: int) -> dict[str, int | float]:
    """The constants by which a work-group divides the depthwise values of its pixels, ``depth`` slices each.

    Neighbouring pixels of a run read COLUMNS input columns, COLUMN_STEP apart.
    """
    parts, window_rows = divide_window(window.size[0], tile.runs * depth, group_size)
    step = window.dilations[1] if tile.run == 1 else 1
    reach = (tile.run - 1) * window.strides[1] + (window.size[1] - 1) * window.dilations[1]
    return {
        "RUN": tile.run, "RUNS": tile.runs, "PARTS": parts, "WINDOW_ROWS": window_rows,
        "COLUMNS": reach // step + 1, "COLUMN_STEP": step,
    }  # fmt: skip


def _pointwise_half(tile: SeparableTile, depth: int, target: Target) -> dict[str, int | float]:
    """The constants by which a work-group divides the 1x1 convolution: SPLIT invocations share the sums of a block."""
    blocks = tile.pixels // tile.block * tile.slices
    lanes = min(blocks, target.group_size)
    split = min(target.group_size // lanes, depth)
    terms = -(-depth // split)
    early = terms if target.early_launches and lanes == blocks and terms <= MOST_EARLY_TERMS else 0
    return {"BLOCK": tile.block, "BLOCKS": blocks, "LANES": lanes, "SPLIT": split, "EARLY": early}


def _launch_joined(lowering: Lowering, operation: Separable, pair: Pair) -> Launch:
    _, height, width, depth = lowering.shape(lowering.inputs[0])
    batch, rows, columns, channels = lowering.shape(lowering.outputs[0])
    window = operation.depthwise.window
    key = f"separable {(*pair, *window.size, *window.strides)}"
    choice = TuningChoice(key, tile_candidates(pair, lowering.target))
    tile = lowering.target.take(choice)
    row_runs, slice_tiles = -(-columns // tile.run), -(-slices(channels) // tile.slices)
    runs = batch * rows * row_runs
    rounding = operation.rounding
    low, high = CLAMPS[operation.activation] if rounding is None else (rounding.lowest, rounding.highest)
    constants = {
        **window.constants(height, width), **_depthwise_half(window, tile, pair.depth, lowering.group_size),
        "ROW_RUNS": row_runs, "ALL_RUNS": runs, "SLICES": tile.slices, "SLICE_TILES": slice_tiles,
        **_pointwise_half(tile, pair.depth, lowering.target), "LOW": low, "HIGH": high,
        "IN_STEPS": int(rounding is not None),
    }  # fmt: skip
    arrays = {
        "depth_weights": pack_depthwise(operation.depthwise.weights),
        "depth_bias": pack_bias_between(operation.depthwise.bias, rounding, depth),
        "weights": pack_weights(operation.pointwise.weights),
        "bias": pack_bias(operation.pointwise.bias, channels),
    }
    middle = int(constants["PARTS"]) * tile.pixels * pair.depth
    partial = lowering.group_size * tile.block if constants["SPLIT"] > 1 else 1
    local = (("float4", "middle", middle), ("float4", "partial", partial))
    reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
    group_count = -(-runs // tile.runs) * slice_tiles
    return Launch("separable", reads, writes, group_count, constants, arrays, local, choice=choice)
