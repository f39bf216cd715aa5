"""The three convolutions of an inverted bottleneck as one dispatch of matrix units, if that is faster than others.

MobileNets expand a tensor to six times its channels (1x1), filter those (depthwise), and reduce them again (1x1). A
work-group computes all channels of a few pixels, so that the large tensors in between are in no other memory.
expanded.py has the operation.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...operation import Launch, Lowering, PackedArray
from ...target import Target, TuningChoice
from ...tensor import Shape, slices
from ..convolution.conv import Convolution
from ..convolution.heuristics import (
    BOTTLENECK_CANDIDATES,
    INVERTED_CHUNK,
    INVERTED_LAUNCH,
    INVERTED_MOST_PIXELS,
    INVERTED_MOST_TAPS,
    INVERTED_MOST_WEIGHTS,
    INVERTED_PIXELS,
    INVERTED_PRODUCTS,
    INVERTED_WORK,
    UNIT_INVOCATIONS,
    Size,
    tile_lengths,
)
from ..convolution.matrix_conv import WARP, MatrixTile
from ..convolution.packing import pack_bias, pack_depthwise, pack_fragments
from ..convolution.separable import CLAMPS, Separable
from ..window import Window

TILE_SLICES, RUNS, COLUMNS = (4, 8, 16), (1, 2, 4), (1, 2, 4)
"""Sizes of tiles that are compared: slices, neighbouring pixels of an invocation, and a warp's eights of channels."""
RESIDENT = 2
"""The groups of a compute unit, by their registers."""


class Expansion(NamedTuple):
    """The first convolution, and the activation behind it: that clamps to ``limits``, or is HARD_SWISH."""

    convolution: Convolution
    limits: tuple[float, float]
    hard_swish: bool


class InvertedTile(NamedTuple):
    """The outputs of a work-group: ``height`` by ``width`` pixels. It computes ``slices`` of the slices in between at a
    time. An invocation filters ``run`` pixels of a row, and a warp expands 8 * ``columns`` channels at a time.
    """

    height: int
    width: int
    slices: int
    run: int
    columns: int


class BlockSizes(NamedTuple):
    """The sizes that decide about tiles: the shape of the output, the slices of the input and those in between."""

    shape: Shape
    source: int
    depth: int
    window: Window


def launch_inverted(lowering: Lowering, expansion: Expansion, filtering: Separable) -> Launch | None:
    """One dispatch of all three convolutions; None if others are faster, or if the kernel has not their window."""
    depth, window = filtering.depthwise.weights.shape[3], filtering.depthwise.window
    source, destination = lowering.shape(lowering.inputs[0]), lowering.shape(lowering.outputs[0])
    sizes = BlockSizes(destination, slices(source[3]), slices(depth), window)
    tiles = _tile_candidates(sizes, lowering.target)
    if not tiles:
        return None
    choice = TuningChoice(f"inverted {(*sizes[:3], *window.size, *window.strides)}", tiles)
    tile = lowering.target.take(choice)
    division = _division(sizes, tile, lowering.group_size)
    first = pack_fragments(expansion.convolution.weights, MatrixTile(1, 1, 1, division["STEPS"]))
    last_steps = division["CHUNKS"] * tile.slices // 4
    last = pack_fragments(filtering.pointwise.weights, MatrixTile(1, 1, 1, last_steps))
    low, high = CLAMPS[filtering.activation]
    constants = window.constants(source[1], source[2]) | division | {
        "DEPTH": sizes.depth, "PACKED_COLUMNS": -(-depth // 8), "OUT_FIRST": first.rows,
        "LOW": expansion.limits[0], "HIGH": expansion.limits[1], "OUT_LOW": low, "OUT_HIGH": high,
        "HARD_SWISH": int(expansion.hard_swish),
    }  # fmt: skip
    biases = pack_bias(filtering.depthwise.bias, depth), pack_bias(filtering.pointwise.bias, destination[3])
    arrays = {
        "weights": _joined(first, last),
        "bias": _joined(*biases, pack_bias(expansion.convolution.bias, depth)),
        "depth_weights": pack_depthwise(filtering.depthwise.weights),
    }
    patch_height, patch_width = _patch(window, tile.height, tile.width)
    local = (
        ("float4", "middle", patch_height * patch_width * division["PITCH"]),
        ("float4", "filtered", 16 * division["ROW_TILES"] * division["FILTERED_PITCH"]),
        ("float4", "exchange", 1 if lowering.target.matrix_units else 3 * lowering.group_size),
    )
    groups = destination[0] * division["TILES_Y"] * division["TILES_X"]
    reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
    return Launch("inverted", reads, writes, groups, constants, arrays, local, choice=choice)


def _joined(*arrays: PackedArray) -> PackedArray:
    """Arrays one after the other."""
    return PackedArray(sum(each.rows for each in arrays), lambda: np.concatenate([each.make() for each in arrays]))


def _tile_candidates(sizes: BlockSizes, target: Target) -> tuple[InvertedTile, ...]:
    """Tiles by their estimated time, the fastest first. Empty if other launches are faster, or the kernel has not this
    window: there are zeros around the picture, and an invocation keeps all weights.
    """
    fixed, window = target.fixed.get("inverted"), sizes.window
    if window.mode != "zero" or window.dilations != (1, 1) or math.prod(window.size) > INVERTED_MOST_TAPS:
        return ()
    if fixed is not None:
        return (fixed,)
    if target.fixed or not (target.halves and target.matrix_units and target.early_launches) or not is_worth(sizes):
        return ()
    return _fastest_tiles(sizes, target)


def is_worth(sizes: BlockSizes) -> bool:
    """Whether one launch is faster than others."""
    few = sizes.depth * slices(sizes.shape[3]) <= INVERTED_PRODUCTS
    return few and math.prod(sizes.shape[:3]) >= INVERTED_PIXELS


@lru_cache(maxsize=256)
def _fastest_tiles(sizes: BlockSizes, target: Target) -> tuple[InvertedTile, ...]:
    """Tiles by their estimated time, the fastest first. Results are kept, because networks repeat their blocks."""
    lengths = ([n for n in tile_lengths(size) if n <= INVERTED_MOST_PIXELS] for size in sizes.shape[1:3])
    axes = np.ix_(*(np.array(axis) for axis in (*lengths, TILE_SLICES, RUNS, COLUMNS)))
    times = estimate(sizes, axes, target)
    order = np.argsort(times, axis=None, kind="stable")[:BOTTLENECK_CANDIDATES]
    places = [np.unravel_index(i, times.shape) for i in order if np.isfinite(times.flat[i])]
    return tuple(InvertedTile._make(int(axis.flat[i]) for axis, i in zip(axes, place, strict=True)) for place in places)


def estimate(sizes: BlockSizes, tiles: tuple[np.ndarray, ...], target: Target) -> np.ndarray:
    """The time with each tile in clocks of a compute unit, by which tiles are compared; infinite if a tile is not
    possible. ``tiles`` has an array for each field of InvertedTile; these broadcast to one shape.

    Two groups of a unit wait at the same time, and work one after the other: for rounds of the first convolution's
    products, for the last one's, and for 128 bytes of local memory per clock.
    """
    height, width, count, run, columns = tiles
    window, warps = sizes.window, target.group_size // WARP
    patch_height, patch_width = _patch(window, height, width)
    patch, row_tiles, out = patch_height * patch_width, -(-height * width // 16), -(-sizes.shape[3] // 8)
    results = -(-out // np.maximum(np.minimum(warps // np.minimum(row_tiles, warps), out), 1))
    column_tiles, steps = np.maximum(count // (2 * columns), 1), -(-sizes.source // 4)
    rounds = -(-((patch + 15) // 16 * column_tiles) // warps)
    reads = height * -(-width // run) * count * window.size[0] * ((run - 1) * window.strides[1] + window.size[1])
    per_round, product, last, moved = INVERTED_WORK
    work = rounds * (per_round + product * steps * columns) + last * (count // 4) * results
    work = work + moved * (patch * count + reads) / 8
    groups = sizes.shape[0] * -(-sizes.shape[1] // height) * -(-sizes.shape[2] // width)
    units = max(target.invocations // UNIT_INVOCATIONS, 1)
    chunk = -(-groups // (RESIDENT * units)) * INVERTED_CHUNK + -(-groups // units) * work
    possible = (row_tiles <= warps) & (run <= width) & (2 * columns <= count) & (warps % column_tiles == 0)
    possible = possible & (np.maximum(steps * columns, count // 4 * results) <= INVERTED_MOST_WEIGHTS)
    local_slices = patch * (count + 2) + row_tiles * 16 * (count | 4) + 1
    possible = possible & (16 * local_slices <= target.local_bytes)
    return np.where(possible, INVERTED_LAUNCH + -(-sizes.depth // count) * chunk, np.inf)


def _patch(window: Window, height: Size, width: Size) -> tuple[Size, Size]:
    """The height and width of the pixels that the windows of a tile reach."""
    rows, columns = window.size
    return (height - 1) * window.strides[0] + rows, (width - 1) * window.strides[1] + columns


def _division(sizes: BlockSizes, tile: InvertedTile, group_size: int) -> dict[str, int]:
    """The constants by which work-groups divide the outputs, and warps a tile."""
    _, rows, columns, channels = sizes.shape
    patch_height, patch_width = _patch(sizes.window, tile.height, tile.width)
    column_tiles, warps, out = tile.slices // (2 * tile.columns), group_size // WARP, -(-channels // 8)
    units, row_tiles = -(-patch_height * patch_width // 16) * column_tiles, -(-tile.height * tile.width // 16)
    parts = max(min(warps // row_tiles, out), 1)
    return {
        "TILE_H": tile.height, "TILE_W": tile.width, "TILES_Y": -(-rows // tile.height),
        "TILES_X": -(-columns // tile.width), "PATCH_H": patch_height, "PATCH_W": patch_width,
        "SLICES": tile.slices, "CHUNKS": -(-sizes.depth // tile.slices), "PITCH": tile.slices + 2,
        "FILTERED_PITCH": tile.slices | 4, "RUN": tile.run, "RUNS": -(-tile.width // tile.run),
        "STEPS": -(-sizes.source // 4), "COLUMNS": tile.columns, "COLUMN_TILES": column_tiles,
        "ROUNDS": -(-units // warps), "ROW_TILES": row_tiles, "PARTS": parts, "OUT_COLUMNS": -(-out // parts),
        "OUT_PACKED_COLUMNS": out,
    }  # fmt: skip
