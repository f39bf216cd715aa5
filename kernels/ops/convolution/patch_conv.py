"""Convolutions of at most four channels, as a model's first is: what a tile reads is copied to local memory first.

So a pixel is read about once, and may be sampled from a picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...operation import Fusion, Launch, Lowering, PackedArray
from ...target import Target
from ...tensor import TensorId, slices
from ..window import Window
from .blocks import BUSY

SIZES = ((4, 2), (4, 1), (2, 1), (1, 1))
"""Blocks of (pixels, output slices) of an invocation, the one with the fewest loads a product first."""
FEW_TAPS = 25
"""With more, matrix units are faster where there are any, although pictures are then copied into a tensor first."""
ROOM = 8
"""Slices of local memory for each invocation of a work-group: 32 KiB for 256."""


class Tile(NamedTuple):
    """What a work-group computes: ``across`` blocks of ``pixels`` by ``slices`` in each of ``rows`` rows."""

    pixels: int
    slices: int
    across: int
    rows: int

    def patch(self, window: Window) -> tuple[int, int]:
        """Width and height of what it reads."""
        sizes = zip((self.rows, self.across * self.pixels), window.size, window.strides, window.dilations, strict=True)
        height, width = (
            (outputs - 1) * stride + (taps - 1) * dilation + 1 for outputs, taps, stride, dilation in sizes
        )
        return width, height


def choose_tile(rows: int, columns: int, out: int, window: Window, weights: int, target: Target) -> Tile | None:
    """For ``rows`` (of all pictures) by ``columns`` outputs of ``out`` slices: the largest blocks of which there are
    enough, in the tile that reads the fewest pixels an output; beside ``weights`` slices if they have room, or else
    without. None where no tile has room, or where outputs are so few that their sums are better split.
    """
    for room in (ROOM * target.group_size - weights, ROOM * target.group_size):
        for pixels, depth in SIZES:
            enough = 2 * rows * -(-columns // pixels) * -(-out // depth) * BUSY >= target.invocations
            if pixels > columns or depth > out or not enough:
                continue
            blocks = max(target.group_size // -(-out // depth), 1)
            heights = [1 << i for i in range(blocks.bit_length())]
            group_count = [
                Tile(pixels, depth, min(blocks // height, -(-columns // pixels)), height) for height in heights
            ]
            fitting = [tile for tile in group_count if _area(tile, window) <= room]
            if fitting:
                return min(fitting, key=lambda tile: _area(tile, window) / (tile.across * tile.pixels * tile.rows))
    return None


def _area(tile: Tile, window: Window) -> int:
    width, height = tile.patch(window)
    return width * height


def launch_patches(
    lowering: Lowering, source: TensorId, window: Window, arrays: Mapping[str, PackedArray]
) -> Launch | None:
    """One dispatch, with the "weights" and "bias" of conv.py; None where local memory is too small for the window."""
    _, height, width, _ = lowering.shape(source)
    batch, rows, columns, channels = lowering.shape(lowering.outputs[0])
    weights = arrays["weights"].rows
    tile = choose_tile(batch * rows, columns, slices(channels), window, weights, lowering.target)
    if tile is None:
        return None
    patch_width, patch_height = tile.patch(window)
    area = patch_width * patch_height
    staged = weights if area + weights <= ROOM * lowering.group_size else 0
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
