"""CONV_2D by matrix units for a large window over few channels, such as 9x9 over a picture.

A work-group copies the pixels that its tile reads to local memory first. The fragments of a row of the window then lie
at constant distances from one another, so that a product takes two loads and next to no other instruction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...operation import Fusion, Launch, Lowering, PackedArray, SliceOwnership
from ...target import Target, TuningChoice
from ...tensor import TensorId, slices
from ..window import Window
from .heuristics import MATRIX_PATCH_CHANNELS, MATRIX_PATCH_RUNS, MATRIX_PATCH_SLICES, PATCH_MOST_TAPS, TILE_INVOCATIONS
from .matrix_conv import WARP, MatrixTile, uses_matrix_units
from .packing import pack_bias, pack_fragments

RUNS_X = 2
"""Runs of 16 pixels in a row of a tile."""


def uses_patches(pixels: int, depth: int, channels: int, window: Window, target: Target) -> bool:
    """Whether a convolution of ``pixels`` output pixels is one for matrix units that read patches."""
    plain = window.strides == window.dilations == (1, 1)
    small = slices(depth) <= MATRIX_PATCH_SLICES and channels <= MATRIX_PATCH_CHANNELS
    return (
        plain
        and small
        and math.prod(window.size) > PATCH_MOST_TAPS
        and uses_matrix_units(pixels, target, "matrix_patch")
    )


def launch_matrix_patches(
    lowering: Lowering, source: TensorId, window: Window, weights: np.ndarray, bias: np.ndarray | None
) -> Launch | None:
    """One dispatch; None if local memory is too small for the window."""
    _, height, width, depth = lowering.shape(source)
    batch, rows, columns, channels = lowering.shape(lowering.outputs[0])
    group_size, depth_s, eights = lowering.group_size, slices(depth), -(-channels // 8)
    fitting = _fitting_runs(depth_s, eights, window, lowering.target)
    sizes = {runs: _tiles(batch, rows, columns, runs, group_size) for runs in fitting}
    if not sizes:
        return None
    resident = max(lowering.target.invocations // TILE_INVOCATIONS, 1)
    # The patch of a tile counts as one more run: rounds of tiles, and what each of them takes.
    rule = min(sizes, key=lambda runs: -(-math.prod(sizes[runs]) // resident) * (runs + 1))
    key = f"matrix_patch {(batch, rows, columns, channels, depth_s, *window.size)}"
    choice = TuningChoice(key, tuple(dict.fromkeys((rule, *sizes))))
    runs = lowering.target.take(choice)
    _, down, across = _tiles(batch, rows, columns, runs, group_size)
    patch_width, patch_height, room = _patch(runs, depth_s, eights, window, group_size)
    constants = window.constants(height, width) | {
        "RUNS": runs, "RUNS_X": RUNS_X, "TILE_H": _tile_rows(runs, group_size), "TILES_X": across, "TILES_Y": down,
        "PATCH_W": patch_width, "PATCH_H": patch_height, "COLUMNS": eights, "STEPS": row_steps(window, depth_s),
    }  # fmt: skip
    arrays = {"weights": pack_rows(weights, window, depth_s), "bias": pack_bias(bias, channels)}
    local = (
        ("float4", "region", room),
        ("int", "wide", 1),
        ("float4", "exchange", 1 if lowering.target.matrix_units else 3 * group_size),
    )
    fusion = Fusion(slice_ownership=SliceOwnership(2 * eights, 2 * eights), single_pass_read=True)
    groups = batch * across * down
    reads, writes = {"src": source}, {"dst": lowering.outputs[0]}
    return Launch("matrix_patch", reads, writes, groups, constants, arrays, local, choice=choice, fusion=fusion)


def _fitting_runs(depth: int, eights: int, window: Window, target: Target) -> Iterator[int]:
    """The numbers of runs per warp whose patch fits into local memory beside the exchange."""
    if target.group_size % (WARP * RUNS_X) or target.group_size % (2 * eights):
        return
    room = target.local_bytes // 16 - (0 if target.matrix_units else 3 * target.group_size) - 8
    for runs in MATRIX_PATCH_RUNS:
        if _patch(runs, depth, eights, window, target.group_size)[2] <= room:
            yield runs


def _tile_rows(runs: int, group_size: int) -> int:
    """The rows of pixels of a tile."""
    return runs * (group_size // WARP) // RUNS_X


def _tiles(batch: int, rows: int, columns: int, runs: int, group_size: int) -> tuple[int, int, int]:
    """The numbers of tiles: of pictures, below one another, side by side."""
    return batch, -(-rows // _tile_rows(runs, group_size)), -(-columns // (16 * RUNS_X))


def _patch(runs: int, depth: int, eights: int, window: Window, group_size: int) -> tuple[int, int, int]:
    """The width and height of the pixels that a tile reads, and the number of float4 in local memory for the pixels
    and, later, the sums.
    """
    height, width = _tile_rows(runs, group_size) + window.size[0] - 1, 16 * RUNS_X + window.size[1] - 1
    return width, height, max(width * height * depth + 4, runs * eights * (group_size + 4))


def row_steps(window: Window, depth: int) -> int:
    """The steps of four terms of a row of the window."""
    return -(-window.size[1] * depth // 4)


def pack_rows(weights: np.ndarray, window: Window, depth: int) -> PackedArray:
    """The fragments of OHWI weights, each row of the window filled up to whole steps."""
    out, height, width, in_ = weights.shape
    terms = 4 * row_steps(window, depth)
    packed = pack_fragments(np.empty((out, height, 1, 4 * terms), np.float32), MatrixTile(1, 1, 1, 1))

    def pack() -> np.ndarray:
        padded = np.zeros((out, height, width, 4 * depth), np.float32)
        padded[..., :in_] = weights
        filled = np.zeros((out, height, 1, 4 * terms), np.float32)
        filled[:, :, 0, : 4 * width * depth] = padded.reshape(out, height, -1)
        return pack_fragments(filled, MatrixTile(1, 1, 1, 1)).make()

    return PackedArray(packed.rows, pack)
