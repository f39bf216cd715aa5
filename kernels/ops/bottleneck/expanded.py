"""A 1x1 convolution and the depthwise convolution that reads it, as one dispatch if that is faster than two.

MobileNets expand a tensor to six times its channels, filter those, and reduce them again. A work-group expands the
pixels that its tile reaches into local memory, so that the large tensor between the two is in no other memory.
delegate/transform/separable.py makes the operation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, NamedTuple, cast

import numpy as np

from ...operation import FusedOp, Fusion, Launch, Lowering, Operation, SliceOwnership
from ...target import Target, TuningChoice
from ...tensor import FLOAT_MAX, Shape, TensorId, slices
from ..convolution.conv import Convolution, launch_convolution
from ..convolution.depthwise import Depthwise
from ..convolution.heuristics import BOTTLENECK_CANDIDATES, UNIT_INVOCATIONS, Size, tile_lengths
from ..convolution.matrix_conv import WARP, MatrixTile, uses_matrix_units
from ..convolution.packing import pack_bias, pack_depthwise, pack_fragments
from ..convolution.separable import CLAMPS, Pair, Rounding, Separable, epilogue_between, is_one_step, pack_bias_between
from ..window import Window
from .inverted import Expansion, launch_inverted

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

    limits_errors: ClassVar[bool] = True

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
        whole = self._in_one_step(lowering)
        if whole is not None:
            return [whole]
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

    def _in_one_step(self, lowering: Lowering) -> Launch | None:
        """The launch of all three convolutions; None if others are faster."""
        if isinstance(self.filter, Depthwise) or self.rounding or self.filter.rounding:
            return None
        expansion = Expansion(self.expansion, ACTIVATIONS[self.activation], self.activation == ("HARD_SWISH",))
        return launch_inverted(lowering, expansion, self.filter)


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
    return _fastest_tiles(filtered, depth, window, target)


def _is_admitted(window: Window) -> bool:
    """Whether the kernel has this window: zeros around the picture, and no dilation with a stride."""
    return window.mode == "zero" and (1, 1) in (window.strides, window.dilations)


def _is_one_pair(operation: Separable, filtered: Shape, target: Target) -> bool:
    """Whether the depthwise convolution is one step with the 1x1 convolution behind it."""
    taps, out = math.prod(operation.depthwise.window.size), operation.pointwise.weights.shape[0]
    return is_one_step(Pair(math.prod(filtered[:3]), filtered[2], taps, slices(filtered[3]), slices(out)), target)


@lru_cache(maxsize=256)
def _fastest_tiles(filtered: Shape, depth: int, window: Window, target: Target) -> tuple[ExpandedTile, ...]:
    """Tiles by their estimated time, the fastest first. Results are kept, because networks repeat their blocks."""
    sizes, run, columns = _fitting(filtered, window, target), np.array(RUNS)[:, None], np.array(COLUMNS)
    height, width, count = sizes[..., None, None]
    times = estimate(filtered, depth, window, (height, width, count, run, columns), target)
    times[(run > width) | (2 * columns > count)] = np.inf
    found: list[ExpandedTile] = []
    if times.min(initial=np.inf) <= MOST_CLOCKS:
        for _ in range(min(BOTTLENECK_CANDIDATES, np.isfinite(times).sum())):
            size, i, j = place = np.unravel_index(times.argmin(), times.shape)  # the first of equal times
            found.append(ExpandedTile._make((*sizes[:, size].tolist(), RUNS[i], COLUMNS[j])))
            times[place] = np.inf
    return tuple(found)


def _fitting(filtered: Shape, window: Window, target: Target) -> np.ndarray:
    """The heights, widths and slices of tiles that fit into local memory, in three rows."""
    rows, columns = (-(-size // d) for size, d in zip(filtered[1:3], window.dilations, strict=True))
    counts = [count for count in TILE_SLICES if count < 2 * slices(filtered[3])]
    axes = np.array(tile_lengths(rows)), np.array(tile_lengths(columns)), np.array(counts)
    height, width, count = np.ix_(*axes)
    fits = _local_slices(window, height, width, count) <= target.local_bytes // 32
    return np.stack([axis[places] for axis, places in zip(axes, np.nonzero(fits), strict=True)])


def patch_size(window: Window, height: Size, width: Size) -> tuple[Size, Size]:
    """The height and width of the pixels that the windows of a tile reach."""
    rows, columns = window.size
    return (height - 1) * window.strides[0] + rows, (width - 1) * window.strides[1] + columns


def _local_slices(window: Window, height: Size, width: Size, count: Size) -> Size:
    """The slices of local memory for the expanded pixels and for the weights of the window."""
    return (math.prod(patch_size(window, height, width)) + math.prod(window.size)) * count


def _tile_counts(
    filtered: Shape, window: Window, height: Size, width: Size, count: Size
) -> tuple[int, Size, Size, Size]:
    """The numbers of tiles: of pictures, below one another, side by side, and of slices."""
    batch, rows, columns, channels = filtered
    down, across = window.dilations
    below, beside = down * -(-rows // (down * height)), across * -(-columns // (across * width))
    return batch, below, beside, -(-slices(channels) // count)


def _units(patch: Size, count: Size, columns: Size) -> tuple[Size, Size]:
    """The tiles of a warp in the first half: of 16 pixels, and of channels."""
    return -(-patch // 16), -(-count // (2 * columns))


def estimate(filtered: Shape, depth: int, window: Window, tiles: tuple[np.ndarray, ...], target: Target) -> np.ndarray:
    """The time with each tile in clocks of a compute unit, by which tiles are compared: loads, products, and sums.
    ``tiles`` has an array for each field of ExpandedTile; these broadcast to one shape.

    In one clock a unit loads 64 bytes from the L2 cache and 128 from local memory (data sheet of the H200), and does a
    sixth of a step of its matrix units (16 pixels, 8 channels, four slices). 300 clocks are added for each round of the
    warps.
    """
    height, width, count, run, columns = tiles
    patch_height, patch_width = patch_size(window, height, width)
    patch, warps = patch_height * patch_width, target.group_size // WARP
    down, across = _units(patch, count, columns)
    rounds, runs = -(-down * across // warps), -(-width // run)
    loads = 16 * (patch * depth * across + 2 * depth * count) / 64
    products = rounds * warps * -(-depth // 4) * columns * 6
    items = -(-height * runs * count // target.group_size) * target.group_size
    reads = window.size[0] * ((run - 1) * window.strides[1] + window.size[1])
    sums = items * np.maximum(reads * 16, math.prod(window.size) * run * 4) / 128
    units = max(target.invocations // UNIT_INVOCATIONS, 1)
    turns = -(-math.prod(_tile_counts(filtered, window, height, width, count)) // units)
    return 300 * rounds + turns * (loads + products + sums)


def _launch_joined(
    lowering: Lowering, operation: Expanded, destination: TensorId, tiles: tuple[ExpandedTile, ...]
) -> Launch:
    _, height, width, channels = lowering.shape(lowering.inputs[0])
    filtered, window, target = lowering.shape(destination), operation.depthwise.window, lowering.target
    depth, out = slices(channels), filtered[3]
    key = f"expanded {(*filtered, depth, *window.size, *window.strides, *window.dilations)}"
    choice = TuningChoice(key, tiles)
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
        ("float4", "middle", math.prod(patch_size(window, tile.height, tile.width)) * tile.slices),
        ("float4", "window", math.prod(window.size) * tile.slices),
        ("float4", "exchange", 1 if target.matrix_units else 3 * lowering.group_size),
    )
    own = SliceOwnership(tile.slices, tile.slices * int(constants["SLICE_TILES"]))
    group_count = math.prod(_tile_counts(filtered, window, *tile[:3]))
    return Launch(
        "expanded", {"src": lowering.inputs[0]}, {"dst": destination}, group_count, constants, arrays, local,
        choice=choice, fusion=Fusion(slice_ownership=own),
    )  # fmt: skip


def _division(filtered: Shape, window: Window, tile: ExpandedTile, group_size: int) -> dict[str, int | float]:
    """The constants by which work-groups divide the outputs, and warps a tile."""
    _, down, across, slice_tiles = _tile_counts(filtered, window, *tile[:3])
    patch_height, patch_width = patch_size(window, tile.height, tile.width)
    pixel_tiles, column_tiles = _units(patch_height * patch_width, tile.slices, tile.columns)
    return {
        "TILE_H": tile.height, "TILE_W": tile.width, "SLICES": tile.slices, "RUN": tile.run,
        "RUNS": -(-tile.width // tile.run), "PATCH_H": patch_height, "PATCH_W": patch_width,
        "TILES_Y": down, "TILES_X": across, "SLICE_TILES": slice_tiles, "COLUMNS": tile.columns,
        "COLUMN_TILES": column_tiles, "UNITS": pixel_tiles * column_tiles,
        "ROUNDS": -(-pixel_tiles * column_tiles // (group_size // WARP)),
    }  # fmt: skip
