"""CONV_2D of much work by matrix units: tiles of a work-group through local memory (tiled_conv.kern)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import NamedTuple, cast

import numpy as np

from ...operation import Fusion, Launch, Lowering, PackedArray, SliceOwnership
from ...target import Target, TuningChoice
from ...tensor import Shape, TensorId, slices
from ..window import VALID, Window
from .heuristics import (
    TILED_BLOCK_CLOCKS,
    TILED_CANDIDATES,
    TILED_EXCHANGE_BYTES,
    TILED_LAUNCH_CLOCKS,
    TILED_MOST_LOADS,
    TILED_MOST_RESIDENT,
    TILED_PATCH_CLOCKS,
    TILED_PRODUCT_CLOCKS,
    TILED_READ_CLOCKS,
    TILED_RESULT_CLOCKS,
    TILED_ROWS_AND_COLUMNS,
    TILED_STAGE_CLOCKS,
    TILED_STAGES,
    TILED_START_CLOCKS,
    TILED_STEP_CLOCKS,
    TILED_STEP_PRODUCT_CLOCKS,
    TILED_UNIT_BYTES,
    UNIT_INVOCATIONS,
)
from .matrix_conv import WARP
from .packing import pack_bias, pairs_of_bytes, whole_slices


class ConvTile(NamedTuple):
    """The outputs of a work-group. A warp computes 8 * ``rows`` pixels by 16 * ``columns`` channels, ``across`` warps
    lie side by side along the channels, and ``split`` warps share a sum. A tile is ``width`` pixels wide, or any pixels
    in a row if that is 0 (GATHER in the kernel). A block of its sum is 4 * ``planes`` input slices, and a multiple of
    ``split`` planes. The weights of ``stages`` stages of ``taps`` taps of a block are in local memory. ``in_rows``: the
    input has one slice, and four neighbouring pixels take the place of four slices.
    """

    rows: int
    columns: int
    across: int
    split: int
    width: int
    planes: int
    taps: int = 1
    stages: int = 4
    in_rows: bool = False

    def pixels(self, group_size: int) -> int:
        """The number of pixels of a tile."""
        return 8 * self.rows * (group_size // WARP // self.across // self.split)

    @property
    def loaded(self) -> int:
        """The input slices of a pixel that a block loads."""
        return 1 if self.in_rows else 4 * self.planes


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
    bias: PackedArray, choice: TuningChoice[ConvTile], *, as_bytes: bool = False,
) -> Launch:  # fmt: skip
    """One dispatch. ``weights`` makes an array of (4 * grid.slices, H, W, I) for the window and the input channels.
    ``as_bytes``: these are pairs of bytes.
    """
    shape, group_size, tile = lowering.shape(source), lowering.group_size, lowering.target.take(choice)
    shape = paired(shape) if as_bytes else shape
    taken, depth = _taken(window, tile), shape[3]
    if tile.in_rows:
        weights, depth = partial(_in_rows, weights), 16
    patch, loads = patch_of(window, tile, group_size), loads_of(window, tile, group_size)
    blocks, pixels = -(-slices(shape[3]) // (4 * tile.planes)), tile.pixels(group_size)
    taps = taken.size if tile.width else (1, 1)
    down, across, wide = _divided(shape[0], grid, tile, group_size)
    up, step = grid.up, window.strides if tile.width else (1, 1)
    constants = window.constants(shape[1], shape[2]) | {
        "ROWS": tile.rows, "COLUMNS": tile.columns, "WARPS_X": tile.across, "SPLIT": tile.split,
        "WARPS_Y": pixels // (8 * tile.rows), "PLANES": tile.planes, "STAGES": tile.stages,
        "GATHER": int(tile.width == 0), "TILE_W": tile.width or pixels, "TILE_H": pixels // (tile.width or pixels),
        "TILES_X": across, "TILES_Y": down, "COLUMN_TILES": wide, "TILE_COLUMNS": tile.columns * tile.across,
        "PATCH_H": patch[0], "PATCH_W": patch[1], "PLANE": _plane(patch), "LOADS": loads,
        "LOADED": tile.loaded, "IN_ROWS": int(tile.in_rows), "DILATION_X": taken.dilations[1],
        "STEP_Y": step[0], "STEP_X": step[1],
        "TAPS_H": taps[0], "TAPS_W": taps[1], "CHANNEL_BLOCKS": blocks,
        "BLOCKS": blocks if tile.width else blocks * math.prod(taken.size),
        "STAGE_TAPS": tile.taps, "STAGE_STEPS": tile.taps * tile.planes,
        "ALL_STAGES": blocks * math.prod(taken.size) // tile.taps,
        "OUT_H": grid.size[0], "OUT_W": grid.size[1], "PIXELS": shape[0] * math.prod(grid.size),
        "SLICES": grid.slices, "UP_Y": up[0], "UP_X": up[1], "CUT_TOP": grid.cut[0], "CUT_LEFT": grid.cut[1],
        "ROUND": int(_round(window, tile, group_size)),
    }  # fmt: skip
    constants |= {"BYTES": 1} if as_bytes else {}
    arrays = {"weights": pack_tiles(weights, (4 * grid.slices, *taken.size, depth), tile, wide), "bias": bias}
    groups = (shape[0] * down if tile.width else 1) * across * wide
    all_at_once = up == (1, 1) and wide == 1 and constants["ROUND"] == tile.columns
    lanes = 2 * tile.columns * tile.across
    own = SliceOwnership(lanes, lanes, 2) if all_at_once and group_size % lanes == 0 else None
    reads = -(-math.prod(patch) * math.prod(taken.size) // (math.prod(taps) * pixels)) * wide
    local = (
        ("float4", "region", int(_region(window, tile, group_size))),
        ("float4", "ring", _ring(tile, lowering.target)),
        ("int", "wide", 1),
        ("float4", "exchange", 1 if lowering.target.matrix_units else 3 * group_size),
    )
    return Launch(
        "tiled_conv", {"src": source}, {"dst": lowering.outputs[0]}, groups, constants, arrays, local, choice=choice,
        fusion=Fusion(slice_ownership=own, reads_per_value=reads, single_pass_read=tile.in_rows and wide == 1),
    )  # fmt: skip


def _taken(window: Window, tile: ConvTile) -> Window:
    """The window as the kernel takes its taps: all, or for ``in_rows`` every fourth of a row, over an input whose pixel
    x has the slices of the pixels x to x + 3. The kernel knows the padding from the window itself.
    """
    if not tile.in_rows:
        return window
    (height, width), (down, _) = window.size, window.dilations
    return Window((height, -(-width // 4)), window.strides, (down, 4), VALID)


def _in_rows(weights: Callable[[], np.ndarray]) -> np.ndarray:
    """OHWI weights as (O, H, ceil(W / 4), 16), with zeros for taps and channels that are not there."""
    array = weights()
    out, height, width, in_ = array.shape
    padded = np.zeros((out, height, -(-width // 4) * 4, 4), array.dtype)
    padded[:, :, :width, :in_] = array
    return padded.reshape(out, height, -1, 16)


def _divided(batch: int, grid: Grid, tile: ConvTile, group_size: int) -> tuple[int, int, int]:
    """The numbers of tiles: below one another in a picture, side by side, and along the channels."""
    pixels, wide = tile.pixels(group_size), -(-grid.slices // (4 * tile.columns * tile.across))
    if tile.width == 0:
        return 1, -(-batch * math.prod(grid.size) // pixels), wide
    return -(-grid.size[0] // (pixels // tile.width)), -(-grid.size[1] // tile.width), wide


def patch_of(window: Window, tile: ConvTile, group_size: int) -> tuple[int, int]:
    """The height and width of the pixels in local memory."""
    pixels = tile.pixels(group_size)
    if tile.width == 0:
        return 1, pixels
    width, height = _taken(window, tile).reach(pixels // tile.width, tile.width)
    return height, width + (3 if tile.in_rows else 0)


def loads_of(window: Window, tile: ConvTile, group_size: int) -> int:
    """The input slices that an invocation loads for a block."""
    return -(-math.prod(patch_of(window, tile, group_size)) * tile.loaded // group_size)


def _plane(patch: tuple[int, int]) -> int:
    """The pixels from a plane to the next: an odd number, so that two planes lie in different banks."""
    return math.prod(patch) | 1


def _round(window: Window, tile: ConvTile, group_size: int) -> int:
    """The columns of a warp whose sums are in local memory at a time."""
    room = np.maximum(_plane(patch_of(window, tile, group_size)) * tile.loaded, TILED_EXCHANGE_BYTES // 16)
    most = 1
    for count in range(2, int(np.max(tile.columns, initial=1)) + 1):
        fit = (tile.columns % count == 0) & (tile.rows * count * (group_size // 16 * 17 + 2) <= room)
        most = np.where(fit, count, most)
    return cast("int", most)


def _region(window: Window, tile: ConvTile, group_size: int) -> int:
    """The float4 of local memory: for pixels, and then for sums."""
    pixels = _plane(patch_of(window, tile, group_size)) * tile.loaded
    return np.maximum(pixels, tile.rows * _round(window, tile, group_size) * (group_size // 16 * 17 + 2))


def _ring(tile: ConvTile, target: Target) -> int:
    """The float4 of local memory for weights. One holds two fragments of halves."""
    fragments = tile.stages * tile.taps * tile.planes * tile.across * tile.columns * 2 * WARP
    return fragments // (2 if target.matrix_units else 1)


def fits(window: Window, tile: ConvTile, target: Target) -> bool:
    """Whether the device has the local memory, and the group the warps, for a tile."""
    divides = (target.group_size % (WARP * tile.across * tile.split) == 0) & (tile.planes % tile.split == 0)
    divides &= (_taken(window, tile).size[1] if tile.width else 1) % tile.taps == 0
    divides &= tile.pixels(target.group_size) % (tile.width or 1) == 0
    beside = _ring(tile, target) + (2 if target.matrix_units else 3 * target.group_size + 1)
    return divides & ((_region(window, tile, target.group_size) + beside) * 16 <= target.local_bytes)


def pack_tiles(weights: Callable[[], np.ndarray], shape: Shape, tile: ConvTile, wide: int) -> PackedArray:
    """OHWI weights of this ``shape`` as (n, 4) float32 for ``wide`` column tiles; pairs of bytes stay uint16.

    The order is [block of input slices][tap], or [tap][block] if a block has one tap; then [plane of four slices]
    [column tile][fragment of 16 channels][lane][2]. Lane 4r + t has the channels of slice t for the rows r and r + 8:
    the first two of both rows, then the last two. The rows up to 7 are two slices of the lower half of the tile, the
    others of the upper half.
    """
    out, height, width, in_ = shape
    planes, taps, columns = tile.planes, height * width, tile.columns * tile.across
    blocks = -(-slices(in_) // (4 * planes))
    steps = blocks * taps * planes

    def pack() -> np.ndarray:
        numbers = weights()
        kind = np.uint16 if numbers.dtype == np.uint16 else np.float32
        padded = np.zeros((wide * columns * 16, taps, blocks * planes * 16), kind)
        padded[:out, :, :in_] = numbers.reshape(out, taps, in_)
        # [column tile, half, fragment, row, tap, block, plane, slice, pair of channels, channel]
        apart = padded.reshape(wide, 2, columns, 8, taps, blocks, planes, 4, 2, 2)
        outer = (5, 4, 6) if tile.width else (4, 5, 6)
        return np.ascontiguousarray(apart.transpose(*outer, 0, 2, 3, 7, 8, 1, 9)).reshape(-1, 4)

    return PackedArray(steps * wide * columns * WARP * 2, pack)


def launch_tiled_convolution(
    lowering: Lowering, source: TensorId, window: Window, weights: np.ndarray, bias: np.ndarray | None,
    choice: TuningChoice[ConvTile], *, as_bytes: bool = False,
) -> Launch:  # fmt: skip
    """One dispatch for a convolution with OHWI weights, ``as_bytes`` of bytes by bytes."""
    _, rows, columns, channels = lowering.shape(lowering.outputs[0])
    grid = Grid((rows, columns), slices(channels))

    def padded() -> np.ndarray:
        return whole_slices(pairs_of_bytes(weights) if as_bytes else weights)

    return launch_tiles(lowering, source, window, grid, padded, pack_bias(bias, channels), choice, as_bytes=as_bytes)


def paired(shape: Shape) -> Shape:
    """The shape of a tensor of bytes as kernels see it: with two channels as one (``views.pairs_of_channels``)."""
    return (*shape[:3], shape[3] // 2)


def tile_choice(
    lowering: Lowering, source: TensorId, window: Window, grid: Grid, least: int, most: float = math.inf, *,
    as_bytes: bool = False,
) -> TuningChoice[ConvTile] | None:  # fmt: skip
    """The tiles for a convolution of this grid; None if it has less than ``least`` products, if they take more than
    ``most`` clocks, or if the device has no matrix units.
    """
    target, shape = lowering.target, lowering.shape(source)
    shape = paired(shape) if as_bytes else shape
    fixed = target.fixed.get("tiled_conv")
    if isinstance(fixed, ConvTile):
        return TuningChoice("tiled_conv", (fixed,))
    products = 4 * shape[0] * math.prod(grid.size) * grid.slices * math.prod(window.size) * shape[3]
    if not target.matrix_units or "matrix_conv" in target.fixed or products < least:
        return None
    tiles = tile_candidates(window, shape, grid, target)
    if not tiles or clocks(window, shape, grid, tiles[0], target) > most:
        return None
    return TuningChoice(f"tiled_conv {window} {shape} {grid}{' bytes' if as_bytes else ''}", tiles)


@lru_cache(maxsize=256)
def tile_candidates(window: Window, shape: Shape, grid: Grid, target: Target) -> tuple[ConvTile, ...]:
    """The likeliest tiles for an input of this shape, the likeliest first.

    They are kept, because networks repeat their layers.
    """
    flat, in_rows = math.prod(window.size) == 1, takes_rows(window, shape)
    widths, counts = ((0,) if flat else (8, 16) if in_rows else (0, 8, 16)), (1,) if in_rows else (1, 2, 3, 4)
    sizes = _sizes(widths, counts)
    costs = np.full(len(sizes), np.inf)
    for width in widths:  # which decides how a tile is computed; all other sizes are arrays
        places = np.flatnonzero(sizes[:, 4] == width)
        possible = places[_is_possible(window, _tiles(sizes[places], width, in_rows), target)]
        costs[possible] = clocks(window, shape, grid, _tiles(sizes[possible], width, in_rows), target)
    order = np.argsort(costs, kind="stable")[:TILED_CANDIDATES]
    return tuple(ConvTile._make((*sizes[i].tolist(), in_rows)) for i in order if np.isfinite(costs[i]))


@lru_cache
def _sizes(widths: tuple[int, ...], counts: tuple[int, ...]) -> np.ndarray:
    """The sizes of all tiles that are considered: rows, columns, across, split, width, planes, taps and stages."""
    sizes = itertools.product(TILED_ROWS_AND_COLUMNS, (1, 2, 4), counts, widths, counts, TILED_STAGES)
    return np.array([(*size, *between, *stage) for size, *between, stage in sizes])


def _tiles(sizes: np.ndarray, width: int, in_rows: bool) -> ConvTile:
    """All tiles of one width as one, whose sizes are arrays."""
    rows, columns, across, split, _, planes, taps, stages = cast("Iterable[int]", sizes.T)
    return ConvTile(rows, columns, across, split, width, planes, taps, stages, in_rows)


def takes_rows(window: Window, shape: Shape) -> bool:
    """Whether four neighbouring pixels can take the place of four slices."""
    return slices(shape[3]) == 1 < window.size[1] and window.dilations[1] == 1


def _is_possible(window: Window, tile: ConvTile, target: Target) -> bool:
    return fits(window, tile, target) & (loads_of(window, tile, target.group_size) <= TILED_MOST_LOADS)


def clocks(window: Window, shape: Shape, grid: Grid, tile: ConvTile, target: Target) -> float:
    """An estimate of the clocks that all tiles take on an H200, with halves: of rounds of groups, each of which takes
    the time of its unit's busiest part, or of one group's chain of loads, barriers and products.
    """
    group_size = target.group_size
    warps, patch = group_size // WARP, math.prod(patch_of(window, tile, group_size))
    down, across, wide = _divided(shape[0], grid, tile, group_size)
    groups = (shape[0] * down if tile.width else 1) * across * wide
    count = math.prod(_taken(window, tile).size)
    blocks = -(-slices(shape[3]) // (4 * tile.planes)) * (1 if tile.width else count)
    taps = blocks * (count if tile.width else 1)
    stages = taps // tile.taps
    columns, pixels = tile.columns * tile.across, tile.pixels(group_size)
    products = TILED_PRODUCT_CLOCKS * columns * pixels / 8
    reads = warps / tile.split * (2 * tile.rows + 4 * tile.columns) + 4 * columns
    work = taps * tile.planes * np.maximum(products, reads * TILED_READ_CLOCKS)
    work += blocks * tile.loaded / 4 * patch * TILED_PATCH_CLOCKS + 16 * columns * pixels * TILED_RESULT_CLOCKS
    step = TILED_STEP_CLOCKS + tile.rows * tile.columns * TILED_STEP_PRODUCT_CLOCKS
    chain = (
        TILED_START_CLOCKS
        + stages * TILED_STAGE_CLOCKS
        + taps * tile.planes / tile.split * step
        + blocks * TILED_BLOCK_CLOCKS
    )
    units = max(target.invocations // UNIT_INVOCATIONS, 1)
    local = (_region(window, tile, group_size) + _ring(tile, target)) * 16
    resident = np.clip(TILED_UNIT_BYTES // local, 1, TILED_MOST_RESIDENT)
    rounds, rest = divmod(groups, units * resident)
    last = -(-rest // units)
    return (
        TILED_LAUNCH_CLOCKS + rounds * np.maximum(resident * work, chain) + (rest > 0) * np.maximum(last * work, chain)
    )
