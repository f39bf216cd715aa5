"""Convolutions whose work-groups copy the pixels of their tile to local memory and load them from there by rows.

For devices without matrix units. An invocation that computes neighbouring pixels loads a row of the window once for all
its taps, so most of its instructions are multiply-adds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from ...operation import Fusion, Launch, LocalArrays, Lowering, PackedArray, SliceOwnership
from ...target import Target, TuningChoice
from ...tensor import Shape, TensorId, slices
from ..window import Window
from .heuristics import (
    ROW_CANDIDATES,
    ROW_HEIGHTS,
    ROW_LEAST_PRODUCTS,
    ROW_LEAST_TAPS,
    ROW_LOCAL_BYTES,
    ROW_MOST_ISSUED,
    ROW_MOST_RESIDENT,
    ROW_PIXELS,
    ROW_ROUND,
    ROW_RUNS,
    ROW_SPLITS,
    ROW_UNIT_BYTES,
    ROW_WARP_ISSUES,
    UNIT_INVOCATIONS,
)


class RowTile(NamedTuple):
    """The outputs of a work-group: ``runs`` runs of ``pixels`` pixels in each of ``rows`` rows, all slices. ``split``
    invocations share the sums of a run.
    """

    pixels: int
    runs: int
    rows: int
    split: int

    def patch(self, window: Window) -> tuple[int, int]:
        """The width and height of the input pixels that it reads."""
        return window.reach(self.rows, self.runs * self.pixels)

    def span(self, window: Window) -> int:
        """The pixels of a row that an invocation loads."""
        return (self.pixels - 1) * window.strides[1] + (window.size[1] - 1) * window.dilations[1] + 1


@lru_cache(maxsize=256)
def row_tiles(window: Window, source: Shape, destination: Shape, target: Target) -> tuple[RowTile, ...]:
    """The tiles with the least estimated time, the best first. Empty if the device is a CPU (few invocations), if there
    are few products or taps, or if no tile fills a work-group and fits into local memory.

    They are kept, because networks repeat their layers.
    """
    products = slices(source[3]) * slices(destination[3]) * math.prod(window.size) * _pixels(destination)
    few = products < ROW_LEAST_PRODUCTS or math.prod(window.size) < ROW_LEAST_TAPS
    if target.invocations < UNIT_INVOCATIONS or few:
        return ()
    fitting = list(_fitting(window, source, destination, target))
    return tuple(
        sorted(fitting, key=lambda tile: row_clocks(window, source, destination, tile, target))[:ROW_CANDIDATES]
    )


def is_flat(source: Shape, window: Window) -> bool:
    """Whether each output pixel depends on one input pixel, at the same position. Then rows and pictures are one long
    row.
    """
    return window.size == window.strides == (1, 1) and not window.constants(source[1], source[2])["PADDED"]


def launch_rows(
    lowering: Lowering,
    source: TensorId,
    window: Window,
    arrays: Mapping[str, PackedArray],
    tile: RowTile,
    choice: TuningChoice[Any],
) -> Launch:
    """One dispatch, with the "weights" and "bias" of conv.py."""
    reads, writes = lowering.shape(source), lowering.shape(lowering.outputs[0])
    width, height = tile.patch(window)
    flat, (pictures, rows, columns) = is_flat(reads, window), _extent(reads, writes, window)
    across, down = -(-columns // (tile.runs * tile.pixels)), -(-rows // tile.rows)
    constants = window.constants(reads[1], reads[2]) | {
        "PIXELS": tile.pixels, "RUNS": tile.runs, "TILE_H": tile.rows, "SPLIT": tile.split, "SPAN": tile.span(window),
        "ROUND": ROW_ROUND if tile.split > 1 else tile.pixels,
        "FLAT": int(flat), "ROWS": rows, "COLUMNS": columns, "TILES_X": across, "TILES_Y": down,
        "PATCH_W": width, "PATCH_H": height, "ROW": _row(width), "AREA": slices(reads[3]) * width * height,
    }  # fmt: skip
    out = slices(writes[3])
    fusion = Fusion(
        slice_ownership=SliceOwnership(out, out) if lowering.group_size % out == 0 else None,
        single_pass_read=slices(reads[3]) == 1,
        reads_per_value=-(-across * width * down * height // (reads[1] * reads[2])),
    )
    return Launch(
        "row_conv", {"src": source}, {"dst": lowering.outputs[0]}, pictures * across * down, constants, dict(arrays),
        row_memory(reads, window, tile, lowering.group_size), choice=choice, fusion=fusion,
    )  # fmt: skip


def row_memory(source: Shape, window: Window, tile: RowTile, group_size: int) -> LocalArrays:
    """The kernel's local array: the pixels, and then the parts of the sums."""
    width, height = tile.patch(window)
    sums = ROW_ROUND * group_size if tile.split > 1 else 0
    return (("float4", "region", max(slices(source[3]) * height * _row(width), sums)),)


def _row(width: int) -> int:
    """Float4 from one row of the patch to the next: an odd number, so that rows begin in different banks."""
    return width | 1


def _pixels(shape: Shape) -> int:
    return shape[0] * shape[1] * shape[2]


def _extent(source: Shape, destination: Shape, window: Window) -> tuple[int, int, int]:
    """Pictures, rows and columns of the outputs, as the kernel counts them."""
    return (1, 1, _pixels(destination)) if is_flat(source, window) else destination[:3]


def _fitting(window: Window, source: Shape, destination: Shape, target: Target) -> Iterator[RowTile]:
    """The tiles that use most invocations of a work-group and fit into local memory."""
    depth, out = slices(source[3]), slices(destination[3])
    heights = (1,) if is_flat(source, window) else ROW_HEIGHTS
    for pixels, runs, rows, split in product(ROW_PIXELS, ROW_RUNS, heights, ROW_SPLITS):
        tile = RowTile(pixels, runs, rows, split)
        fills = target.group_size <= 2 * out * runs * rows * split <= 2 * target.group_size
        if fills and depth % split == 0:
            ((_, _, count),) = row_memory(source, window, tile, target.group_size)
            if 16 * count <= min(ROW_LOCAL_BYTES, target.local_bytes):
                yield tile


def row_clocks(window: Window, source: Shape, destination: Shape, tile: RowTile, target: Target) -> float:
    """An estimate of the clocks that the step takes. A warp copies pixels, 14 instructions per slice, and then issues
    multiply-adds, loads and conversions of weights. A unit issues at most ROW_MOST_ISSUED instructions per clock, and
    at most ROW_WARP_ISSUES for each resident warp, because a warp waits the rest of the time.
    """
    depth, out, channels = slices(source[3]), slices(destination[3]), min(source[3], 4)
    width, height = tile.patch(window)
    pictures, rows, columns = _extent(source, destination, window)
    tiles = pictures * -(-rows // tile.rows) * -(-columns // (tile.runs * tile.pixels))
    taps = window.size[1] * channels * (5 + 4 * tile.pixels)
    warps = -(-out * tile.runs * tile.rows * tile.split // 32)
    work = warps * depth // tile.split * window.size[0] * (2 * tile.span(window) + taps)
    work += 14 * depth * width * height / 32
    ((_, _, count),) = row_memory(source, window, tile, target.group_size)
    per_unit = -(-tiles // (target.invocations // UNIT_INVOCATIONS))
    resident = min(max(ROW_UNIT_BYTES // (16 * count + 1024), 1), ROW_MOST_RESIDENT, per_unit)
    return per_unit * work / min(ROW_MOST_ISSUED, ROW_WARP_ISSUES * warps * resident)
