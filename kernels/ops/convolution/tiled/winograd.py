"""3x3 convolutions of stride 1 by Winograd's F(2x2, 3x3): a candidate that is taken if it was measured to be faster.

It needs 4/9 of the products of a direct convolution, but also sums of inputs and outputs, and local memory. Weights
take 16/9 of the memory, and become float32 if the file has halves. docs/performance.md has the errors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....operation import LocalArrays
from ....target import Target
from ....tensor import Shape, slices
from ...window import Window

LOCAL = 64
"""Patches times slices in a work-group's local memory, 16 positions of each: 16 KiB."""
SHAPES = ((8, 4), (16, 8), (4, 2))
"""(patches of a work-group, patches of an invocation)."""
LEAST_SLICES = 4
"""Input and output slices below which the transforms cost more than they save."""

_G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
"""The matrix G of U = G g Gt; g is a 3x3 window of weights."""


class WinogradTile(NamedTuple):
    """The outputs of a work-group: ``patches`` of 2x2 pixels by ``slices``. An invocation computes the products of
    ``block_patches`` by ``block_slices`` at one of 16 positions.
    """

    patches: int
    slices: int
    block_patches: int
    block_slices: int


def winograd_tiles(window: Window, depth: int, channels: int, target: Target) -> tuple[WinogradTile, ...]:
    """The candidates for a convolution of ``depth`` to ``channels`` slices; none if Winograd does not fit it."""
    plain = window.size == (3, 3) and window.strides == window.dilations == (1, 1)
    if not plain or min(depth, channels) < LEAST_SLICES or target.group_size % 16:
        return ()
    tiles: list[WinogradTile] = []
    for patches, block_patches in SHAPES:
        slice_lanes = target.group_size // 16 * block_patches // patches
        counts = [n for n in (2 * slice_lanes, slice_lanes) if 0 < n <= channels and patches * n <= LOCAL]
        if counts and _local_depth(depth, patches) >= LEAST_SLICES:
            tiles.append(WinogradTile(patches, counts[0], block_patches, counts[0] // slice_lanes))
    return tuple(tiles)


def _local_depth(depth: int, patches: int) -> int:
    """The number of input slices at a time: the largest divisor for which so many patches fit into local memory."""
    return max(part for part in range(1, min(8, LOCAL // patches) + 1) if depth % part == 0)


def winograd_memory(depth: int, tile: WinogradTile) -> LocalArrays:
    """The kernel's local arrays."""
    return (("float4", "parts", 16 * tile.patches * max(_local_depth(depth, tile.patches), tile.slices)),)


def winograd_constants(source: Shape, destination: Shape, window: Window, tile: WinogradTile) -> dict[str, int | float]:
    """The kernel's constants, for BHWC shapes."""
    batch, rows, columns, channels = destination
    patch_rows, patch_columns = -(-rows // 2), -(-columns // 2)
    return window.constants(source[1], source[2]) | {
        "PATCHES": tile.patches, "GROUP_SLICES": tile.slices, "DEPTH": _local_depth(slices(source[3]), tile.patches),
        "BLOCK_PATCHES": tile.block_patches, "BLOCK_SLICES": tile.block_slices,
        "PATCH_ROWS": patch_rows, "PATCH_COLUMNS": patch_columns, "ALL_PATCHES": batch * patch_rows * patch_columns,
        "SLICE_TILES": -(-slices(channels) // tile.slices),
    }  # fmt: skip


def transform_weights(weights: np.ndarray) -> np.ndarray:
    """(O, 3, 3, I) weights g as (O, 4, 4, I) float32: G g Gt for each pair of channels."""
    return np.einsum("ay,oyxi,bx->oabi", _G, weights.astype(np.float64), _G).astype(np.float32)
