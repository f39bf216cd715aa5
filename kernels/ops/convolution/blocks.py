"""Division of a convolution's outputs among invocations: large blocks load little, many blocks fill the device."""

from __future__ import annotations

from typing import NamedTuple

from ...target import Target
from .heuristics import BLOCK_SIZES, BUSY_PART, LEAST_SPLIT_TERMS, MOST_SPLIT


class Block(NamedTuple):
    """The outputs of an invocation, ``pixels`` by ``slices``, and the number of invocations that share their sums.

    ``split`` is a power of two. ``split_slices`` of these invocations divide the input slices; the rest divides the
    taps of the window.
    """

    pixels: int
    slices: int
    split: int
    split_slices: int


def block_candidates(rows: int, columns: int, slices: int, taps: int, depth: int, target: Target) -> tuple[Block, ...]:
    """The block of ``choose_block``, blocks of other sizes, and blocks of its size with sums split less and more."""
    outputs, terms = (rows, columns, slices), (taps, depth)
    rule = choose_block(rows, columns, slices, taps, depth, target)
    sizes = [_block(size, outputs, terms, target, BUSY_PART) for size in _sizes(columns, slices)]
    shares = [
        _block((rule.pixels, rule.slices), outputs, terms, target, busy) for busy in (2 * BUSY_PART, BUSY_PART / 2)
    ]
    return tuple(dict.fromkeys((rule, *sizes, *shares)))


def choose_block(rows: int, columns: int, slices: int, taps: int, depth: int, target: Target) -> Block:
    """The largest block that leaves enough blocks to fill the device.

    The outputs are ``rows`` (of all pictures) by ``columns`` pixels by ``slices``. Each is a sum over ``taps`` times
    ``depth`` input slices.
    """
    best = Block(1, 1, 1, 1)
    for size in _sizes(columns, slices):
        best = _block(size, (rows, columns, slices), (taps, depth), target, BUSY_PART)
        if 2 * _count(size, rows, columns, slices) * best.split >= _wanted(target, BUSY_PART):
            break
    return best


def _sizes(columns: int, slices: int) -> list[tuple[int, int]]:
    return [size for size in BLOCK_SIZES if size[0] <= columns and size[1] <= slices]


def _wanted(target: Target, busy: float) -> int:
    return max(int(target.invocations / busy), 1)


def _count(size: tuple[int, int], rows: int, columns: int, slices: int) -> int:
    return rows * -(-columns // size[0]) * -(-slices // size[1])


def _block(
    size: tuple[int, int], outputs: tuple[int, int, int], terms: tuple[int, int], target: Target, busy: float
) -> Block:
    """The block of this size, with sums split until 1 / ``busy`` of the resident invocations have work."""
    taps, depth = terms
    split = split_sums(_count(size, *outputs), taps * depth, _wanted(target, busy), min(MOST_SPLIT, target.group_size))
    return Block(*size, split, _split_slices(split, taps, depth))


def split_sums(blocks: int, terms: int, wanted: int, most: int) -> int:
    """The number of invocations, a power of two, that share a sum of ``terms`` products, to get ``wanted`` in all."""
    split = 1
    while split * blocks < wanted and 2 * split * LEAST_SPLIT_TERMS <= terms and 2 * split <= most:
        split *= 2
    return split


def _split_slices(split: int, taps: int, depth: int) -> int:
    """The part of the split that divides input slices: all of it, unless slices are too few and taps suffice."""
    part = split
    while part > 1 and (part > depth or depth % part) and split // part < taps:
        part //= 2
    return part
