"""Convolutions of at most four input channels, such as a model's first one.

A work-group copies the pixels that its tile reads to local memory first. So each pixel is read about once, and may be
sampled from a picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...operation import Fusion, Launch, Lowering, PackedArray
from ...target import Target
from ...tensor import TensorId, slices
from ..window import Window
from .heuristics import BUSY_PART, PATCH_BLOCK_SIZES, PATCH_SLICES


class Tile(NamedTuple):
    """The outputs of a work-group: ``across`` blocks of ``pixels`` by ``slices`` in each of ``rows`` rows."""

    pixels: int
    slices: int
    across: int
    rows: int

    def patch(self, window: Window) -> tuple[int, int]:
        """The width and height of the input pixels that it reads."""
        return window.reach(self.rows, self.across * self.pixels)


def choose_tile(rows: int, columns: int, out: int, window: Window, weights: int, target: Target) -> Tile | None:
    """The tile with the largest blocks that still fill the device; among these the tile that reads the fewest pixels
    per output. None if no tile fits into local memory, or if there are so few outputs that their sums are better split.

    The outputs are ``rows`` (of all pictures) by ``columns`` pixels of ``out`` slices. ``weights`` slices share the
    local memory if they fit.
    """
    for room in (PATCH_SLICES * target.group_size - weights, PATCH_SLICES * target.group_size):
        for pixels, depth in PATCH_BLOCK_SIZES:
            enough = 2 * rows * -(-columns // pixels) * -(-out // depth) * BUSY_PART >= target.invocations
            if pixels > columns or depth > out or not enough:
                continue
            blocks = max(target.group_size // -(-out // depth), 1)
            heights = [1 << i for i in range(blocks.bit_length())]
            tiles = [Tile(pixels, depth, min(blocks // height, -(-columns // pixels)), height) for height in heights]
            fitting = [tile for tile in tiles if _area(tile, window) <= room]
            if fitting:
                return min(fitting, key=lambda tile: _area(tile, window) / (tile.across * tile.pixels * tile.rows))
    return None


def _area(tile: Tile, window: Window) -> int:
    width, height = tile.patch(window)
    return width * height


def launch_patches(
    lowering: Lowering, source: TensorId, window: Window, arrays: Mapping[str, PackedArray]
) -> Launch | None:
    """One dispatch, with the "weights" and "bias" of conv.py; None if local memory is too small for the window."""
    _, height, width, _ = lowering.shape(source)
    batch, rows, columns, channels = lowering.shape(lowering.outputs[0])
    weights = arrays["weights"].rows
    rule = choose_tile(batch * rows, columns, slices(channels), window, weights, lowering.target)
    tile = lowering.target.decide("patch_conv", rule)
    if tile is None:
        return None
    patch_width, patch_height = tile.patch(window)
    area = patch_width * patch_height
    staged = weights if area + weights <= PATCH_SLICES * lowering.group_size else 0
    across, down = -(-columns // (tile.across * tile.pixels)), -(-rows // tile.rows)
    constants = window.constants(height, width) | {
        "PIXELS": tile.pixels, "SLICES": tile.slices, "SLICE_STEP": -(-slices(channels) // tile.slices),
        "BLOCKS_X": tile.across, "TILE_H": tile.rows, "TILES_X": across, "TILES_Y": down,
        "PATCH_W": patch_width, "PATCH_H": patch_height, "STAGED": staged,
    }  # fmt: skip
    local = (("float4", "region", area + staged),)
    reads, writes = {"src": source}, {"dst": lowering.outputs[0]}
    group_count = batch * across * down
    return Launch(
        "patch_conv", reads, writes, group_count, constants, dict(arrays), local, fusion=Fusion(single_pass_read=True)
    )
