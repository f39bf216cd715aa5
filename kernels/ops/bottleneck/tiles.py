"""Shared parts of the searches for tiles. All tiles of a step are estimated at once, as arrays, because a model has
thousands.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

Size = TypeVar("Size", int, np.ndarray)
"""A number about one tile, or an array of such numbers about many tiles."""
CANDIDATES = 5
"""The number of tiles that ``SUSTAINED_SPEED`` measures."""


def tile_lengths(size: int) -> list[int]:
    """The lengths of tiles that divide ``size`` pixels into 1, 2, 3 ... about equal parts, the shortest first."""
    return sorted({-(-size // parts) for parts in range(1, size + 1)})
