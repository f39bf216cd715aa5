"""The choice of tiles for warpgroup_conv.kern: those that are considered, and estimates of the time that they take."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator
from functools import lru_cache

from ...operation import Lowering
from ...target import Target, TuningChoice
from ...tensor import Shape, TensorId
from ..window import Window
from .heuristics import (
    UNIT_INVOCATIONS,
    WARPGROUP_BLOCK_CLOCKS,
    WARPGROUP_CANDIDATES,
    WARPGROUP_CHAIN_OCTET_CLOCKS,
    WARPGROUP_FEW_RESULTS,
    WARPGROUP_FLAT,
    WARPGROUP_GAIN,
    WARPGROUP_LAUNCH_CLOCKS,
    WARPGROUP_LEAST_STAGE_CLOCKS,
    WARPGROUP_MOST_SUMS,
    WARPGROUP_NO_OVERLAP_CLOCKS,
    WARPGROUP_NOT_HIDDEN,
    WARPGROUP_OCTET_CLOCKS,
    WARPGROUP_PARTS,
    WARPGROUP_PASSED_CLOCKS,
    WARPGROUP_PLANES,
    WARPGROUP_RESULT_CLOCKS,
    WARPGROUP_SHARE_CLOCKS,
    WARPGROUP_SHARES,
    WARPGROUP_SHARES_GAIN,
    WARPGROUP_STAGE_BYTES,
    WARPGROUP_STAGE_CLOCKS,
    WARPGROUP_STAGE_WORK_CLOCKS,
    WARPGROUP_SUM_LAUNCH_CLOCKS,
    WARPGROUP_TILE_CLOCKS,
    WARPGROUP_UNIT_REGISTERS,
    WARPGROUP_WEIGHT_BYTE_CLOCKS,
)
from .tiled_conv import Grid, tile_candidates
from .tiled_conv import clocks as tiled_clocks
from .warpgroup_conv import (
    WARPGROUP,
    WarpgroupTile,
    divided,
    fits,
    plan_of,
    positions_of,
    registers_of,
    resident_groups,
    room,
    stage_octets,
)


def warpgroup_choice(
    lowering: Lowering, source: TensorId, window: Window, grid: Grid, least: int = 0, most: float = math.inf
) -> TuningChoice[WarpgroupTile] | None:
    """The tiles for a convolution of this grid; None if the device has no such products, if these are less than
    ``least``, or if they are likely to take more than ``most`` clocks, or longer than tiles of warps.
    """
    shape, target = lowering.shape(source), lowering.target
    fixed = target.fixed.get("warpgroup_conv")
    if isinstance(fixed, WarpgroupTile):
        return TuningChoice("warpgroup_conv", (fixed,))
    products = 4 * shape[0] * math.prod(grid.size) * grid.slices * math.prod(window.size) * shape[3]
    if not room(target) or target.fixed or products < least:
        return None
    by_warps = tile_candidates(window, shape, grid, target)[:1]
    most = min((most, *(tiled_clocks(window, shape, grid, tile, target) for tile in by_warps)))
    tiles = warpgroup_candidates(window, shape, grid, target)
    gain = WARPGROUP_SHARES_GAIN if tiles and tiles[0].shares > 1 else WARPGROUP_GAIN
    if not tiles or clocks(window, shape, grid, tiles[0], target) > gain * most:
        return None
    return TuningChoice(f"warpgroup_conv {window} {shape} {grid}", tiles)


@lru_cache(maxsize=256)
def warpgroup_candidates(window: Window, shape: Shape, grid: Grid, target: Target) -> tuple[WarpgroupTile, ...]:
    """The likeliest tiles for an input of this shape, the likeliest first.

    They are kept, because networks repeat their layers.
    """
    alike: dict[tuple[int, ...], list[tuple[int, WarpgroupTile]]] = {}
    for number, tile in enumerate(dict.fromkeys(_tiles(window, shape, grid, target))):
        alike.setdefault((*tile[:5], tile.shares), []).append((number, tile))
    least = {sums: least_clocks(window, shape, grid, tiles[0][1], target) for sums, tiles in alike.items()}
    best = list[tuple[float, int, WarpgroupTile]]()
    for sums in sorted(alike, key=lambda sums: least[sums]):
        if len(best) == WARPGROUP_CANDIDATES and least[sums] > best[-1][0]:
            break  # estimates of all tiles would take most of the time in which a model is lowered
        for number, tile in alike[sums]:
            if fits(window, shape, grid, tile, target):
                bisect.insort(best, (clocks(window, shape, grid, tile, target), number, tile))
                del best[WARPGROUP_CANDIDATES:]
    return tuple(tile for _, _, tile in best)


def _tiles(window: Window, shape: Shape, grid: Grid, target: Target) -> Iterator[WarpgroupTile]:
    """The tiles that are considered."""
    warpgroups, outs = target.group_size // WARPGROUP, -(-grid.slices // 2)
    few = 4 * shape[0] * math.prod(grid.size) * grid.slices <= WARPGROUP_FEW_RESULTS and grid.up == (1, 1)
    pointwise, saves_sets = math.prod(window.size) == 1, _saves_sets(window, shape, grid)
    shares_of_sums = WARPGROUP_SHARES if few and not pointwise else (1,)
    for sets, across, split, shares in itertools.product((1, 2, 4), (1, 2), (1, 2), shares_of_sums):
        down, octets = warpgroups // (across * split), -(-shape[3] // (8 * shares))
        wide = 1 << max(down * sets, 1).bit_length() // 2
        wides = (0,) if pointwise else (wide, 0) if shares == 1 and saves_sets else (wide,)
        parts = {-(-outs // (across * parts)) for parts in WARPGROUP_PARTS}
        for wide, eights in itertools.product(wides, parts):
            if sets * eights > WARPGROUP_MOST_SUMS:
                continue
            for planes in {min(octets + octets % split, n) for n in WARPGROUP_PLANES}:
                steps = -(-math.prod(window.size) * (planes // split) // 2)
                nbytes = steps * split * 2 * 8 * eights * across * 16
                for count in {-(-nbytes // most) for most in WARPGROUP_STAGE_BYTES}:
                    stages = 1 if count == 1 and octets <= planes else 4
                    yield WarpgroupTile(sets, eights, across, split, wide, planes, -(-steps // count), stages, shares)


def least_clocks(window: Window, shape: Shape, grid: Grid, tile: WarpgroupTile, target: Target) -> float:
    """A lower bound of ``clocks`` for all tiles that differ from this one in planes, steps and stages only."""
    size, units = target.group_size, max(target.invocations // UNIT_INVOCATIONS, 1)
    pixels, depth = tile.pixels(size), shape[3] / tile.shares
    if not pixels:
        return math.inf
    pictures = -(-shape[0] * math.prod(grid.size) // pixels) * tile.shares
    tiles = -(-pictures * -(-4 * grid.slices // tile.columns) // units)
    rounds = -(-tiles // max(1, WARPGROUP_UNIT_REGISTERS // registers_of(tile, size)))
    steps = math.prod(window.size) * depth / (16 * tile.split)
    products = steps * tile.sets * _product_clocks(tile) * (size // WARPGROUP)
    work = products + pixels * tile.columns * WARPGROUP_RESULT_CLOCKS
    octets = pixels * depth / 8 if math.prod(window.strides) == 1 else 0
    chain = products + WARPGROUP_STAGE_CLOCKS + WARPGROUP_BLOCK_CLOCKS + octets * WARPGROUP_CHAIN_OCTET_CLOCKS
    chain += _passed(tile) * WARPGROUP_PASSED_CLOCKS
    return (
        WARPGROUP_LAUNCH_CLOCKS
        + max(rounds * (chain + WARPGROUP_TILE_CLOCKS), tiles * work)
        + _sum_clocks(shape, grid, tile, units)
    )


def _passed(tile: WarpgroupTile) -> int:
    """The sums of an invocation that pass through local memory."""
    return (tile.split - 1) * tile.sets * tile.eights


def _sum_clocks(shape: Shape, grid: Grid, tile: WarpgroupTile, units: int) -> float:
    """The clocks of the launch that adds up shares."""
    added = 4 * shape[0] * math.prod(grid.size) * grid.slices * tile.shares
    return WARPGROUP_SUM_LAUNCH_CLOCKS + added * WARPGROUP_SHARE_CLOCKS / units if tile.shares > 1 else 0


def _product_clocks(tile: WarpgroupTile) -> int:
    """The clocks of a warpgroup's product, as measured."""
    return max(16 + 2 * tile.eights, 4 * tile.eights)


def _saves_sets(window: Window, shape: Shape, grid: Grid) -> bool:
    """Whether sets of any positions in a row are fewer than sets of 8x8 pixels."""
    squares = shape[0] * math.prod(-(-size // 8) * 8 for size in grid.size)
    return window.strides == (1, 1) and positions_of(window, shape, grid) <= WARPGROUP_FLAT * squares


def clocks(window: Window, shape: Shape, grid: Grid, tile: WarpgroupTile, target: Target) -> float:
    """An estimate of the clocks that all tiles take on an H200: those of a unit's busiest part, or of one group's chain
    of copies, barriers and products, whichever is longer.
    """
    size = target.group_size
    plan = plan_of(window, shape, grid, tile, size)
    units = max(target.invocations // UNIT_INVOCATIONS, 1)
    tiles = -(-math.prod(divided(window, shape, grid, tile, size)) * tile.shares // units)
    rounds = -(-tiles // (resident_groups(plan, tile, target) // units))
    stages, single = plan.blocks * plan.block_stages, tile.stages == 1
    products = plan.blocks * -(-plan.terms // 2) * tile.sets * _product_clocks(tile) * (size // WARPGROUP)
    # A block of an odd number of planes begins amid a sector of memory. Tiles of squares were fitted without this.
    pair = tile.planes % 2 if tile.is_flat and plan.blocks > 1 else 0
    octets, nbytes = plan.blocks * (tile.planes + pair) * plan.pixels, 0 if single else stage_octets(tile) * stages
    results = tile.pixels(size) * tile.columns
    copies = octets * WARPGROUP_OCTET_CLOCKS
    work = max(products, copies) + WARPGROUP_NOT_HIDDEN * min(products, copies)
    work += results * WARPGROUP_RESULT_CLOCKS + stages * WARPGROUP_STAGE_WORK_CLOCKS
    least = 0 if single else WARPGROUP_LEAST_STAGE_CLOCKS
    stage = max(products / stages, least, nbytes / stages * WARPGROUP_WEIGHT_BYTE_CLOCKS)
    chain = stages * (stage + WARPGROUP_STAGE_CLOCKS + (0 if tile.overlaps or single else WARPGROUP_NO_OVERLAP_CLOCKS))
    chain += plan.blocks * WARPGROUP_BLOCK_CLOCKS + octets * WARPGROUP_CHAIN_OCTET_CLOCKS
    chain += _passed(tile) * WARPGROUP_PASSED_CLOCKS
    return (
        WARPGROUP_LAUNCH_CLOCKS
        + max(rounds * (chain + WARPGROUP_TILE_CLOCKS), tiles * work)
        + _sum_clocks(shape, grid, tile, units)
    )
