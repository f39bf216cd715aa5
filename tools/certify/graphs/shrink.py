"""Shrinking of a random graph that fails: fewer layers and smaller shapes, as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable

from .recipe import Recipe, smaller


def shrink(recipe: Recipe, fails: Callable[[Recipe], bool], tries: int = 200) -> Recipe:
    """The smallest recipe that is found to fail. ``fails`` is asked at most ``tries`` times."""
    found = recipe
    while True:
        for candidate in smaller(found):
            tries -= 1
            if tries < 0:
                return found
            if fails(candidate):
                found = candidate
                break
        else:
            return found
