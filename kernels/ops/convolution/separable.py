"""A depthwise convolution and the 1x1 convolution that reads it, as one dispatch where that is faster than two.

Made by delegate/separable.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from ...operation import FusedOp, Launch, Lowering, Operation
from ...target import Target, TuningChoice
from ...tensor import FLOAT_MAX, slices
from .conv import Convolution, launch_convolution
from .depthwise import Depthwise, launch_depthwise
from .packing import pack_bias, pack_depthwise, pack_weights

LOCAL_SLICES = 512
"""Slices of depthwise values in a work-group's local memory: 8 KiB of the 16 KiB that every device has."""
PRODUCTS = 1024
"""Input by output slices of the pointwise convolution. Of more, a tile takes only a part of the output slices: it
would wait too long for all weights.
"""
FEW_PIXELS, FEW_BESIDE_MATRIX_UNITS = 256, 16
"""Of pairs of more products: with more pixels, two steps are faster than depthwise values computed by every tile anew;
sooner where matrix units make the second of them short.
"""
TILE_INVOCATIONS = 1024
"""A device computes a tile for as many invocations that it holds at once, two on each unit. One more than that, and all
others wait for it.
"""
WHOLE_PIXELS = (1, 2, 3, 4, 5, 6, *range(8, 64, 4), *range(64, 257, 16))
LARGEST_BLOCK = 5
"""Pixels of a tile of all output slices, and how many of them an invocation sums up at most."""
UNIT_INVOCATIONS = 2048
"""Of one unit of a device: tiles with few pixels, each long, are at most as many as it has units."""
CLAMPS: dict[tuple[str, ...], tuple[float, float]] = {
    (): (-FLOAT_MAX, FLOAT_MAX), ("RELU",): (0.0, FLOAT_MAX), ("RELU6",): (0.0, 6.0),
    ("RELU_0_TO_1",): (0.0, 1.0), ("RELU_N1_TO_1",): (-1.0, 1.0),
}  # fmt: skip
"""The activations that may stand between the two: between which values they clamp."""


@dataclass(frozen=True)
class Separable(Operation):
    """``activation`` is a key of CLAMPS, applied between the two; ``depthwise.multiplier`` is 1."""

    depthwise: Depthwise
    activation: tuple[str, ...]
    pointwise: Convolution

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
        epilogue = tuple(FusedOp(name) for name in self.activation)
        return [replace(first, epilogue=epilogue), launch_convolution(lowering, between, self.pointwise)]


class SeparableTile(NamedTuple):
    """What a work-group computes: ``slices`` output slices of ``runs`` times ``run`` neighbouring pixels of a row.

    An invocation sums up ``block`` pixels, which divides run * runs.
    """

    run: int
    runs: int
    block: int
    slices: int

    @property
    def pixels(self) -> int:
        return self.run * self.runs


class Pair(NamedTuple):
    """What tiles depend on: the output's pixels and how many lie in a row, the window's taps, and the slices of the
    tensor between the two and of the output.
    """

    pixels: int
    columns: int
    taps: int
    depth: int
    out: int

    @property
    def many_products(self) -> bool:
        """Whether the weights of the pointwise convolution are too many for one tile."""
        return self.depth * self.out > PRODUCTS


def is_one_step(pair: Pair, target: Target) -> bool:
    """Whether a pair is faster as one dispatch."""
    few = FEW_BESIDE_MATRIX_UNITS if target.matrix_units else FEW_PIXELS
    return pair.depth <= LOCAL_SLICES and (pair.pixels <= few or not pair.many_products)


def tile_candidates(pair: Pair, target: Target) -> tuple[SeparableTile, ...]:
    """Tiles that fit into local memory: the rule's first."""
    sizes = part_tiles(pair, target) if pair.many_products else whole_tiles(pair)
    rule = choose_part(pair, sizes, target) if pair.many_products else choose_whole(pair, sizes, target)
    close = sizes[max(sizes.index(rule) - 2, 0) : sizes.index(rule) + 3]
    return tuple(dict.fromkeys((rule, *close)))


def whole_tiles(pair: Pair) -> list[SeparableTile]:
    """Tiles of all output slices, small ones first. Neighbours share what they read where windows are large."""
    run = 2 if pair.taps >= 25 and pair.columns > 1 and 2 * pair.depth <= LOCAL_SLICES else 1
    sizes = [n for n in WHOLE_PIXELS if n == 1 or (n % run == 0 and n * pair.depth <= LOCAL_SLICES)]
    return [SeparableTile(min(run, n), n // min(run, n), _block(n), pair.out) for n in sizes]


def _block(pixels: int) -> int:
    return max(n for n in range(1, LARGEST_BLOCK + 1) if pixels % n == 0)


def choose_whole(pair: Pair, sizes: list[SeparableTile], target: Target) -> SeparableTile:
    """The smallest of those that a device computes in the fewest rounds."""
    at_once = max(target.invocations // TILE_INVOCATIONS, 1)

    def rounds(tile: SeparableTile) -> int:
        runs = pair.pixels // pair.columns * -(-pair.columns // tile.run)
        return -(-runs // (tile.runs * at_once))

    return min(sizes, key=lambda tile: (rounds(tile), tile.pixels))


def part_tiles(pair: Pair, target: Target) -> list[SeparableTile]:
    """Tiles of a part of the output slices of few pixels, from many tiles to few: each computes the depthwise values of
    its pixels by itself.
    """
    most = (
        max(LOCAL_SLICES, 3 * target.group_size) // pair.depth
    )  # devices with large groups have twice the local memory
    pairs = min(2, pair.columns, most)
    fours = (2, 2) if 2 * pair.depth <= target.group_size and pair.columns > 1 else (min(4, pair.columns), 1)
    small, large = (pairs, 1), fours if fours[0] * fours[1] <= most else (pairs, 1)
    shares = [4, 8]
    while shares[-1] < pair.out:
        shares.append(2 * shares[-1])
    sizes = [(*small, 4), (*small, 8), *((*large, share) for share in shares[1:])]
    group_count = [SeparableTile(run, runs, run * runs, min(share, pair.out)) for run, runs, share in sizes]
    return list(dict.fromkeys(group_count))


def choose_part(pair: Pair, sizes: list[SeparableTile], target: Target) -> SeparableTile:
    """The first that leaves every unit at most one tile, as each takes long."""
    units = target.invocations / UNIT_INVOCATIONS
    few = [t for t in sizes if -(-pair.pixels // t.pixels) * -(-pair.out // t.slices) <= units]
    return (few or sizes[-1:])[0]


def divide_window(rows: int, runs: int, group_size: int) -> tuple[int, int]:
    """Among how many invocations a work-group divides the window for each of so many runs and slices, as it would else
    have idle ones; and how many of the window's rows each has then.
    """
    each = -(-rows // max(min(group_size // runs, rows), 1))
    return -(-rows // each), each


def _launch_joined(lowering: Lowering, operation: Separable, pair: Pair) -> Launch:
    _, height, width, depth = lowering.shape(lowering.inputs[0])
    batch, rows, columns, channels = lowering.shape(lowering.outputs[0])
    window = operation.depthwise.window
    key = f"separable {(*pair, *window.size, *window.strides)}"
    choice = TuningChoice[SeparableTile](key, tile_candidates(pair, lowering.target))
    tile = lowering.target.take(choice)
    row_runs, slice_tiles = -(-columns // tile.run), -(-slices(channels) // tile.slices)
    runs = batch * rows * row_runs
    blocks = tile.pixels // tile.block * tile.slices
    lanes = min(blocks, lowering.group_size)
    split = min(lowering.group_size // lanes, pair.depth)
    low, high = CLAMPS[operation.activation]
    parts, window_rows = divide_window(window.size[0], tile.runs * slices(depth), lowering.group_size)
    step = window.dilations[1] if tile.run == 1 else 1
    reach = (tile.run - 1) * window.strides[1] + (window.size[1] - 1) * window.dilations[1]
    constants = window.constants(height, width) | {
        "RUN": tile.run, "RUNS": tile.runs, "PARTS": parts, "WINDOW_ROWS": window_rows,
        "COLUMNS": reach // step + 1, "COLUMN_STEP": step,
        "ROW_RUNS": row_runs, "ALL_RUNS": runs, "SLICES": tile.slices, "SLICE_TILES": slice_tiles,
        "BLOCK": tile.block, "BLOCKS": blocks, "LANES": lanes, "SPLIT": split, "LOW": low, "HIGH": high,
    }  # fmt: skip
    arrays = {
        "depth_weights": pack_depthwise(operation.depthwise.weights),
        "depth_bias": pack_bias(operation.depthwise.bias, depth),
        "weights": pack_weights(operation.pointwise.weights),
        "bias": pack_bias(operation.pointwise.bias, channels),
    }
    partial = lowering.group_size * tile.block if split > 1 else 1
    local = (("float4", "middle", parts * tile.pixels * slices(depth)), ("float4", "partial", partial))
    reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
    group_count = -(-runs // tile.runs) * slice_tiles
    return Launch("separable", reads, writes, group_count, constants, arrays, local, choice=choice)
