"""CONV_2D with constant weights (OHWI, as in TFLite). computed_conv.py is for computed ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ...operation import (
    Fusion,
    Launch,
    Lowering,
    Operation,
    Parsed,
    SliceOwnership,
    TfliteNode,
    TfliteOp,
    Unsupported,
)
from ...target import TuningChoice
from ...tensor import Shape, TensorId, slices
from ..arguments import INFINITE_SUMS, require_float
from ..window import Window, dilated_window
from .blocks import Block, block_candidates
from .computed_conv import ComputedConvolution, parsed_convolution
from .depthwise import Depthwise
from .fma_conv import FmaTile, fma_choice, fma_clocks, launch_fma_tiles
from .grouped_conv import GroupedConvolution
from .heuristics import (
    FMA_GAIN_BESIDE_ROWS,
    FMA_LEAST_BESIDE_ROWS,
    FMA_LEAST_PRODUCTS,
    FMA_SURE_PRODUCTS,
    MATRIX_LEAST_CLOCKS,
    MATRIX_PRODUCTS_PER_CLOCK,
    PATCH_MOST_TAPS,
    PATCH_SURE_CHANNELS,
    PATCH_SURE_TAPS,
    ROUND_OUTPUTS,
    TILED_LEAST_PICTURE,
    TILED_LEAST_POINTWISE,
    TILED_LEAST_PRODUCTS,
)
from .matrix_conv import (
    MatrixTile,
    matrix_constants,
    matrix_memory,
    matrix_tile_candidates,
    slice_ownership,
    tile_of_halves,
    uses_matrix_units,
)
from .matrix_patch import launch_matrix_patches, uses_patches
from .packing import pack_bias, pack_fragments, pack_weights, whole_slices
from .patch_conv import launch_patches
from .row_conv import RowTile, is_flat, launch_rows, row_clocks, row_tiles
from .tiled_conv import ConvTile, Grid, launch_tiled_convolution, paired, takes_rows, tile_choice
from .warpgroup_choice import warpgroup_choice
from .warpgroup_conv import launch_warpgroups
from .winograd import launch_winograd, winograd_choice


@dataclass(frozen=True)
class Convolution(Operation):
    """``weights`` is (O, H, W, I) and ``bias`` (O,) or None, float32 or float16; arrays compare by identity.

    ``scales``: the weights are whole multiples of these, one scale for all or one per output channel.
    ``integer_weights``: the weights themselves are whole numbers that a half can hold. ``by_bytes``: the input holds
    whole numbers from 0 to 255, of a multiple of eight channels, and weights are from -128 to 127.
    """

    window: Window
    weights: np.ndarray = field(compare=False)
    bias: np.ndarray | None = field(compare=False, default=None)
    scales: tuple[float, ...] = ()
    integer_weights: bool = False
    by_bytes: bool = False

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        batch, height, width, _ = shapes[0]
        return [(batch, *self.window.output_size(height, width), self.weights.shape[0])]

    def lower(self, lowering: Lowering) -> list[Launch]:
        launch = launch_convolution(lowering, lowering.inputs[0], self)
        winograd = self._by_winograd(lowering, launch)
        if winograd:
            return winograd
        fusion = replace(launch.fusion, convolution=self)
        halves = self._by_warpgroups(lowering) or launch_of_halves(lowering, lowering.inputs[0], self, launch)
        return [replace(launch, fusion=fusion, halves=halves)]

    def _by_winograd(self, lowering: Lowering, launch: Launch) -> list[Launch]:
        """The launches with fewer products, if they are faster than the one by tiles of multiply-adds."""
        source, target = lowering.inputs[0], lowering.target
        if launch.choice is None or launch.kernel != "fma_conv" or self.integer_weights:
            return []
        if "fma_conv" in target.fixed and "winograd" not in target.fixed:  # the other kernel was asked for
            return []
        reads, writes = lowering.shape(source), lowering.shape(lowering.outputs[0])
        tile, grid = target.take(launch.choice), Grid((writes[1], writes[2]), slices(writes[3]))
        choice = winograd_choice(lowering, source, self.window, fma_clocks(self.window, reads, grid, tile, target))
        return [] if choice is None else launch_winograd(lowering, source, self.window, self.weights, self.bias, choice)

    def _by_warpgroups(self, lowering: Lowering) -> tuple[Launch, ...]:
        """The launches by warpgroups for halves, if the device has them and they are faster."""
        reads, writes = (lowering.shape(tensor) for tensor in (lowering.inputs[0], lowering.outputs[0]))
        grid = Grid((writes[1], writes[2]), slices(writes[3]))
        most = _clocks_by_warps(reads, writes, self.window)
        least = TILED_LEAST_POINTWISE if math.prod(self.window.size) == 1 else 0  # shorter ones were not measured
        choice = warpgroup_choice(lowering, lowering.inputs[0], self.window, grid, least, most)
        if choice is None or self.by_bytes:
            return ()
        weights, bias = partial(whole_slices, self.weights), pack_bias(self.bias, writes[3])
        return launch_warpgroups(lowering, lowering.inputs[0], self.window, grid, weights, bias, choice)


def launch_of_halves(
    lowering: Lowering, source: TensorId, operation: Convolution, launch: Launch
) -> tuple[Launch, ...]:
    """The launch of a 1x1 window by matrix units that takes the place of ``launch`` if the source is kept as halves;
    none if there is too little work for its tile.
    """
    (batch, rows, columns, channels), depth = lowering.shape(lowering.outputs[0]), slices(lowering.shape(source)[3])
    tile = tile_of_halves(batch * rows * columns, channels, depth, lowering.target)
    pointwise = math.prod(operation.window.size) == 1 and launch.kernel == "matrix_conv" and not operation.by_bytes
    return (_launch_warp_tiles(lowering, source, operation, tile),) if tile is not None and pointwise else ()


def launch_convolution(lowering: Lowering, source: TensorId, operation: Convolution) -> Launch:
    """One dispatch: by patches for at most four input channels; by matrix units if the device has them and the outputs
    fill a tile; else by tiles or rows in local memory, or by blocks.
    """
    reads, writes = lowering.shape(source), lowering.shape(lowering.outputs[0])
    (batch, rows, columns, channels), depth = writes, reads[3]
    taps, units = math.prod(operation.window.size), uses_matrix_units(batch * rows * columns, lowering.target)
    if uses_patches(batch * rows * columns, depth, channels, operation.window, lowering.target):
        patches = launch_matrix_patches(lowering, source, operation.window, operation.weights, operation.bias)
        if patches is not None:
            return patches
    tiled = _tile_choice(lowering, source, operation)
    if tiled is not None:
        return launch_tiled_convolution(
            lowering, source, operation.window, operation.weights, operation.bias, tiled, as_bytes=operation.by_bytes
        )
    tiles = () if units else row_tiles(operation.window, reads, writes, lowering.target)
    if slices(depth) == 1 < taps and (taps <= PATCH_MOST_TAPS or not (units or tiles)):
        arrays = {"weights": pack_weights(operation.weights), "bias": pack_bias(operation.bias, channels)}
        patches = launch_patches(lowering, source, operation.window, arrays)
        if patches is not None:
            return patches
    if not units:
        fma = _fma_choice(lowering, source, operation, tiles)
        if fma is not None:
            return _launch_fma_tiles(lowering, source, operation, fma)
        return _launch_without_matrix_units(lowering, source, operation, tiles)
    return _launch_warp_tiles(lowering, source, operation)


def _tile_choice(lowering: Lowering, source: TensorId, operation: Convolution) -> TuningChoice[ConvTile] | None:
    """The tiles in local memory; None if there is too little work, or another kernel of matrix units is faster."""
    reads, writes, by_bytes = lowering.shape(source), lowering.shape(lowering.outputs[0]), operation.by_bytes
    reads = paired(reads) if by_bytes else reads
    grid, taps = Grid((writes[1], writes[2]), slices(writes[3])), math.prod(operation.window.size)
    if takes_rows(operation.window, reads):
        by_patches = taps <= PATCH_SURE_TAPS and writes[3] <= PATCH_SURE_CHANNELS
        if by_patches and "tiled_conv" not in lowering.target.fixed:
            return None
        return tile_choice(lowering, source, operation.window, grid, TILED_LEAST_PICTURE, as_bytes=by_bytes)
    most = _clocks_by_warps(reads, writes, operation.window)
    least = TILED_LEAST_POINTWISE if taps == 1 else TILED_LEAST_PRODUCTS
    return tile_choice(lowering, source, operation.window, grid, least, most, as_bytes=by_bytes)


def _fma_choice(
    lowering: Lowering, source: TensorId, operation: Convolution, rows: Sequence[RowTile]
) -> TuningChoice[FmaTile] | None:
    """The tiles without matrix units; None if there is too little work, or if rows in local memory are faster."""
    reads, writes, target = lowering.shape(source), lowering.shape(lowering.outputs[0]), lowering.target
    grid, window = Grid((writes[1], writes[2]), slices(writes[3])), operation.window
    choice = fma_choice(lowering, source, window, grid, FMA_LEAST_BESIDE_ROWS if rows else FMA_LEAST_PRODUCTS)
    if choice is None or not rows or "fma_conv" in target.fixed:
        return choice
    if slices(reads[3]) == 1:  # of which rows compute no missing channels
        return None
    products = math.prod(writes) * math.prod(window.size) * reads[3]
    gain = 1.0 if products >= FMA_LEAST_PRODUCTS else FMA_GAIN_BESIDE_ROWS
    by_rows = row_clocks(window, reads, writes, rows[0], target)
    faster = fma_clocks(window, reads, grid, choice.candidates[0], target) < gain * by_rows
    return choice if faster or products >= FMA_SURE_PRODUCTS else None


def _launch_fma_tiles(
    lowering: Lowering, source: TensorId, operation: Convolution, choice: TuningChoice[FmaTile]
) -> Launch:
    """One dispatch by tiles in local memory, without matrix units."""
    _, rows, columns, channels = lowering.shape(lowering.outputs[0])
    grid, padded = Grid((rows, columns), slices(channels)), partial(whole_slices, operation.weights)
    bias = pack_bias(operation.bias, channels)
    return launch_fma_tiles(lowering, source, operation.window, grid, padded, bias, choice)


def _clocks_by_warps(reads: Shape, writes: Shape, window: Window) -> float:
    """An estimate of the clocks that ``_launch_warp_tiles`` takes with halves."""
    return MATRIX_LEAST_CLOCKS + math.prod(writes) * math.prod(window.size) * reads[3] / MATRIX_PRODUCTS_PER_CLOCK


def _launch_warp_tiles(
    lowering: Lowering, source: TensorId, operation: Convolution, first: MatrixTile | None = None
) -> Launch:
    """One dispatch by matrix units, in which each warp loads its own fragments. ``first``: the likeliest tile."""
    (_, height, width, depth), (batch, rows, columns, channels) = (
        lowering.shape(tensor) for tensor in (source, lowering.outputs[0])
    )
    taps, by_bytes = math.prod(operation.window.size), operation.by_bytes
    sizes = (batch * rows * columns, channels, taps, slices(depth // 2 if by_bytes else depth))
    key = f"matrix_conv {sizes}{' bytes' if by_bytes else ' halves' if first else ''}"
    candidates = (*([first] if first else []), *matrix_tile_candidates(*sizes, lowering.target))
    choice = TuningChoice(key, tuple(dict.fromkeys(candidates)))
    tile = lowering.target.take(choice)
    division, group_count = matrix_constants(*sizes, tile, lowering.group_size)
    constants = operation.window.constants(height, width) | division | ({"BYTES": 1} if by_bytes else {})
    mirrored = not (operation.integer_weights or by_bytes)  # whole numbers, which are never infinite, stay whole
    weights = pack_fragments(operation.weights, tile, as_bytes=by_bytes, mirrored=mirrored)
    arrays = {"weights": weights, "bias": pack_bias(operation.bias, channels)}
    local = matrix_memory(tile, lowering.target)
    own = slice_ownership(channels, tile, lowering.group_size)
    fusion = Fusion(
        slice_ownership=own or SliceOwnership(lowering.group_size, 1, slices(channels)),
        reads_per_value=taps * int(division["COLUMN_TILES"]),
    )
    return Launch(
        "matrix_conv", {"src": source}, {"dst": lowering.outputs[0]}, group_count, constants, arrays, local,
        choice=choice, fusion=fusion,
    )  # fmt: skip


def _launch_without_matrix_units(
    lowering: Lowering, source: TensorId, operation: Convolution, tiles: Sequence[RowTile]
) -> Launch:
    """One dispatch: by rows of pixels in local memory if there are ``tiles`` for that; else by blocks of pixels and
    slices.
    """
    reads, writes, window = lowering.shape(source), lowering.shape(lowering.outputs[0]), operation.window
    (batch, rows, columns, channels), depth = writes, reads[3]
    rows, columns = (1, batch * rows * columns) if is_flat(reads, window) else (batch * rows, columns)
    sizes = (rows, columns, slices(channels), window.size[0] * window.size[1], slices(depth))
    blocks = block_candidates(*sizes, lowering.target)
    key = f"conv {sizes} {reads} {window.size} {window.strides} {window.dilations}"
    choice = TuningChoice(key, (*tiles, *blocks))
    taken = lowering.target.take(choice)
    if isinstance(taken, RowTile):
        arrays = {"weights": pack_weights(operation.weights), "bias": pack_bias(operation.bias, channels)}
        return launch_rows(lowering, source, window, arrays, taken, choice)
    return _launch_blocks(lowering, source, operation, taken, choice)


def _launch_blocks(
    lowering: Lowering, source: TensorId, operation: Convolution, block: Block, choice: TuningChoice[Any]
) -> Launch:
    batch, height, width, _ = lowering.shape(source)
    _, rows, columns, channels = lowering.shape(lowering.outputs[0])
    window = operation.window
    constants = window.constants(height, width)
    flat = is_flat(lowering.shape(source), window)
    rows, columns = (1, batch * rows * columns) if flat else (rows, columns)
    pictures = 1 if flat else batch
    arrays = {"weights": pack_weights(operation.weights), "bias": pack_bias(operation.bias, channels)}
    step, row_blocks = -(-slices(channels) // block.slices), -(-columns // block.pixels)
    blocks, outputs = pictures * rows * row_blocks * step, block.pixels * block.slices
    if block.split > 1 and not lowering.target.matrix_units:
        outputs = math.gcd(outputs, ROUND_OUTPUTS)
    constants |= {
        "PIXELS": block.pixels, "SLICES": block.slices, "SPLIT": block.split, "SPLIT_SLICES": block.split_slices,
        "SLICE_STEP": step, "ROW_BLOCKS": row_blocks, "ROWS": rows, "COLUMNS": columns, "BLOCKS": blocks,
        "FLAT": int(flat), "ROUND": outputs,
    }  # fmt: skip
    local = (("float4", "partial", lowering.group_size * outputs if block.split > 1 else 1),)
    lanes = lowering.group_size // block.split
    reads, writes, group_count = {"src": source}, {"dst": lowering.outputs[0]}, -(-blocks // lanes)
    own = SliceOwnership(lanes, step, block.slices)
    fusion = Fusion(slice_ownership=own, reads_per_value=math.prod(window.size) * step)
    return Launch("conv", reads, writes, group_count, constants, arrays, local, choice=choice, fusion=fusion)


def _parse_convolution(node: TfliteNode) -> Parsed:
    require_float(*node.inputs, *node.outputs)
    source, weights = node.inputs[0], node.inputs[1]
    if source is None or weights is None or len(source.shape) != 4 or len(weights.shape) != 4:
        raise Unsupported("input and weights must have rank 4")
    out, height, width, share = weights.shape
    groups, rest = divmod(source.shape[3], max(share, 1))
    if rest or groups == 0 or out % groups:
        raise Unsupported(f"weights of shape {weights.shape} do not divide {source.shape[3]} channels into groups")
    window = dilated_window(node, (height, width))
    constant = partial(_constant_convolution, window, groups, weights.scales)
    return parsed_convolution(node, weights, out, ComputedConvolution(window, groups, out), constant)


def _constant_convolution(
    window: Window, groups: int, scales: tuple[float, ...], weights: np.ndarray, bias: np.ndarray | None
) -> Operation:
    """The operation for OHWI weights of ``groups``: with one channel per group it is a depthwise convolution."""
    if groups == 1:
        return Convolution(window, weights, bias, scales)
    if weights.shape[3] == 1:
        return Depthwise(window, weights.shape[0] // groups, weights.transpose(3, 1, 2, 0), bias, scales)
    return GroupedConvolution(window, weights, bias, groups=groups)


TFLITE = (
    TfliteOp(
        "CONV_2D", _parse_convolution, max_version=8, inputs=2, optional=(2,), channel_axis=0, real_integers=(2,),
        unlike_litert=INFINITE_SUMS,
    ),
)  # fmt: skip
