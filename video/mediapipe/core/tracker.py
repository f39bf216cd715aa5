"""The regions of a task from frame to frame: found by a detector, or followed from the previous frame."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...basic_types import Array
from ..calculators.tracking import NO_RECTANGLES, associate


class Tracker:
    """The rectangles (n, 5) of at most ``count`` things.

    ``join(previous, found, overlap)`` makes one list of both: ``associate`` or ``associate_hands``.
    """

    def __init__(self, count: int, overlap: float, join: Callable[[Array, Array, float], Array] = associate) -> None:
        self._count, self._overlap, self._join = count, overlap, join
        self._previous = NO_RECTANGLES

    def regions(self, detect: Callable[[], Array], *, stream: bool) -> Array:
        """The rectangles to look at in this picture. ``detect`` is called only if fewer things are followed."""
        if not stream:
            return detect()[: self._count]
        found = detect() if len(self._previous) < self._count else NO_RECTANGLES
        return self._join(self._previous, found, self._overlap)[: self._count]

    def follow(self, rectangles: list[Array]) -> None:
        """The rectangles (5) of what was seen in this frame: where the next one looks."""
        self._previous = np.stack(rectangles) if rectangles else NO_RECTANGLES
