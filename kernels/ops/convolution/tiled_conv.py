"""CONV_2D of much work by matrix units: tiles of a work-group through local memory (tiled_conv.kern)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...operation import Fusion, Launch, Lowering, PackedArray, SliceOwnership
from ...target import Target, TuningChoice
from ...tensor import Shape, TensorId, slices
from ..window import Window
from .heuristics import TILED_EXCHANGE_BYTES
from .matrix_conv import WARP, MatrixTile
from .packing import pack_bias, pack_fragments


class ConvTile(NamedTuple):
    """The outputs of a work-group. A warp computes 16 * ``rows`` pixels by 8 * ``columns`` channels, ``across`` warps
    lie side by side along the channels, and ``split`` warps share a sum. A tile is ``width`` pixels wide, or any pixels
    in a row if that is 0 (GATHER in the kernel). A block of its sum is 4 * ``planes`` input slices, and a multiple of
    ``split`` planes. The weights of ``stages`` taps of a block are in local memory.
    """

    rows: int
    columns: int
    across: int
    split: int
    width: int
    planes: int
    stages: int = 4

    def pixels(self, group_size: int) -> int:
        """The number of pixels of a tile."""
        return 16 * self.rows * (group_size // WARP // self.across // self.split)


class Grid(NamedTuple):
    """The results of a launch: ``size`` (height, width) pixels of each picture by ``slices`` slices. ``up`` (rows,
    columns) neighbouring pixels of the output are computed as one, and ``cut`` of them are left out before the first.
    """

    size: tuple[int, int]
    slices: int
    up: tuple[int, int] = (1, 1)
    cut: tuple[int, int] = (0, 0)


def launch_tiles(
    lowering: Lowering, source: TensorId, window: Window, grid: Grid, weights: Callable[[], np.ndarray],
    bias: PackedArray, tile: ConvTile, choice: TuningChoice[Any] | None = None,
) -> Launch:  # fmt: skip
    """One dispatch. ``weights`` makes an array of (4 * grid.slices, H, W, I) for the window and the input channels."""
    shape, group_size = lowering.shape(source), lowering.group_size
    patch, loads = patch_of(window, tile, group_size), loads_of(window, tile, group_size)
    blocks, pixels = -(-slices(shape[3]) // (4 * tile.planes)), tile.pixels(group_size)
    taps = window.size if tile.width else (1, 1)
    down, across, wide = _divided(shape[0], grid, tile, group_size)
    up, step = grid.up, window.strides if tile.width else (1, 1)
    constants = window.constants(shape[1], shape[2]) | {
        "ROWS": tile.rows, "COLUMNS": tile.columns, "WARPS_X": tile.across, "SPLIT": tile.split,
        "WARPS_Y": pixels // (16 * tile.rows), "PLANES": tile.planes, "STAGES": tile.stages,
        "GATHER": int(tile.width == 0), "TILE_W": tile.width or pixels, "TILE_H": pixels // (tile.width or pixels),
        "TILES_X": across, "TILES_Y": down, "COLUMN_TILES": wide, "PACKED_COLUMNS": -(-grid.slices // 2),
        "PATCH_H": patch[0], "PATCH_W": patch[1], "PLANE": _plane(patch), "LOADS": loads,
        "STEP_Y": step[0], "STEP_X": step[1], "FURTHER": step[0] * patch[1] if tile.width == 8 else 8 * step[1],
        "TAPS_H": taps[0], "TAPS_W": taps[1], "CHANNEL_BLOCKS": blocks,
        "BLOCKS": blocks if tile.width else blocks * math.prod(window.size),
        "OUT_H": grid.size[0], "OUT_W": grid.size[1], "PIXELS": shape[0] * math.prod(grid.size),
        "SLICES": grid.slices, "UP_Y": up[0], "UP_X": up[1], "CUT_TOP": grid.cut[0], "CUT_LEFT": grid.cut[1],
        "ROUND": _round(window, tile, group_size),
    }  # fmt: skip
    arrays = {"weights": pack_tiles(weights, (4 * grid.slices, *window.size, shape[3]), tile), "bias": bias}
    groups = (shape[0] * down if tile.width else 1) * across * wide
    own = None if up != (1, 1) or constants["ROUND"] != tile.columns else _ownership(tile, wide, group_size)
    reads = -(-math.prod(patch) * math.prod(window.size) // (math.prod(taps) * pixels)) * wide
    local = (
        ("float4", "region", _region(window, tile, group_size)),
        ("float4", "ring", _ring(tile, lowering.target)),
        ("int", "wide", 1),
        ("float4", "exchange", 1 if lowering.target.matrix_units else 3 * group_size),
    )
    return Launch(
        "tiled_conv", {"src": source}, {"dst": lowering.outputs[0]}, groups, constants, arrays, local, choice=choice,
        fusion=Fusion(slice_ownership=own, reads_per_value=reads),
    )  # fmt: skip


def _divided(batch: int, grid: Grid, tile: ConvTile, group_size: int) -> tuple[int, int, int]:
    """The numbers of tiles: below one another in a picture, side by side, and along the channels."""
    pixels, wide = tile.pixels(group_size), -(-grid.slices // (2 * tile.columns * tile.across))
    if tile.width == 0:
        return 1, -(-batch * math.prod(grid.size) // pixels), wide
    return -(-grid.size[0] // (pixels // tile.width)), -(-grid.size[1] // tile.width), wide


def patch_of(window: Window, tile: ConvTile, group_size: int) -> tuple[int, int]:
    """The height and width of the pixels in local memory."""
    pixels = tile.pixels(group_size)
    if tile.width == 0:
        return 1, pixels
    width, height = window.reach(pixels // tile.width, tile.width)
    return height, width


def loads_of(window: Window, tile: ConvTile, group_size: int) -> int:
    """The input slices that an invocation loads for a block."""
    return -(-math.prod(patch_of(window, tile, group_size)) * 4 * tile.planes // group_size)


def _plane(patch: tuple[int, int]) -> int:
    """The pixels from a plane to the next: an odd number, so that two planes lie in different banks."""
    return math.prod(patch) | 1


def _round(window: Window, tile: ConvTile, group_size: int) -> int:
    """The columns of a warp whose sums are in local memory at a time."""
    room = max(tile.planes * _plane(patch_of(window, tile, group_size)) * 64, TILED_EXCHANGE_BYTES) // 16
    fitting = (n for n in range(tile.columns, 0, -1) if tile.columns % n == 0)
    return next((n for n in fitting if tile.rows * n * (group_size + 4) <= room), 1)


def _region(window: Window, tile: ConvTile, group_size: int) -> int:
    """The float4 of local memory: for pixels, and then for sums."""
    pixels = tile.planes * _plane(patch_of(window, tile, group_size)) * 4
    return max(pixels, tile.rows * _round(window, tile, group_size) * (group_size + 4))


def _ring(tile: ConvTile, target: Target) -> int:
    """The float4 of local memory for weights. One holds two fragments of halves."""
    return tile.stages * tile.planes * tile.across * tile.columns * WARP // (2 if target.matrix_units else 1)


def fits(window: Window, tile: ConvTile, target: Target) -> bool:
    """Whether the device has the local memory, and the group the warps, for a tile."""
    if target.group_size % (WARP * tile.across * tile.split) or tile.planes % tile.split:
        return False
    if tile.width and tile.pixels(target.group_size) % tile.width:
        return False
    beside = _ring(tile, target) + (2 if target.matrix_units else 3 * target.group_size + 1)
    return (_region(window, tile, target.group_size) + beside) * 16 <= target.local_bytes


def _ownership(tile: ConvTile, wide: int, group_size: int) -> SliceOwnership | None:
    """The slices that an invocation writes; None if they are not the same for all its pixels."""
    lanes = 2 * tile.columns * tile.across
    return SliceOwnership(lanes, lanes * wide) if group_size % lanes == 0 else None


def pack_tiles(weights: Callable[[], np.ndarray], shape: Shape, tile: ConvTile) -> PackedArray:
    """The fragments of OHWI weights of this ``shape`` in the order in which tiled_conv.kern reads them.

    The order is [block of input slices][tap], or [tap][block] if a block has one tap; then planes of four slices.
    """
    out, height, width, in_ = shape
    planes, taps = tile.planes, height * width
    blocks = -(-slices(in_) // (4 * planes))
    steps = blocks * taps * planes
    packed = pack_fragments(np.empty((out, 1, 1, 16 * steps), np.float32), MatrixTile(1, 1, 1, 1))

    def pack() -> np.ndarray:
        padded = np.zeros((out, taps, blocks * planes * 16), np.float32)
        padded[..., :in_] = weights().reshape(out, taps, in_)
        ordered = padded.reshape(out, taps, blocks, planes * 16)
        if tile.width:
            ordered = ordered.transpose(0, 2, 1, 3)
        return pack_fragments(ordered.reshape(out, 1, 1, 16 * steps), MatrixTile(1, 1, 1, 1)).make()

    return PackedArray(packed.rows, pack)


def launch_tiled_convolution(
    lowering: Lowering, source: TensorId, window: Window, weights: np.ndarray, bias: np.ndarray | None,
    tile: ConvTile, choice: TuningChoice[Any] | None = None,
) -> Launch:  # fmt: skip
    """One dispatch for a convolution with OHWI weights."""
    _, rows, columns, channels = lowering.shape(lowering.outputs[0])
    grid = Grid((rows, columns), slices(channels))

    def padded() -> np.ndarray:
        return np.concatenate([weights, np.zeros((4 * grid.slices - channels, *weights.shape[1:]), weights.dtype)])

    return launch_tiles(lowering, source, window, grid, padded, pack_bias(bias, channels), tile, choice)


def tile_choice(lowering: Lowering, source: TensorId, window: Window, grid: Grid) -> TuningChoice[ConvTile] | None:
    fixed = lowering.target.fixed.get("tiled_conv")
    return None if fixed is None else TuningChoice("tiled_conv", (fixed,))
