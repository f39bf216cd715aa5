"""Convolutions of halves by products of whole warpgroups from local memory (warpgroup_conv.kern).

warpgroup_choice.py chooses the tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...operation import Launch, Lowering, PackedArray
from ...target import Target, TuningChoice
from ...tensor import Shape, TensorId, slices
from ..window import Window
from .heuristics import UNIT_INVOCATIONS, WARPGROUP_REGISTERS, WARPGROUP_UNIT_BYTES, WARPGROUP_UNIT_REGISTERS
from .tiled_conv import Grid

WARPGROUP, SET = 128, 64
"""The invocations that compute a product together, and its pixels."""


class WarpgroupTile(NamedTuple):
    """The outputs of a work-group. A warpgroup computes ``sets`` times 64 pixels by 8 * ``eights`` channels, ``across``
    of them lie side by side along the channels, and ``split`` share a sum. ``wide`` sets of 8x8 pixels are side by
    side; 0 if the pixels are any in a row, with zeros between the rows of a picture. A block of the sum is ``planes``
    times eight input channels, a stage ``steps`` of its steps. The weights of ``stages`` stages are in local memory.
    ``shares`` work-groups sum up a share of the input channels each, which a second launch adds up.
    """

    sets: int
    eights: int
    across: int
    split: int
    wide: int
    planes: int
    steps: int
    stages: int
    shares: int = 1

    @property
    def is_flat(self) -> bool:
        """Whether the pixels are any in a row."""
        return self.wide == 0

    def pixels(self, group_size: int) -> int:
        """The number of pixels of a tile."""
        return SET * self.sets * (group_size // WARPGROUP // self.across // self.split)

    @property
    def columns(self) -> int:
        """The number of channels of a tile."""
        return 8 * self.eights * self.across

    @property
    def overlaps(self) -> bool:
        """Whether a stage's copies and products go on in the next one. Otherwise all is awaited in between."""
        return self.stages > 2


class Plan(NamedTuple):
    """Sizes of a tile for a window and an input's channels. A group copies ``pixels`` for each of its ``blocks``."""

    rows: int
    across: int
    patch: tuple[int, int]
    blocks: int
    terms: int
    block_stages: int
    regions: int

    @property
    def pixels(self) -> int:
        return math.prod(self.patch)

    @property
    def plane(self) -> int:
        """The octets from a plane to the next: an odd number, so that two planes lie in different banks."""
        return self.pixels | 1


def plan_of(window: Window, shape: Shape, grid: Grid, tile: WarpgroupTile, group_size: int) -> Plan:
    """The sizes of a tile for a window and an input of this shape."""
    pixels = tile.pixels(group_size)
    rows, across = (1, pixels) if tile.is_flat else (pixels // (8 * tile.wide), 8 * tile.wide)
    if tile.is_flat:
        down, beside = ((taps - 1) * dilation for taps, dilation in zip(window.size, window.dilations, strict=True))
        width, height = 8, -(-(pixels + down * _lengths(window, shape, grid)[1] + beside) // 8)
    else:
        width, height = window.reach(rows, across)
    blocks = -(-shape[3] // (8 * tile.planes * tile.shares))
    terms = math.prod(window.size) * tile.planes // tile.split
    block_stages = -(-terms // (2 * tile.steps))
    regions = 2 if block_stages > 1 else max(2, tile.stages)
    patch = height, -(-width // window.strides[1]) * window.strides[1]
    return Plan(rows, across, patch, blocks, terms, block_stages, regions)


def _lengths(window: Window, shape: Shape, grid: Grid) -> tuple[int, int]:
    """The rows of a picture and the positions of a row, with zeros, if tiles are any positions in a row.

    The zeros are as many as the windows reach at one of its ends, the same for both.
    """
    constants = window.constants(*shape[1:3])
    before, lengths = (int(constants["PAD_TOP"]), int(constants["PAD_LEFT"])), list[int]()
    for axis, size in enumerate(shape[1:3]):
        reach = grid.size[axis] + (window.size[axis] - 1) * window.dilations[axis] - before[axis]
        lengths.append(max(size + before[axis], reach, grid.size[axis]))
    return lengths[0], lengths[1]


def positions_of(window: Window, shape: Shape, grid: Grid) -> int:
    """The positions from the first pixel to the last one, if tiles are any in a row."""
    rows, pitch = _lengths(window, shape, grid)
    return ((shape[0] - 1) * rows + grid.size[0] - 1) * pitch + grid.size[1]


def _tap_step(window: Window) -> int:
    """The distance of taps that follow one another: 2 if odd columns lie behind the even ones. Terms must ascend."""
    return 2 if window.strides[1] == 2 and window.dilations[1] % 2 == 1 else 1


def launch_warpgroups(
    lowering: Lowering, source: TensorId, window: Window, grid: Grid, weights: Callable[[], np.ndarray],
    bias: PackedArray, choice: TuningChoice[WarpgroupTile],
) -> tuple[Launch, ...]:  # fmt: skip
    """One dispatch, or two if shares of sums are added up. ``weights`` makes an array of (4 * grid.slices, H, W, I) for
    the window and the input channels.
    """
    shape, group_size, target = lowering.shape(source), lowering.group_size, lowering.target
    tile = target.take(choice)
    plan = plan_of(window, shape, grid, tile, group_size)
    pictures, down, beside, wide = divided(window, shape, grid, tile, group_size)
    columns, flat, (up, cut) = wide * tile.shares, tile.is_flat, (grid.up, grid.cut)
    rows, pitch = _lengths(window, shape, grid)
    stages = plan.blocks * plan.block_stages
    ahead = max(1, tile.stages - 2)
    constants = window.constants(shape[1], shape[2]) | {
        "TILES": tile.sets, "EIGHTS": tile.eights, "ACROSS": tile.across, "SPLIT": tile.split,
        "WIDE": tile.pixels(group_size) if flat else tile.wide,
        "SET_ACROSS": SET if flat else 8, "SET_DOWN": 8 * window.strides[0] * plan.patch[1],
        "ROW": 8 if flat else window.strides[0] * plan.patch[1], "FLAT": int(flat),
        "PITCH": pitch if flat else plan.patch[1], "ROWS": rows,
        "TILE_W": plan.across, "TILE_H": plan.rows, "TILES_X": beside, "TILES_Y": down, "COLUMN_TILES": columns,
        "COLUMNS": tile.columns, "PATCH_H": plan.patch[0], "PATCH_W": plan.patch[1], "PLANES": tile.planes,
        "ROW_OCTETS": plan.patch[1] * tile.planes,
        "ROWS_AT_ONCE": max(1, group_size // (plan.patch[1] * tile.planes)),
        "PLANE": plan.plane, "BLOCKS": plan.blocks, "TERMS": plan.terms, "REGIONS": plan.regions,
        "STAGES": tile.stages, "BLOCK_STAGES": plan.block_stages, "STAGE_STEPS": tile.steps, "ALL_STAGES": stages,
        "STAGE_OCTETS": stage_octets(tile), "AHEAD": ahead, "BLOCKS_AHEAD": ahead if plan.block_stages == 1 else 1,
        "SETS_AHEAD": ahead - 1 if plan.block_stages == 1 else 0,
        "OVERLAP": int(tile.overlaps), "OUT_H": grid.size[0], "OUT_W": grid.size[1],
        "SLICES": grid.slices, "SHARES": tile.shares,
        "OCTETS": 0, "TAP_STEP": _tap_step(window), "UP_Y": up[0], "UP_X": up[1], "CUT_TOP": cut[0], "CUT_LEFT": cut[1],
    }  # fmt: skip
    arrays = {"weights": _pack(weights, _tap_step(window), plan, tile, wide, 4 * grid.slices), "bias": bias}
    unit = 1 if room(target) else 2
    local = (
        ("float4", "region", unit * plan.regions * tile.planes * plan.plane),
        ("float4", "ring", unit * stage_octets(tile) * tile.stages),
        ("float4", "arrivals", tile.stages),
        ("float4", "sums", _sums(tile, group_size)),
    )
    tiles = pictures * down * beside * columns
    constants["ALL_TILES"], groups = tiles, min(tiles, max(resident_groups(plan, tile, target) // columns, 1) * columns)
    destination = lowering.outputs[0]
    batch, height, width, channels = lowering.shape(destination)
    rows = (tile.shares, batch * height, width, channels)
    sums = destination if tile.shares == 1 else lowering.scratch(rows)
    launch = Launch(
        "warpgroup_conv", {"src": source}, {"dst": sums}, groups, constants, arrays, local, choice=choice
    )  # fmt: skip
    return (launch,) if tile.shares == 1 else (launch, _launch_sum(lowering, sums, rows, destination))


def _launch_sum(lowering: Lowering, shares: TensorId, shape: Shape, destination: TensorId) -> Launch:
    """One dispatch of reduce.kern that adds up the batch of ``shares``, which has this shape."""
    count, rows, width, channels = shape
    items = rows * width * slices(channels)
    constants: dict[str, int | float] = {
        "REDUCED_B": count, "REDUCED_H": 1, "REDUCED_W": 1, "REDUCED_S": 1,
        "KEPT_B": 1, "KEPT_H": rows, "KEPT_W": width, "KEPT_S": slices(channels), "ITEMS": items,
        "COOPERATIVE": 0, "KIND": 0, "CHANNELS": 0, "IDENTITY": 0.0, "DIVISOR": 1.0,
    }  # fmt: skip
    reads, writes, groups = {"src": shares}, {"dst": destination}, lowering.group_count(items)
    return Launch("reduce", reads, writes, groups, constants, {}, (("float4", "partial", 1),))


def divided(
    window: Window, shape: Shape, grid: Grid, tile: WarpgroupTile, group_size: int
) -> tuple[int, int, int, int]:
    """The numbers of tiles: of pictures, below one another, side by side, and along the channels."""
    pixels, wide = tile.pixels(group_size), -(-4 * grid.slices // tile.columns)
    if tile.is_flat:
        return 1, 1, -(-positions_of(window, shape, grid) // pixels), wide
    return shape[0], -(-grid.size[0] // (pixels // (8 * tile.wide))), -(-grid.size[1] // (8 * tile.wide)), wide


def resident_groups(plan: Plan, tile: WarpgroupTile, target: Target) -> int:
    """The groups that the device runs at once, by their local memory and their registers, and one column of tiles at
    least.
    """
    nbytes = _local_bytes(plan, tile, target.group_size, 1) + 1024
    registers = WARPGROUP_UNIT_REGISTERS // registers_of(tile, target.group_size)
    unit = max(1, min(WARPGROUP_UNIT_BYTES // nbytes, registers))
    return unit * max(target.invocations // UNIT_INVOCATIONS, 1)


def registers_of(tile: WarpgroupTile, group_size: int) -> int:
    """The registers of a group."""
    return (WARPGROUP_REGISTERS + 4 * tile.sets * tile.eights) * group_size


def stage_octets(tile: WarpgroupTile) -> int:
    """The octets of weights of a stage: two for each channel and step."""
    return tile.steps * tile.split * 2 * tile.columns


def _sums(tile: WarpgroupTile, group_size: int) -> int:
    """The float4 of local memory through which sums pass."""
    return max(1, tile.sets * (tile.eights if tile.split > 1 else tile.eights % 2) * (group_size // tile.split))


def _local_bytes(plan: Plan, tile: WarpgroupTile, group_size: int, unit: int) -> int:
    """The local memory of a group, if an octet is ``unit`` float4."""
    octets = plan.regions * tile.planes * plan.plane + stage_octets(tile) * tile.stages
    return 16 * (unit * octets + tile.stages + _sums(tile, group_size))


def _pack(
    weights: Callable[[], np.ndarray], tap_step: int, plan: Plan, tile: WarpgroupTile, wide: int, channels: int
) -> PackedArray:
    """OHWI weights as (n, 4) float32, an octet in two rows.

    The order is [share][column tile][block][step][part][term of the step][channel][eight input channels]. The last term
    of an odd number is multiplied twice, by weights that add up to its own: zeros would turn an infinity into NaN.
    Zeros fill the last stage of a block. Of sixteen channels the first two of each four come first, so that a lane has
    the four of a slice, two of each eight.
    """
    steps, parts, each = plan.block_stages * tile.steps, tile.split, tile.planes // tile.split

    def pack() -> np.ndarray:
        whole = weights()
        array = np.concatenate([whole[:, :, first::tap_step] for first in range(tap_step)], 2)
        taps, depth = math.prod(array.shape[1:3]), array.shape[3]
        blocks = tile.shares * plan.blocks
        padded = np.zeros((wide * tile.columns, taps, blocks * tile.planes * 8), np.float32)
        padded[:channels, :, :depth] = array.reshape(channels, taps, depth)
        # [channel, tap, block, part, plane, octet] -> [channel, block, part, term, octet]
        apart = padded.reshape(-1, taps, blocks, parts, each, 8).transpose(0, 2, 3, 4, 1, 5)
        terms = np.zeros((len(padded), blocks, parts, 2 * steps, 8), np.float32)
        terms[:, :, :, : plan.terms] = apart.reshape(len(padded), blocks, parts, plan.terms, 8)
        if plan.terms % 2:
            terms[:, :, :, plan.terms] = (terms[:, :, :, plan.terms - 1] / 2).astype(np.float16)
            terms[:, :, :, plan.terms - 1] -= terms[:, :, :, plan.terms]
        ordered = terms.reshape(-1, 8 * tile.eights, *terms.shape[1:])[:, _order(tile.eights)]
        # [column tile, channel, share, block, part, step, term, octet]
        split = ordered.reshape(wide, tile.columns, tile.shares, plan.blocks, parts, steps, 2, 8)
        return np.ascontiguousarray(split.transpose(2, 0, 3, 5, 4, 6, 1, 7)).reshape(-1, 4)

    return PackedArray(tile.shares * wide * plan.blocks * steps * parts * 2 * tile.columns * 2, pack)


def _order(eights: int) -> np.ndarray:
    """The channel of each column of a warpgroup's product."""
    whole = np.arange(eights // 2 * 16).reshape(-1, 4, 2, 2).transpose(0, 2, 1, 3).reshape(-1)
    return np.concatenate([whole, np.arange(len(whole), 8 * eights)])


def room(target: Target) -> int:
    """The most local memory of a tile whose products are not emulated; 0 if they are."""
    return target.warpgroup_bytes if target.halves else 0


def fits(window: Window, shape: Shape, grid: Grid, tile: WarpgroupTile, target: Target) -> bool:
    """Whether the device has the local memory, and the group the warpgroups, for a tile."""
    if window.mode == "reflect" or window.strides[1] > 2:
        return False
    if target.group_size % (WARPGROUP * tile.across * tile.split) or tile.planes % tile.split:
        return False
    if tile.is_flat:
        reach = (window.size[1] - 1) * window.dilations[1]  # terms ascend
        if window.strides != (1, 1) or reach >= window.dilations[0] * _lengths(window, shape, grid)[1]:
            return False
    elif tile.pixels(target.group_size) % (SET * tile.wide):
        return False
    plan = plan_of(window, shape, grid, tile, target.group_size)
    if plan.blocks * plan.block_stages > 1 and tile.stages == 1:
        return False
    nbytes = _local_bytes(plan, tile, target.group_size, 1 if room(target) else 2)
    return nbytes <= (room(target) or target.local_bytes)
