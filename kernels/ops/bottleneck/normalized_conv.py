"""An instance normalization and the convolution that reads it, as one dispatch on matrix units.

A work-group scales the pixels that its tile reads while it copies them to local memory, so that the normalized tensor
needs neither a dispatch nor memory. delegate/lower/normalized_reads.py decides what is joined.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...operation import Fusion, Launch, Lowering, SliceOwnership
from ...target import Target
from ...tensor import LARGEST_HALF, Shape, slices
from ..convolution.conv import Convolution
from ..convolution.heuristics import TILE_INVOCATIONS
from ..convolution.matrix_conv import WARP, uses_matrix_units
from ..convolution.matrix_patch import pack_rows, row_steps
from ..convolution.packing import pack_bias
from ..window import Window

RUNS, RUNS_X = (1, 2, 3, 4, 5, 6), (1, 2)
"""The numbers of runs of 16 pixels that are compared: of a warp, and of a row of a tile."""
MOST_FRAGMENTS = 16
"""The most fragments of weights of a row of the window, which a warp keeps in registers. A limit, not measured."""
MOST_ROUNDS = 12
"""The most slices that an invocation loads at once, of four numbers each. A limit, not measured."""

PART_OF_LOCAL_MEMORY = 4 / 7
"""The part of local memory that a tile may take on devices where kernels do not start early. There all steps may become
one program, which needs the registers of its largest kernel. With larger tiles style_transfer_f16_384 needed 175
registers, so half as many work-groups were resident: 182.6 us per frame of a stream in place of 148.0 (H200, OpenCL,
2026-11-22).
"""


class Normalization(NamedTuple):
    """A normalization as the convolution behind it does it."""

    epsilon: float
    low: float
    high: float
    """The sum of the normalized values and the addends is clamped to the range from ``low`` to ``high``."""
    doublings: int
    """The number of times that nearest pixels double its height and width before the convolution."""
    kept: bool
    """Other steps read the normalized tensor too."""


class NormalizedTile(NamedTuple):
    """The outputs of a work-group. A fragment is 16 pixels of a row: a warp computes ``runs`` of them, and a tile is
    ``across`` fragments wide.
    """

    runs: int
    across: int


class _Sizes(NamedTuple):
    """The sizes of a convolution that decide its division; ``eights`` is the output's channels in eights."""

    outputs: Shape
    depth: int
    eights: int
    window: Window
    doublings: int
    addends: int
    """The number of tensors that are added to the normalized one: 0 or 1."""

    @property
    def columns(self) -> int:
        """The eights of channels that a warp computes."""
        return min(self.eights, 2)

    @property
    def parts(self) -> int:
        """The number of warps that share the channels of a run."""
        return self.eights // self.columns


def launch_normalized(operation: Convolution, lowering: Lowering, normalization: Normalization) -> Launch | None:
    """The launch that normalizes and convolves; None if the device has no matrix units for it, or if it does not fit.

    Inputs, in this order:

    - x, in 16 bits;
    - gamma and beta, one value for each channel of x;
    - the sums of x, as moments.kern writes them;
    - a tensor of x's shape that is added to the normalized one, if the normalization has addends.

    Outputs: the convolution's; then the normalized tensor, if the normalization is kept.
    """
    source, gamma, beta, sums, *added = lowering.inputs
    window, weights = operation.window, operation.weights
    batch, height, width, channels = lowering.shape(source)
    height, width = height << normalization.doublings, width << normalization.doublings
    outputs, target = lowering.shape(lowering.outputs[0]), lowering.target
    sizes = _Sizes(outputs, slices(channels), -(-outputs[3] // 8), window, normalization.doublings, len(added))
    if not _is_admitted(sizes, target) or float(np.abs(weights).max(initial=0.0)) > LARGEST_HALF:
        return None
    if normalization.kept and (height, width) != (outputs[1], outputs[2]):
        return None
    tile = _choose_tile(sizes, target)
    if tile is None:
        return None
    (patch_height, patch_width), (source_height, source_width) = (
        _patch(sizes, tile, target),
        _source(sizes, tile, target),
    )
    rows, pixel, lanes = _tile_rows(sizes, tile, target), _pixel(sizes), sizes.depth
    constants = window.constants(height, width) | {
        "RUNS": tile.runs, "RUNS_X": tile.across, "TILE_H": rows, "TILES_X": -(-outputs[2] // (16 * tile.across)),
        "TILES_Y": -(-outputs[1] // rows), "PATCH_W": patch_width, "PATCH_H": patch_height,
        "SOURCE_W": source_width, "SOURCE_H": source_height, "PIXEL": pixel,
        "COLUMNS": sizes.columns, "COLUMN_PARTS": sizes.parts, "STEPS": row_steps(window, sizes.depth),
        "DOUBLINGS": sizes.doublings, "ADDS": sizes.addends, "KEEPS": int(normalization.kept),
        "LOW": normalization.low, "HIGH": normalization.high, "EPSILON": normalization.epsilon,
        "AREA": float(math.prod(lowering.shape(source)[1:3])), "LANES": lanes,
        "SHARES": 1 << (target.group_size // lanes).bit_length() - 1,
    }  # fmt: skip
    other = added[0] if added else source
    return Launch(
        "normalized_conv",
        {"src": source, "gamma": gamma, "beta": beta, "sums": sums, "other": other},
        {"dst": lowering.outputs[0], "normalized": lowering.outputs[1]},
        batch * int(constants["TILES_X"]) * int(constants["TILES_Y"]),
        constants,
        {"weights": pack_rows(weights, window, sizes.depth), "bias": pack_bias(operation.bias, outputs[3])},
        _local_arrays(sizes, tile, target),
        tolerates_f16=("src", "normalized"),
        fusion=Fusion(slice_ownership=SliceOwnership(2 * sizes.eights, 2 * sizes.eights)),
    )


def _is_admitted(sizes: _Sizes, target: Target) -> bool:
    """Whether the kernel has this window and these channels, and the device matrix units."""
    window, warps = sizes.window, target.group_size // WARP
    return (
        uses_matrix_units(math.prod(sizes.outputs[:3]), target, "normalized_conv")
        and window.strides == window.dilations == (1, 1)
        and sizes.depth <= target.group_size
        and sizes.eights == sizes.columns * sizes.parts
        and warps % sizes.parts == 0
        and target.group_size % (2 * sizes.eights) == 0
        and row_steps(window, sizes.depth) * sizes.columns <= MOST_FRAGMENTS
    )


@lru_cache(maxsize=64)
def _choose_tile(sizes: _Sizes, target: Target) -> NormalizedTile | None:
    """The tile with the least cost: the number of rounds of tiles, times the time of a tile (its runs, and one more for
    its patch). Among equal tiles the one that reads the fewest pixels.
    Results are kept, because networks repeat their blocks.
    """
    resident = max(target.invocations // TILE_INVOCATIONS, 1)

    def cost(tile: NormalizedTile) -> tuple[int, int]:
        across, down = (
            -(-sizes.outputs[2] // (16 * tile.across)),
            -(-sizes.outputs[1] // _tile_rows(sizes, tile, target)),
        )
        rounds = -(-sizes.outputs[0] * across * down // resident)
        return rounds * (tile.runs + 1), math.prod(_patch(sizes, tile, target))

    rule = min(_fitting(sizes, target), key=cost, default=None)
    return target.decide("normalized_conv", rule)


def _fitting(sizes: _Sizes, target: Target) -> Iterator[NormalizedTile]:
    """The tiles for which there are registers and local memory, with room for the sums of what they write."""
    room = target.local_bytes if target.early_launches else int(PART_OF_LOCAL_MEMORY * target.local_bytes)
    for tile in itertools.starmap(NormalizedTile, itertools.product(RUNS, RUNS_X)):
        if tile.runs * target.group_size // WARP // sizes.parts % tile.across:
            continue
        items = math.prod(_source(sizes, tile, target)) * sizes.depth * (1 + sizes.addends)
        used = sum(count for _, _, count in _local_arrays(sizes, tile, target)) + target.group_size
        if items <= MOST_ROUNDS * target.group_size and used <= room // 16:
            yield tile


def _local_arrays(sizes: _Sizes, tile: NormalizedTile, target: Target) -> tuple[tuple[str, str, int], ...]:
    """Local memory. A float4 holds two fragments if there are matrix units, which take halves."""
    fragments, per_float4 = math.prod(_patch(sizes, tile, target)) * _pixel(sizes) + 4, 2 if target.matrix_units else 1
    source = math.prod(_source(sizes, tile, target)) * sizes.depth if sizes.doublings else 1
    region = max(
        -(-fragments // per_float4),
        tile.runs * sizes.columns * (target.group_size + 4),
        2 * target.group_size,
    )
    exchange = 1 if target.matrix_units else 3 * target.group_size
    arrays = {
        "region": region,
        "source": -(-source // per_float4),
        "factor": sizes.depth,
        "addend": sizes.depth,
        "exchange": exchange,
    }
    return tuple(("float4", name, count) for name, count in arrays.items())


def _tile_rows(sizes: _Sizes, tile: NormalizedTile, target: Target) -> int:
    """The rows of pixels of a tile."""
    return tile.runs * (target.group_size // WARP // sizes.parts) // tile.across


def _patch(sizes: _Sizes, tile: NormalizedTile, target: Target) -> tuple[int, int]:
    """The height and width of the pixels that a tile reads."""
    height, width = sizes.window.size
    return _tile_rows(sizes, tile, target) + height - 1, 16 * tile.across + width - 1


def _source(sizes: _Sizes, tile: NormalizedTile, target: Target) -> tuple[int, int]:
    """The height and width of the same before they are doubled."""
    height, width = _patch(sizes, tile, target)
    if not sizes.doublings:
        return height, width
    return ((height - 1) >> sizes.doublings) + 2, ((width - 1) >> sizes.doublings) + 2


def _pixel(sizes: _Sizes) -> int:
    """The fragments from a pixel to the next in local memory. Eight pixels at a distance of a multiple of eight slices,
    which a warp reads at once, would lie in the same banks.
    """
    return sizes.depth + 4 if sizes.depth % 8 == 0 else sizes.depth
