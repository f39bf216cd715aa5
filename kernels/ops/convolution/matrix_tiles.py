"""The tile of a convolution on matrix units."""

from __future__ import annotations

from typing import NamedTuple

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
