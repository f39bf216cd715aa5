"""3x3 convolutions by Winograd's F(4x4, 3x3): winograd_input.kern, fma_conv.kern and winograd_output.kern.

A tile of 4x4 results takes 36 products in place of 144: of the 36 values that B^T d B makes of 6x6 pixels, and of
those that G g G^T makes of the weights. They are 36 products of matrices. This is for devices without matrix units,
and if 16 bits are allowed: rounding errors are about ten times those of plain sums of floats, and an infinite pixel
makes NaN of the tiles that read it.

Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (arXiv:1509.09308).
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ...operation import Fusion, Launch, Lowering, SliceOwnership
from ...target import Target, TuningChoice
from ...tensor import Shape, TensorId, slices
from ..window import Window
from .fma_conv import FmaTile, fma_clocks, fma_tiles, launch_fma_tiles
from .heuristics import (
    WINOGRAD_LAUNCH_CLOCKS,
    WINOGRAD_LEAST_PRODUCTS,
    WINOGRAD_LEAST_SLICES,
    WINOGRAD_MOST_BYTES,
    WINOGRAD_PRODUCTS_FACTOR,
    WINOGRAD_READS,
    WINOGRAD_SLICE_CLOCKS,
)
from .packing import pack_bias, whole_slices
from .tiled_conv import Grid

SIDE, SETS = 4, 36
"""The results of a side of a tile, and the values that are multiplied for it."""
WEIGHTS = np.array(
    [[1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6], [1 / 24, 1 / 12, 1 / 6],
     [1 / 24, -1 / 12, 1 / 6], [0, 0, 1]]
)  # fmt: skip
"""G: what is multiplied, by rows, of the three weights of a row or a column."""
POINTWISE = Window((1, 1), (1, 1))


def winograd_choice(lowering: Lowering, source: TensorId, window: Window, most: float) -> TuningChoice[FmaTile] | None:
    """The tiles of the products; None if the window is another one, or if the convolution is estimated to take more
    than ``most`` clocks.
    """
    reads, writes, target = lowering.shape(source), lowering.shape(lowering.outputs[0]), lowering.target
    plain = window.size == (3, 3) and window.strides == window.dilations == (1, 1)
    if not plain or not target.halves:
        return None
    if "winograd" in target.fixed:
        fixed = target.fixed["winograd"]
        return TuningChoice("winograd", (fixed,)) if isinstance(fixed, FmaTile) else None
    (grid, shape), depths = _products(reads, writes), (slices(reads[3]), slices(writes[3]))
    nbytes = 16 * math.prod(shape[:3]) * sum(depths)
    few = min(depths) < WINOGRAD_LEAST_SLICES or 9 * math.prod(writes) * reads[3] < WINOGRAD_LEAST_PRODUCTS
    if few or nbytes > min(WINOGRAD_MOST_BYTES, target.max_buffer_bytes):
        return None
    tiles = fma_tiles(POINTWISE, shape, grid, target, SETS)
    if not tiles or winograd_clocks(reads, writes, tiles[0], target) >= most:
        return None
    return TuningChoice(f"winograd {shape} {grid}", tiles)


def winograd_clocks(reads: Shape, writes: Shape, tile: FmaTile, target: Target) -> float:
    """An estimate of the clocks of an H200 that the three launches take."""
    grid, shape = _products(reads, writes)
    values = math.prod(shape[:3]) * (slices(reads[3]) + slices(writes[3]))
    products = WINOGRAD_PRODUCTS_FACTOR * fma_clocks(POINTWISE, shape, grid, tile, target, SETS)
    return products + WINOGRAD_LAUNCH_CLOCKS + WINOGRAD_SLICE_CLOCKS * values


def launch_winograd(
    lowering: Lowering, source: TensorId, window: Window, weights: np.ndarray, bias: np.ndarray | None,
    choice: TuningChoice[FmaTile],
) -> list[Launch]:  # fmt: skip
    """Three dispatches: the values of all tiles, their products with OHWI ``weights``, and the results."""
    reads, destination = lowering.shape(source), lowering.outputs[0]
    writes = lowering.shape(destination)
    grid, shape = _products(reads, writes)
    values, products = lowering.scratch(shape), lowering.scratch((*shape[:3], 4 * grid.slices))
    pairs = lowering.group_size // 8  # which divides the group's size; six or four of eight invocations have work
    sizes: dict[str, int | float] = {
        "TILES": shape[2], "TILES_X": -(-writes[2] // SIDE), "BATCH": reads[0], "PAIRS": pairs,
    }  # fmt: skip
    constants = window.constants(reads[1], reads[2])
    padding = {name: constants[name] for name in ("PAD_TOP", "PAD_LEFT", "REFLECT")}
    items, results = (reads[0] * shape[2] * depth for depth in (slices(reads[3]), grid.slices))
    first = Launch(
        "winograd_input", {"src": source}, {"dst": values}, -(-items // pairs),
        {**sizes, **padding, "ITEMS": items}, local=(("float4", "mixed", 36 * pairs),),
        fusion=Fusion(reads_per_value=WINOGRAD_READS),
    )  # fmt: skip
    product = launch_fma_tiles(
        lowering, values, POINTWISE, grid, partial(transformed, weights), pack_bias(None, writes[3]), choice,
        sets=SETS, destination=products,
    )  # fmt: skip
    own = SliceOwnership(pairs, grid.slices)
    last = Launch(
        "winograd_output", {"src": products}, {"dst": destination}, -(-results // pairs),
        {**sizes, "ITEMS": results}, {"bias": pack_bias(bias, writes[3])}, (("float4", "mixed", 24 * pairs),),
        fusion=Fusion(slice_ownership=own),
    )  # fmt: skip
    return [first, product, last]


def transformed(weights: np.ndarray) -> np.ndarray:
    """OHWI weights of 3x3 as (36 * O, 1, 1, I) in float32: G g G^T of each channel. O is filled up to whole slices."""
    mixed = np.einsum("ay,oyxi,bx->aboi", WEIGHTS, whole_slices(weights).astype(np.float64), WEIGHTS, optimize=True)
    return mixed.reshape(-1, 1, 1, weights.shape[3]).astype(np.float32)


def _products(reads: Shape, writes: Shape) -> tuple[Grid, Shape]:
    """The grid of the products of a set, and the shape of the values of all tiles."""
    tiles = math.prod(-(-size // SIDE) for size in writes[1:3])
    return Grid((1, tiles), slices(writes[3])), (SETS * reads[0], 1, tiles, reads[3])
