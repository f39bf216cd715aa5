"""Two separable convolutions, one behind the other, as one dispatch if that is faster than two.

A work-group computes the first one for all pixels that the second one's windows reach in its tile. Some pixels are
computed several times, but the tensor between the two stays in local memory. delegate/transform/separable.py makes the
operation.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, cast

import numpy as np

from ...operation import FusedOp, Launch, LocalArrays, Lowering, Operation
from ...target import Target, TuningChoice
from ...tensor import TensorId, slices
from ..convolution.heuristics import BOTTLENECK_CANDIDATES, UNIT_INVOCATIONS, Size, tile_lengths
from ..convolution.matrix_conv import WARP, MatrixTile, uses_matrix_units
from ..convolution.packing import pack_bias, pack_depthwise, pack_fragments
from ..convolution.separable import CLAMPS, Separable

MOST_PRODUCTS = 128
"""The most products of a 1x1 convolution, slices before it times slices behind it, for which one step is faster.

In us with one step and with two, in one dispatch on OpenCL (H200, 2026-11-22, ``benchmarks/inside.py``): 64x64 pixels
of 24 to 28 channels 5.1 and 6.2, 32x32 of 32 to 42 4.2 and 5.5, 128x128 of 8 5.4 and 7.3, 256x256 of 8 7.6 and 9.9;
but 16x16 of 64 to 80 5.5 and 5.6, 8x8 of 96 7.2 and 5.1, 4x4 of 192 12.8 and 6.1.
"""


@dataclass(frozen=True)
class SeparablePair(Operation):
    """Two separable convolutions, whose windows keep the height and width. ``residual`` adds the first one's input to
    its result, before ``activation``, a key of CLAMPS. ``next_residual`` does so for the second one, before the node's
    epilogue.
    """

    limits_errors: ClassVar[bool] = True

    first: Separable
    residual: FusedOp | None
    activation: tuple[str, ...]
    second: Separable
    next_residual: FusedOp | None

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return self.second.output_shapes(self.first.output_shapes(shapes))

    def lower(self, lowering: Lowering) -> list[Launch]:
        source, (batch, height, width, channels) = lowering.inputs[0], lowering.shape(lowering.inputs[0])
        sizes = Sizes(
            batch, height, width, slices(channels), slices(self.first.pointwise.weights.shape[0]),
            slices(self.second.pointwise.weights.shape[0]), self.first.depthwise.window.size,
            self.second.depthwise.window.size,
        )  # fmt: skip
        tiles = tile_candidates(sizes, lowering.target)
        if tiles:
            return [_launch_joined(lowering, self, sizes, tiles)]
        between = lowering.scratch((batch, height, width, self.first.pointwise.weights.shape[0]))
        first = self.first.lower(replace(lowering, outputs=(between,)))
        added = _added(self.residual, source)
        first[-1] = replace(first[-1], epilogue=(*first[-1].epilogue, *added, *map(FusedOp, self.activation)))
        second = self.second.lower(replace(lowering, inputs=(between,)))
        second[-1] = replace(second[-1], epilogue=(*second[-1].epilogue, *_added(self.next_residual, between)))
        return [*first, *second]


def _added(residual: FusedOp | None, tensor: TensorId) -> tuple[FusedOp, ...]:
    """The sum with a tensor, which may be an intermediate result of the operation."""
    return () if residual is None else (replace(residual, operand=cast("int", tensor)),)


class PairTile(NamedTuple):
    """The pixels of a work-group."""

    height: int
    width: int


class Sizes(NamedTuple):
    """The sizes that decide about tiles: pictures, rows and columns; slices before, between and behind the two; and
    their windows.
    """

    batch: int
    height: int
    width: int
    depth: int
    middle: int
    out: int
    window: tuple[int, int]
    next_window: tuple[int, int]

    def patch(self, height: Size, width: Size) -> tuple[Size, Size]:
        """The height and width of the pixels that the second windows of a tile reach."""
        return height + self.next_window[0] - 1, width + self.next_window[1] - 1

    def tiles(self, height: Size, width: Size) -> tuple[Size, Size]:
        """The numbers of tiles: below one another, and side by side."""
        return -(-self.height // height), -(-self.width // width)


def tile_candidates(sizes: Sizes, target: Target) -> tuple[PairTile, ...]:
    """Tiles by their estimated time, the fastest first; none if two steps are faster."""
    fixed = target.fixed.get("separable_pair")
    if fixed is not None:
        return (fixed,)
    pixels = sizes.batch * sizes.height * sizes.width
    if not uses_matrix_units(pixels, target) or sizes.middle * max(sizes.depth, sizes.out) > MOST_PRODUCTS:
        return ()
    height, width = _fitting(sizes, target)
    fastest = np.lexsort((height * width, estimate(sizes, height, width, target)))[:BOTTLENECK_CANDIDATES]
    tiles = tuple(itertools.starmap(PairTile, zip(height[fastest].tolist(), width[fastest].tolist(), strict=True)))
    resident = 2 * max(target.invocations // UNIT_INVOCATIONS, 1)
    return tiles if tiles and sizes.batch * math.prod(sizes.tiles(*tiles[0])) <= resident else ()


def _fitting(sizes: Sizes, target: Target) -> tuple[np.ndarray, np.ndarray]:
    """The heights and widths of tiles that fit into local memory."""
    height, width = np.meshgrid(tile_lengths(sizes.height), tile_lengths(sizes.width), indexing="ij")
    room = target.local_bytes * 2 // 3 // 16 - 2 * (target.group_size + 4)
    middle, *filtered = _local_slices(sizes, height, width)
    fits = middle + np.maximum(*filtered) <= room
    return height[fits], width[fits]


def _local_slices(sizes: Sizes, height: Size, width: Size) -> tuple[Size, Size, Size]:
    """The slices of local memory between the two, and behind each of the depthwise convolutions."""
    patch_height, patch_width = sizes.patch(height, width)
    patch = patch_height * patch_width
    return patch * sizes.middle, patch * sizes.depth, height * width * sizes.middle


def estimate(sizes: Sizes, height: np.ndarray, width: np.ndarray, target: Target) -> np.ndarray:
    """The times of all tiles in clocks of a compute unit, by which tiles are compared: the windows of the first, which
    read what other units wrote, the products of matrix units, the windows of the second, and the weights.
    """
    patch, pixels = math.prod(sizes.patch(height, width)), height * width
    windows = 0.35 * patch * sizes.depth * math.prod(sizes.window)
    windows += 0.2 * pixels * sizes.middle * math.prod(sizes.next_window)
    products = -(-patch // 16) * -(-sizes.middle // 2) * -(-sizes.depth // 4)
    products += -(-pixels // 16) * -(-sizes.out // 2) * -(-sizes.middle // 4)
    weights = (sizes.depth + sizes.out) * sizes.middle / 2
    units = max(target.invocations // UNIT_INVOCATIONS, 1)
    return -(-sizes.batch * math.prod(sizes.tiles(height, width)) // units) * (windows + 6 * products + weights)


def _launch_joined(lowering: Lowering, operation: SeparablePair, sizes: Sizes, tiles: tuple[PairTile, ...]) -> Launch:
    key = f"separable_pair {(*sizes[:6], *sizes.window, *sizes.next_window)}"
    choice = TuningChoice(key, tiles)
    tile, warps = lowering.target.take(choice), lowering.group_size // WARP
    first, second = operation.first, operation.second
    window, next_window = (each.depthwise.window.constants(sizes.height, sizes.width) for each in (first, second))
    middle, out = first.pointwise.weights.shape[0], second.pointwise.weights.shape[0]
    patch, (down, across) = sizes.patch(*tile), sizes.tiles(*tile)
    inner, inner_fragments = _inner_products(sizes, tile, warps)
    outer, outer_fragments = _outer_products(sizes, tile, warps)
    constants = {
        **window, "NEXT_H": sizes.next_window[0], "NEXT_W": sizes.next_window[1],
        "NEXT_TOP": next_window["PAD_TOP"], "NEXT_LEFT": next_window["PAD_LEFT"],
        "TILE_H": tile.height, "TILE_W": tile.width, "PATCH_H": patch[0], "PATCH_W": patch[1],
        "TILES_Y": down, "TILES_X": across, "SLICES": sizes.middle, **inner, **outer,
        "RESIDUAL": int(operation.residual is not None), "NEXT_RESIDUAL": int(operation.next_residual is not None),
    }  # fmt: skip
    clamps = {"DEPTH_": first.activation, "": operation.activation, "NEXT_DEPTH_": second.activation}
    for name, activation in clamps.items():
        constants[f"{name}LOW"], constants[f"{name}HIGH"] = CLAMPS[activation]
    arrays = {
        "depth_weights": pack_depthwise(first.depthwise.weights),
        "depth_bias": pack_bias(first.depthwise.bias, first.depthwise.weights.shape[3]),
        "weights": pack_fragments(first.pointwise.weights, inner_fragments),
        "bias": pack_bias(first.pointwise.bias, middle),
        "next_depth_weights": pack_depthwise(second.depthwise.weights),
        "next_depth_bias": pack_bias(second.depthwise.bias, middle),
        "next_weights": pack_fragments(second.pointwise.weights, outer_fragments),
        "next_bias": pack_bias(second.pointwise.bias, out),
    }
    reads, writes, groups = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}, sizes.batch * down * across
    local = _local_arrays(sizes, tile, outer_fragments, lowering.target)
    return Launch("separable_pair", reads, writes, groups, constants, arrays, local, choice=choice)


def _inner_products(sizes: Sizes, tile: PairTile, warps: int) -> tuple[dict[str, int | float], MatrixTile]:
    """The constants by which warps divide the first 1x1 convolution, and the tile by which its weights are packed."""
    pixel_tiles, eights = -(-math.prod(sizes.patch(*tile)) // 16), -(-sizes.middle // 2)
    columns, steps = 2 if eights > 1 and pixel_tiles * eights > warps else 1, -(-sizes.depth // 4)
    column_tiles = -(-eights // columns)
    return {
        "COLUMNS": columns, "COLUMN_TILES": column_tiles, "UNITS": pixel_tiles * column_tiles,
        "ROUNDS": -(-pixel_tiles * column_tiles // warps), "STEPS": steps, "PACKED_COLUMNS": eights,
    }, MatrixTile(1, columns, 1, steps)  # fmt: skip


def _outer_products(sizes: Sizes, tile: PairTile, warps: int) -> tuple[dict[str, int | float], MatrixTile]:
    """The constants and the tile of the second 1x1 convolution. Several warps share its sums if there are more warps
    than tiles.
    """
    pixel_tiles, eights, steps = -(-math.prod(tile) // 16), -(-sizes.out // 2), -(-sizes.middle // 4)
    columns, split = 2 if eights > 1 and pixel_tiles * eights > warps else 1, 1
    units = pixel_tiles * -(-eights // columns)
    while 2 * split * units <= warps and 2 * split <= steps:
        split *= 2
    share = -(-steps // split)
    return {
        "SPLIT": split, "OUT_GROUP": warps // split, "OUT_UNITS": units, "OUT_ROUNDS": -(-units * split // warps),
        "OUT_TILES": -(-eights // columns), "OUT_COLUMNS": columns, "OUT_STEPS": share, "OUT_PACKED": eights,
    }, MatrixTile(1, columns, split, share)  # fmt: skip


def _local_arrays(sizes: Sizes, tile: PairTile, outer: MatrixTile, target: Target) -> LocalArrays:
    middle, *filtered = _local_slices(sizes, *tile)
    exchange = 1 if target.matrix_units else 3 * target.group_size
    return (
        ("float4", "middle", middle), ("float4", "filtered", max(filtered)),
        ("float4", "partial", outer.columns * (target.group_size + 4)), ("float4", "exchange", exchange),
    )  # fmt: skip
