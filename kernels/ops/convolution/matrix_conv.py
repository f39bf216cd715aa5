"""CONV_2D by matrix units: the convolutions that take them, and their division among warps."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ...operation import LocalArrays, SliceOwnership
from ...target import Target
from .heuristics import (
    INVOCATIONS_PER_WARP,
    MATRIX_COLUMNS,
    MATRIX_HALVES_LEAST_STEPS,
    MATRIX_HALVES_LEAST_WARPS,
    MATRIX_HALVES_MOST_STEPS,
    MATRIX_HALVES_TILE,
    MATRIX_LEAST_PIXELS,
    MATRIX_LONG_SUM,
)

WARP = 32
"""Invocations that compute a product of fragments together."""


class MatrixTile(NamedTuple):
    """The outputs of a warp: 16 * ``rows`` pixels by 8 * ``columns`` channels. ``split`` warps share their sums, and
    each loads ``batch`` steps of four terms at once.
    """

    rows: int
    columns: int
    split: int
    batch: int


def batches(terms: int, tile: MatrixTile) -> int:
    """The number of batches of steps that each warp loads."""
    return -(-terms // (4 * tile.split * tile.batch))


def uses_matrix_units(pixels: int, target: Target, kernel: str = "matrix_conv") -> bool:
    """Whether a convolution of ``pixels`` output pixels goes to this kernel of matrix units."""
    return (target.matrix_units or kernel in target.fixed) and pixels >= MATRIX_LEAST_PIXELS


@lru_cache(maxsize=256)
def matrix_tile_candidates(pixels: int, channels: int, taps: int, depth: int, target: Target) -> tuple[MatrixTile, ...]:
    """The tile of ``choose_matrix_tile``; then fewer columns, twice the pixels, and other shares of the sums. They are
    kept, because networks repeat their layers.
    """
    rule = choose_matrix_tile(pixels, channels, taps, depth, target)
    sizes = [(rule.rows, n, rule.split) for n in MATRIX_COLUMNS if n < rule.columns]
    sizes += [(3 - rule.rows, rule.columns, rule.split)]
    splits = (split for split in (rule.split // 2, rule.split * 2) if 1 <= split <= _most_warps(taps * depth, target))
    sizes += [(rule.rows, rule.columns, split) for split in splits]
    others = [MatrixTile(*size, _choose_batch(-(-taps * depth // 4), size[2], taps, depth)) for size in sizes]
    return tuple(dict.fromkeys((rule, *others)))


def choose_matrix_tile(pixels: int, channels: int, taps: int, depth: int, target: Target) -> MatrixTile:
    """The widest tile that leaves enough warps to fill the device, and then as many warps per sum as are enough.

    The outputs are ``pixels`` of ``channels`` channels. Each is a sum over ``taps`` times ``depth`` input slices.
    """
    wanted, steps, eights = max(target.invocations // INVOCATIONS_PER_WARP, 1), -(-taps * depth // 4), -(-channels // 8)
    most = _most_warps(taps * depth, target)
    rows = 2 if eights == 1 and pixels >= 16 * 4 * wanted else 1
    row_tiles = -(-pixels // (16 * rows))
    enough = (n for n in MATRIX_COLUMNS if n <= eights and row_tiles * -(-eights // n) * most >= wanted)
    columns = -(-eights // -(-eights // next(enough, 1)))  # tiles of equal width
    split, tiles = 1, row_tiles * -(-eights // columns)
    while split < most and (split * tiles < wanted or steps >= MATRIX_LONG_SUM * split):
        split *= 2
    return MatrixTile(rows, columns, split, _choose_batch(steps, split, taps, depth))


def tile_of_halves(pixels: int, channels: int, depth: int, target: Target) -> MatrixTile | None:
    """The tile for a 1x1 window over halves; None if there is too little work for it, or on other devices than those on
    which it was faster: in one dispatch its sums leave less local memory to all steps.
    """
    (rows, columns), steps, split = MATRIX_HALVES_TILE, -(-depth // 4), 1
    while split < _most_warps(depth, target) and steps > MATRIX_HALVES_MOST_STEPS * split:
        split *= 2
    warps = -(-pixels // (16 * rows)) * -(-channels // (8 * columns)) * split
    worth = warps >= MATRIX_HALVES_LEAST_WARPS and steps >= MATRIX_HALVES_LEAST_STEPS and channels >= 8 * columns
    if not (target.matrix_units and target.halves and target.early_launches and worth):
        return None
    return MatrixTile(rows, columns, split, 3 if steps <= 6 * split else 2)


def _most_warps(terms: int, target: Target) -> int:
    """The most warps of a group that can share a sum of ``terms`` terms; each has two steps at least."""
    return max(n for n in (1, 2, 4, 8) if n == 1 or (n * WARP <= target.group_size and 8 * n <= terms + 3))


def _choose_batch(steps: int, split: int, taps: int, depth: int) -> int:
    """The number of steps that a warp loads at once: the most that leave next to none idle in the last batch.

    A number for which a batch of all warps is whole taps is preferred, because the compiler then divides less.
    """
    share = -(-steps // split)
    fitting = [n for n in (4, 3, 2, 1) if -share % n <= share // 20]
    whole = [n for n in fitting if taps > 1 and n * split * 4 % depth == 0]
    return (whole or fitting)[0]


def matrix_constants(
    pixels: int, channels: int, taps: int, depth: int, tile: MatrixTile, group_size: int
) -> tuple[dict[str, int | float], int]:
    """The constants of matrix_conv.kern that divide the work, and the number of its work-groups."""
    terms = taps * depth
    row_tiles, packed_columns = -(-pixels // (16 * tile.rows)), -(-channels // 8)
    column_tiles, per_group = -(-packed_columns // tile.columns), group_size // WARP // tile.split
    warp_tiles = row_tiles * column_tiles
    constants: dict[str, int | float] = {
        "ROWS": tile.rows, "COLUMNS": tile.columns, "SPLIT": tile.split, "BATCH": tile.batch,
        "BATCHES": batches(terms, tile), "TERMS": terms, "PIXELS": pixels,
        "PER_GROUP": per_group, "WARP_TILES": warp_tiles, "COLUMN_TILES": column_tiles,
        "PACKED_COLUMNS": packed_columns,
    }  # fmt: skip
    return constants, -(-warp_tiles // per_group)


def matrix_memory(tile: MatrixTile, target: Target) -> LocalArrays:
    """The kernel's local arrays: sums, and the exchange that emulates matrix units on a device without them."""
    partial = tile.rows * tile.columns * (target.group_size + 4)
    return (("float4", "partial", partial), ("float4", "exchange", 1 if target.matrix_units else 3 * target.group_size))


def slice_ownership(channels: int, tile: MatrixTile, group_size: int) -> SliceOwnership | None:
    """The slices that an invocation writes; None if they are not the same in all its tiles."""
    step, lanes = (
        2 * tile.columns * -(-channels // (8 * tile.columns)),
        2 * tile.columns * (group_size // WARP // tile.split),
    )
    return SliceOwnership(lanes, step) if group_size % lanes == 0 else None
