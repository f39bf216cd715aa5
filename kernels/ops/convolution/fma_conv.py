"""CONV_2D of much work by multiply-adds: tiles of a work-group through local memory (fma_conv.kern).

For devices without matrix units.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np

from ...operation import Fusion, Launch, Lowering, PackedArray, SliceOwnership
from ...target import Target, TuningChoice
from ...tensor import Shape, TensorId, slices
from ..window import Window
from .heuristics import (
    FMA_ACROSS,
    FMA_BLOCK_CLOCKS,
    FMA_BLOCKS,
    FMA_CANDIDATES,
    FMA_COPY_CLOCKS,
    FMA_ISSUE_CLOCKS,
    FMA_LOCAL_BYTES,
    FMA_MOST_LOADS,
    FMA_PIXELS_AND_SLICES,
    FMA_READ_CLOCKS,
    FMA_ROUND,
    FMA_SPLITS,
    FMA_STEP_CLOCKS,
    FMA_UNIT_BYTES,
    UNIT_INVOCATIONS,
)
from .tiled_conv import Grid


class FmaTile(NamedTuple):
    """The outputs of a work-group. An invocation computes ``pixels`` by ``slices`` of them, ``across`` invocations lie
    side by side along the slices, and ``split`` share a sum. A tile is ``width`` pixels wide, which divides the number
    of invocations along the pixels; or any pixels in a row if that is 0 (GATHER in the kernel). A block of its sum is
    ``block`` input slices, a multiple of ``split``.
    """

    pixels: int
    slices: int
    across: int
    split: int
    width: int
    block: int

    def down(self, group_size: int) -> int:
        """The invocations that lie side by side along the pixels."""
        return group_size // self.across // self.split

    def area(self, group_size: int) -> int:
        """The number of pixels of a tile."""
        return self.pixels * self.down(group_size)

    def taps(self, window: Window) -> tuple[int, int]:
        """The taps of a block."""
        return window.size if self.width else (1, 1)

    def weights(self, window: Window) -> int:
        """The float4 of the weights of a block."""
        return math.prod(self.taps(window)) * self.block * 4 * self.slices * self.across

    def patch(self, window: Window, group_size: int) -> tuple[int, int]:
        """The height and width of the pixels in local memory."""
        area = self.area(group_size)
        if self.width == 0:
            return 1, area
        width, height = window.reach(area // self.width, self.width)
        return height, width


def launch_fma_tiles(
    lowering: Lowering, source: TensorId, window: Window, grid: Grid, weights: Callable[[], np.ndarray],
    bias: PackedArray, choice: TuningChoice[FmaTile], *, sets: int = 1, destination: TensorId | None = None,
) -> Launch:  # fmt: skip
    """One dispatch. ``weights`` makes an array of (4 * grid.slices, H, W, I) for the window and the input channels.

    ``sets``: the pictures of the batch are in so many sets, each of which has weights of its own: ``weights`` makes
    those of all sets, one after another, in float32. The window is then 1x1. ``destination``: the tensor that is
    written, if it is not the node's.
    """
    shape, group_size, tile = lowering.shape(source), lowering.group_size, lowering.target.take(choice)
    patch, area, taps = tile.patch(window, group_size), tile.area(group_size), tile.taps(window)
    channel_blocks = -(-slices(shape[3]) // tile.block)
    blocks = channel_blocks * (1 if tile.width else math.prod(window.size))
    down, across, wide = _divided(shape[0] // sets, grid, tile, group_size)
    step = window.strides if tile.width else (1, 1)
    set_pixels = shape[0] // sets * math.prod(grid.size)
    constants = window.constants(shape[1], shape[2]) | {
        "PIXELS": tile.pixels, "SLICES": tile.slices, "ACROSS": tile.across, "DOWN": tile.down(group_size),
        "SPLIT": tile.split, "BLOCK": tile.block, "BLOCKS": blocks, "CHANNEL_BLOCKS": channel_blocks,
        "GATHER": int(tile.width == 0), "TILE_W": tile.width or area, "TILE_H": area // (tile.width or area),
        "TILES_X": across, "TILES_Y": down, "COLUMN_TILES": wide,
        "PATCH_H": patch[0], "PATCH_W": patch[1], "PLANE": _plane(patch), "STEP_Y": step[0], "STEP_X": step[1],
        "PIXEL_STEP": _pixel_step(tile, step[0] * patch[1], group_size),
        "LOADS": _loads(window, tile, group_size), "TAPS_H": taps[0], "TAPS_W": taps[1],
        "WEIGHTS": tile.weights(window), "WEIGHT_LOADS": -(-tile.weights(window) // group_size),
        "OUT_H": grid.size[0], "OUT_W": grid.size[1], "ALL_PIXELS": shape[0] * math.prod(grid.size),
        "SETS": sets, "SET_TILES": across, "SET_PIXELS": set_pixels,
        "ALL_SLICES": grid.slices, "UP_Y": grid.up[0], "UP_X": grid.up[1],
        "CUT_TOP": grid.cut[0], "CUT_LEFT": grid.cut[1], "ROUND": int(_round(tile)),
    }  # fmt: skip
    packed = pack_fma_tiles(weights, (4 * grid.slices, *window.size, shape[3]), tile, wide, sets)
    arrays = {"weights": packed, "bias": bias}
    groups = (shape[0] * down if tile.width else sets) * across * wide
    written = lowering.outputs[0] if destination is None else destination
    own = SliceOwnership(tile.across, tile.across, tile.slices) if wide == 1 and grid.up == (1, 1) else None
    reads = -(-math.prod(patch) * math.prod(window.size) // (math.prod(taps) * area)) * wide
    local = (("float4", "region", int(_region(window, tile, group_size))), ("float4", "kernels", tile.weights(window)))
    return Launch(
        "fma_conv", {"src": source}, {"dst": written}, groups, constants, arrays, local, choice=choice,
        fusion=Fusion(slice_ownership=own, reads_per_value=reads),
    )  # fmt: skip


def fma_choice(
    lowering: Lowering, source: TensorId, window: Window, grid: Grid, least: int
) -> TuningChoice[FmaTile] | None:
    """The tiles for a convolution of this grid; None if it has less than ``least`` products, or if the device is a CPU
    (few invocations) or has matrix units.
    """
    target, shape = lowering.target, lowering.shape(source)
    if "fma_conv" in target.fixed:
        fixed = target.fixed["fma_conv"]
        return TuningChoice("fma_conv", (fixed,)) if isinstance(fixed, FmaTile) else None
    products = 4 * shape[0] * math.prod(grid.size) * grid.slices * math.prod(window.size) * shape[3]
    if target.matrix_units or target.invocations < UNIT_INVOCATIONS or products < least:
        return None
    tiles = fma_tiles(window, shape, grid, target)
    return TuningChoice(f"fma_conv {window} {shape} {grid}", tiles) if tiles else None


@lru_cache(maxsize=256)
def fma_tiles(window: Window, shape: Shape, grid: Grid, target: Target, sets: int = 1) -> tuple[FmaTile, ...]:
    """The likeliest tiles for an input of this shape, the likeliest first. They are kept, because networks repeat their
    layers.
    """
    widths = (0,) if math.prod(window.size) == 1 else (0, 8, 16, 32)
    sizes = _sizes(widths)
    costs = np.full(len(sizes), np.inf)
    for width in widths:  # which decides how a tile is computed; all other sizes are arrays
        places = np.flatnonzero(sizes[:, 4] == width)
        possible = places[fits(window, _tiles(sizes[places], width), target)]
        costs[possible] = fma_clocks(window, shape, grid, _tiles(sizes[possible], width), target, sets)
    order = np.argsort(costs, kind="stable")[:FMA_CANDIDATES]
    return tuple(FmaTile._make(sizes[i].tolist()) for i in order if np.isfinite(costs[i]))


@lru_cache
def _sizes(widths: tuple[int, ...]) -> np.ndarray:
    """The sizes of all tiles that are considered, in the order of FmaTile."""
    sizes = itertools.product(FMA_PIXELS_AND_SLICES, FMA_ACROSS, FMA_SPLITS, widths, FMA_BLOCKS)
    return np.array([(*outputs, *rest) for outputs, *rest in sizes])


def _tiles(sizes: np.ndarray, width: int) -> FmaTile:
    """All tiles of one width as one, whose sizes are arrays."""
    pixels, outputs, across, split, _, block = cast("Iterable[int]", sizes.T)
    return FmaTile(pixels, outputs, across, split, width, block)


def fits(window: Window, tile: FmaTile, target: Target) -> bool:
    """Whether the device has the local memory, and the group the invocations, for a tile."""
    size = target.group_size
    possible = (size % (tile.across * tile.split) == 0) & (tile.block % tile.split == 0)
    possible &= tile.down(size) % (tile.width or 1) == 0
    possible &= _loads(window, tile, size) + -(-tile.weights(window) // size) <= FMA_MOST_LOADS
    local = 16 * (_region(window, tile, size) + tile.weights(window))
    return possible & (local <= min(FMA_LOCAL_BYTES, target.local_bytes))


def fma_clocks(window: Window, shape: Shape, grid: Grid, tile: FmaTile, target: Target, sets: int = 1) -> float:
    """An estimate of the clocks of an H200 that all tiles take: of rounds of groups, each of which takes the time of
    its unit's multiply-adds, loads and copies, or of one group's chain of these.
    """
    size = target.group_size
    down, across, wide = _divided(shape[0] // sets, grid, tile, size)
    groups = (shape[0] * down if tile.width else sets) * across * wide
    taps, warps = math.prod(tile.taps(window)), size / 32
    blocks = -(-slices(shape[3]) // tile.block) * (1 if tile.width else math.prod(window.size))
    steps = blocks * taps * tile.block / tile.split
    products = tile.pixels * tile.slices * 16
    reads = tile.pixels + 4 * tile.slices
    copies = FMA_COPY_CLOCKS * (1.33 * _loads(window, tile, size) + -(-tile.weights(window) // size))
    work = warps * (steps * (products / 4 + FMA_READ_CLOCKS * reads) + blocks * copies / 4)
    chain = steps * (products * FMA_ISSUE_CLOCKS + FMA_STEP_CLOCKS) + blocks * (copies + FMA_BLOCK_CLOCKS)
    units = max(target.invocations // UNIT_INVOCATIONS, 1)
    local = 16 * (_region(window, tile, size) + tile.weights(window)) + 1024
    registers = 65536 // (size * (4 * tile.pixels * (tile.slices + 1) + 64))
    resident = np.clip(np.minimum(FMA_UNIT_BYTES // local, registers), 1, None)
    rounds, rest = divmod(groups, units * resident)
    last = -(-rest // units)
    return rounds * np.maximum(resident * work, chain) + (rest > 0) * np.maximum(last * work, chain)


def pack_fma_tiles(
    weights: Callable[[], np.ndarray], shape: Shape, tile: FmaTile, wide: int, sets: int = 1
) -> PackedArray:
    """OHWI weights of this ``shape`` as (n, 4) float32 for ``wide`` column tiles, in the order [column tile][block of
    input slices][tap], or [column tile][tap][block] if a block has one tap; then [slice][channel][output slice].
    """
    out, height, width, in_ = shape
    taps, columns = height * width, tile.slices * tile.across
    blocks = -(-slices(in_) // tile.block)

    def pack() -> np.ndarray:
        padded = np.zeros((sets, wide * columns * 4, taps, blocks * tile.block * 4), np.float32)
        padded[:, :out, :, :in_] = weights().reshape(sets, out, taps, in_)
        # [set and column tile, slice, channel, tap, block, input slice and channel]
        apart = padded.reshape(sets * wide, columns, 4, taps, blocks, tile.block * 4)
        outer = (0, 4, 3) if tile.width else (0, 3, 4)
        return np.ascontiguousarray(apart.transpose(*outer, 5, 1, 2)).reshape(-1, 4)

    return PackedArray(sets * wide * blocks * taps * tile.block * 4 * columns, pack, exact=sets > 1)


def _divided(batch: int, grid: Grid, tile: FmaTile, group_size: int) -> tuple[int, int, int]:
    """The numbers of tiles: below one another in a picture, side by side, and along the slices."""
    area, wide = tile.area(group_size), -(-grid.slices // (tile.slices * tile.across))
    if tile.width == 0:
        return 1, -(-batch * math.prod(grid.size) // area), wide
    return -(-grid.size[0] // (area // tile.width)), -(-grid.size[1] // tile.width), wide


def _pixel_step(tile: FmaTile, row: int, group_size: int) -> int:
    """The places in local memory between two pixels of an invocation, if rows of the tile are ``row`` places apart."""
    down = tile.down(group_size)
    return down // tile.width * row if tile.width else down


def _loads(window: Window, tile: FmaTile, group_size: int) -> int:
    """The input slices that an invocation loads for a block."""
    return -(-math.prod(tile.patch(window, group_size)) * tile.block // group_size)


def _plane(patch: tuple[int, int]) -> int:
    """The pixels from one slice to the next: an odd number, so that slices of a pixel lie in different banks."""
    return math.prod(patch) | 1


def _round(tile: FmaTile) -> int:
    """The outputs of an invocation whose parts are in local memory at a time."""
    return np.gcd(tile.pixels * tile.slices, FMA_ROUND)


def _region(window: Window, tile: FmaTile, group_size: int) -> int:
    """The float4 of local memory: for pixels, and then for parts of sums."""
    pixels = _plane(tile.patch(window, group_size)) * tile.block
    return np.maximum(pixels, (tile.split > 1) * _round(tile) * group_size)
