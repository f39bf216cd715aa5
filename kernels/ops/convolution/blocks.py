"""How the outputs of a convolution are divided among invocations, so that they fill a device and load little."""

from __future__ import annotations

from typing import NamedTuple

from ...target import Target

SIZES = ((4, 2), (8, 1), (4, 1), (2, 1), (1, 1))
"""Blocks of (pixels, output slices), the one with the fewest loads a product first."""
LARGEST_SPLIT, LEAST_SHARE = 32, 3
"""Among how many invocations at most the sums of a block are split, and how many terms each has at least."""
BUSY = 7
"""A device is busy with this part of the invocations that it holds, as each has eight sums under way: on an H200 the
fastest splits of 22 convolutions gave it 26,000 to 74,000 of 270,000.
"""


class Block(NamedTuple):
    """What an invocation computes, and how many share its sums: ``split``, a power of two, of which ``split_slices``
    divide the input slices and the others the taps of the window.
    """

    pixels: int
    slices: int
    split: int
    split_slices: int


def block_candidates(rows: int, columns: int, slices: int, taps: int, depth: int, target: Target) -> tuple[Block, ...]:
    """The block of ``choose_block``; those of other sizes; and its own size for half and twice as busy a device."""
    outputs, terms = (rows, columns, slices), (taps, depth)
    rule = choose_block(rows, columns, slices, taps, depth, target)
    sizes = [_block(size, outputs, terms, target, BUSY) for size in _sizes(columns, slices)]
    shares = [_block((rule.pixels, rule.slices), outputs, terms, target, busy) for busy in (2 * BUSY, BUSY / 2)]
    return tuple(dict.fromkeys((rule, *sizes, *shares)))


def choose_block(rows: int, columns: int, slices: int, taps: int, depth: int, target: Target) -> Block:
    """For outputs of ``rows`` (of all pictures) by ``columns`` pixels by ``slices``, each a sum over ``taps`` times
    ``depth`` input slices: the largest block of which there are enough.
    """
    best = Block(1, 1, 1, 1)
    for size in _sizes(columns, slices):
        best = _block(size, (rows, columns, slices), (taps, depth), target, BUSY)
        if 2 * _count(size, rows, columns, slices) * best.split >= _wanted(target, BUSY):
            break
    return best


def _sizes(columns: int, slices: int) -> list[tuple[int, int]]:
    return [size for size in SIZES if size[0] <= columns and size[1] <= slices]


def _wanted(target: Target, busy: float) -> int:
    return max(int(target.invocations / busy), 1)


def _count(size: tuple[int, int], rows: int, columns: int, slices: int) -> int:
    return rows * -(-columns // size[0]) * -(-slices // size[1])


def _block(
    size: tuple[int, int], outputs: tuple[int, int, int], terms: tuple[int, int], target: Target, busy: float
) -> Block:
    """The block of this size whose sums are split until a ``busy``-th part of the invocations has work."""
    taps, depth = terms
    split = split_sums(
        _count(size, *outputs), taps * depth, _wanted(target, busy), min(LARGEST_SPLIT, target.group_size)
    )
    return Block(*size, split, _split_slices(split, taps, depth))


def split_sums(blocks: int, terms: int, wanted: int, most: int) -> int:
    """Among how many invocations to split sums of ``terms`` products for ``wanted`` of them; a power of two."""
    split = 1
    while split * blocks < wanted and 2 * split * LEAST_SHARE <= terms and 2 * split <= most:
        split *= 2
    return split


def _split_slices(split: int, taps: int, depth: int) -> int:
    """The part of the split that divides input slices: all of it, unless they are too few and there are taps."""
    part = split
    while part > 1 and (part > depth or depth % part) and split // part < taps:
        part //= 2
    return part
