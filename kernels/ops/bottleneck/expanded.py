"""A 1x1 convolution and the depthwise convolution that reads it, as one dispatch if that is faster than two.

MobileNets expand a tensor to six times its channels, filter those, and reduce them again. A work-group expands the
pixels that its tile reaches into local memory, so that the large tensor between the two is in no other memory.
delegate/transform/separable.py makes the operation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from ...operation import FusedOp, Fusion, Launch, Lowering, Operation, SliceOwnership
from ...target import Target, TuningChoice
from ...tensor import FLOAT_MAX, Shape, TensorId, slices
from ..convolution.conv import Convolution, launch_convolution
from ..convolution.depthwise import Depthwise
from ..convolution.heuristics import UNIT_INVOCATIONS
from ..convolution.matrix_conv import WARP, MatrixTile, uses_matrix_units
from ..convolution.packing import pack_bias, pack_depthwise, pack_fragments
from ..convolution.separable import (
    CLAMPS,
    Pair,
    Rounding,
    Separable,
    epilogue_between,
    is_one_step,
    pack_bias_between,
)
from ..window import Window

ACTIVATIONS = {**CLAMPS, ("HARD_SWISH",): (-FLOAT_MAX, FLOAT_MAX)}
"""The activations that may stand between the two, with the range to which they clamp."""
TILE_SLICES, RUNS, COLUMNS = (2, 4, 8, 16), (1, 2, 4), (1, 2)
"""Sizes of tiles that are compared: slices, neighbouring pixels of an invocation, and a warp's eights of channels."""
FRAGMENTS_AT_ONCE = 24
"""Slices that an invocation loads at once, of four numbers each: 96 registers. A limit, not measured."""

MOST_CLOCKS = 2600
"""The longest estimated time for which one step is faster than two. Blocks of hand, pose and selfie are below it; 33x33
pixels of 48 channels expanded to 288 are at 3300, and took 7.7 us in place of 6.3 inside deeplab (H200, OpenCL in one
dispatch, 2026-11-22, ``benchmarks/inside.py``).
"""


@dataclass(frozen=True)
class Expanded(Operation):
    """``expansion`` is a 1x1 convolution. ``activation``, a key of ACTIVATIONS, or ``rounding`` follows it, and
    ``filter`` reads the result. If ``added`` is not None, it is the activation after a depthwise filter, a key of
    CLAMPS, and the input of the filter is added to its result.
    """

    expansion: Convolution
    activation: tuple[str, ...]
    filter: Depthwise | Separable
    rounding: Rounding | None = None
    added: tuple[str, ...] | None = None

    @property
    def depthwise(self) -> Depthwise:
        """The depthwise convolution behind the expansion."""
        return self.filter if isinstance(self.filter, Depthwise) else self.filter.depthwise

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return self.filter.output_shapes(self.expansion.output_shapes(shapes))

    def lower(self, lowering: Lowering) -> list[Launch]:
        batch, height, width, _ = lowering.shape(lowering.inputs[0])
        depth = self.expansion.weights.shape[0]
        filtered = (batch, *self.depthwise.window.output_size(height, width), depth)
        tiles = tile_candidates(self, filtered, lowering.target)
        if not tiles:
            between = lowering.scratch((batch, height, width, depth))
            first = launch_convolution(replace(lowering, outputs=(between,)), lowering.inputs[0], self.expansion)
            epilogue = epilogue_between(self.activation, self.rounding)
            *others, last = self.filter.lower(replace(lowering, inputs=(between,)))
            if self.added is not None:
                added = FusedOp("ADD", cast("int", between))  # an intermediate result of the operation
                last = replace(last, epilogue=(*last.epilogue, *map(FusedOp, self.added), added))
            return [replace(first, epilogue=epilogue), *others, last]
        if isinstance(self.filter, Depthwise):
            return [_launch_joined(lowering, self, lowering.outputs[0], tiles)]
        between = lowering.scratch(filtered)
        first = _launch_joined(lowering, self, between, tiles)
        epilogue = epilogue_between(self.filter.activation, self.filter.rounding)
        return [replace(first, epilogue=epilogue), launch_convolution(lowering, between, self.filter.pointwise)]


class ExpandedTile(NamedTuple):
    """The outputs of a work-group: ``height`` by ``width`` pixels of ``slices`` slices. An invocation filters ``run``
    pixels of a row, and a warp expands 8 * ``columns`` channels at a time.
    """

    height: int
    width: int
    slices: int
    run: int
    columns: int


def tile_candidates(operation: Expanded, filtered: Shape, target: Target) -> tuple[ExpandedTile, ...]:
    """Tiles by their estimated time, the fastest first. Empty if two steps are faster, or if one step is not possible.

    ``filtered`` is the shape behind the depthwise convolution.
    """
    window, depth = operation.depthwise.window, slices(operation.expansion.weights.shape[3])
    fixed = target.fixed.get("expanded")
    if not uses_matrix_units(math.prod(filtered[:3]), target, "expanded") or not _is_admitted(window):
        return ()
    if fixed is not None:
        return (fixed,)
    if isinstance(operation.filter, Separable) and _is_one_pair(operation.filter, filtered, target):
        return ()
    tiles = sorted(_fitting(filtered, window, target), key=lambda t: estimate(filtered, depth, window, t, target))
    fast = tiles and estimate(filtered, depth, window, tiles[0], target) <= MOST_CLOCKS
    return tuple(tiles[:5]) if fast else ()


def _is_admitted(window: Window) -> bool:
    """Whether the kernel has this window: zeros around the picture, and no dilation with a stride."""
    return window.mode == "zero" and (1, 1) in (window.strides, window.dilations)


def _is_one_pair(operation: Separable, filtered: Shape, target: Target) -> bool:
    """Whether the depthwise convolution is one step with the 1x1 convolution behind it."""
    taps, out = math.prod(operation.depthwise.window.size), operation.pointwise.weights.shape[0]
    return is_one_step(Pair(math.prod(filtered[:3]), filtered[2], taps, slices(filtered[3]), slices(out)), target)


def _fitting(filtered: Shape, window: Window, target: Target) -> Iterator[ExpandedTile]:
    """Tiles that fit into local memory."""
    rows, columns = (-(-size // d) for size, d in zip(filtered[1:3], window.dilations, strict=True))
    heights, widths = ({-(-size // n) for n in range(1, size + 1)} for size in (rows, columns))
    counts = [count for count in TILE_SLICES if count < 2 * slices(filtered[3])]
    for height, width, count in itertools.product(sorted(heights), sorted(widths), counts):
        tile = ExpandedTile(height, width, count, 1, 1)
        if _local_slices(window, tile) > target.local_bytes // 32:
            continue
        for run, eights in itertools.product(RUNS, COLUMNS):
            if run <= width and 2 * eights <= count:
                yield tile._replace(run=run, columns=eights)


def patch_size(window: Window, tile: ExpandedTile) -> tuple[int, int]:
    """The height and width of the pixels that the windows of a tile reach."""
    height, width = window.size
    return (tile.height - 1) * window.strides[0] + height, (tile.width - 1) * window.strides[1] + width


def _local_slices(window: Window, tile: ExpandedTile) -> int:
    """The slices of local memory for the expanded pixels and for the weights of the window."""
    return (math.prod(patch_size(window, tile)) + math.prod(window.size)) * tile.slices


def _tiles(filtered: Shape, window: Window, tile: ExpandedTile) -> tuple[int, int, int, int]:
    """The numbers of tiles: of pictures, below one another, side by side, and of slices."""
    batch, rows, columns, channels = filtered
    down, across = window.dilations
    height, width = down * tile.height, across * tile.width
    return batch, down * -(-rows // height), across * -(-columns // width), -(-slices(channels) // tile.slices)


def _units(window: Window, tile: ExpandedTile) -> tuple[int, int]:
    """The tiles of a warp in the first half: of 16 pixels, and of channels."""
    return -(-math.prod(patch_size(window, tile)) // 16), -(-tile.slices // (2 * tile.columns))


def estimate(filtered: Shape, depth: int, window: Window, tile: ExpandedTile, target: Target) -> float:
    """The time of all tiles in clocks of a compute unit, by which tiles are compared: loads, products, and sums.

    In one clock a unit loads 64 bytes from the L2 cache and 128 from local memory (data sheet of the H200), and does a
    sixth of a step of its matrix units (16 pixels, 8 channels, four slices). 300 clocks are added for each round of the
    warps.
    """
    patch, warps = math.prod(patch_size(window, tile)), target.group_size // WARP
    down, across = _units(window, tile)
    rounds, runs = -(-down * across // warps), -(-tile.width // tile.run)
    loads = 16 * (patch * depth * across + 2 * depth * tile.slices) / 64
    products = rounds * warps * -(-depth // 4) * tile.columns * 6
    items = -(-tile.height * runs * tile.slices // target.group_size) * target.group_size
    reads = window.size[0] * ((tile.run - 1) * window.strides[1] + window.size[1])
    sums = items * max(reads * 16, math.prod(window.size) * tile.run * 4) / 128
    units = max(target.invocations // UNIT_INVOCATIONS, 1)
    tiles = -(-math.prod(_tiles(filtered, window, tile)) // units)
    return 300 * rounds + tiles * (loads + products + sums)


def _launch_joined(
    lowering: Lowering, operation: Expanded, destination: TensorId, tiles: tuple[ExpandedTile, ...]
) -> Launch:
    _, height, width, channels = lowering.shape(lowering.inputs[0])
    filtered, window, target = lowering.shape(destination), operation.depthwise.window, lowering.target
    depth, out = slices(channels), filtered[3]
    key = f"expanded {(*filtered, depth, *window.size, *window.strides, *window.dilations)}"
    choice = TuningChoice[ExpandedTile](key, tiles)
    tile = target.take(choice)
    steps = -(-depth // 4)
    batches = -(-steps // (FRAGMENTS_AT_ONCE // (2 + tile.columns)))
    fragments = MatrixTile(1, tile.columns, 1, -(-steps // batches))
    constants = window.constants(height, width) | _division(filtered, window, tile, lowering.group_size)
    rounding = operation.rounding
    low, high = ACTIVATIONS[operation.activation] if rounding is None else (rounding.lowest, rounding.highest)
    out_low, out_high = CLAMPS[operation.added or ()]
    constants |= {
        "ADDS": int(operation.added is not None), "OUT_LOW": out_low, "OUT_HIGH": out_high,
        "BATCH": fragments.batch, "BATCHES": batches, "PACKED_COLUMNS": -(-out // 8), "LOW": low, "HIGH": high,
        "HARD_SWISH": int(operation.activation == ("HARD_SWISH",)), "IN_STEPS": int(rounding is not None),
    }  # fmt: skip
    arrays = {
        "weights": pack_fragments(operation.expansion.weights, fragments),
        "bias": pack_bias_between(operation.expansion.bias, rounding, out),
        "depth_weights": pack_depthwise(operation.depthwise.weights),
        "depth_bias": pack_bias(operation.depthwise.bias, out),
    }
    local = (
        ("float4", "middle", math.prod(patch_size(window, tile)) * tile.slices),
        ("float4", "window", math.prod(window.size) * tile.slices),
        ("float4", "exchange", 1 if target.matrix_units else 3 * lowering.group_size),
    )
    own = SliceOwnership(tile.slices, tile.slices * int(constants["SLICE_TILES"]))
    return Launch(
        "expanded", {"src": lowering.inputs[0]}, {"dst": destination}, math.prod(_tiles(filtered, window, tile)),
        constants, arrays, local, choice=choice, fusion=Fusion(slice_ownership=own),
    )  # fmt: skip


def _division(filtered: Shape, window: Window, tile: ExpandedTile, group_size: int) -> dict[str, int | float]:
    """The constants by which work-groups divide the outputs, and warps a tile."""
    _, down, across, slice_tiles = _tiles(filtered, window, tile)
    (patch_height, patch_width), (pixel_tiles, column_tiles) = patch_size(window, tile), _units(window, tile)
    return {
        "TILE_H": tile.height, "TILE_W": tile.width, "SLICES": tile.slices, "RUN": tile.run,
        "RUNS": -(-tile.width // tile.run), "PATCH_H": patch_height, "PATCH_W": patch_width,
        "TILES_Y": down, "TILES_X": across, "SLICE_TILES": slice_tiles, "COLUMNS": tile.columns,
        "COLUMN_TILES": column_tiles, "UNITS": pixel_tiles * column_tiles,
        "ROUNDS": -(-pixel_tiles * column_tiles // (group_size // WARP)),
    }  # fmt: skip
