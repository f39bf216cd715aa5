"""Shrinking of a random graph that fails: fewer layers and smaller shapes, as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from framebind.tools.certify.graphs.recipe import Recipe


def shrink(recipe: Recipe, fails: Callable[[Recipe], bool], tries: int = 200) -> Recipe:
    """The smallest recipe that is found to fail. ``fails`` is asked at most ``tries`` times."""
    found = recipe
    while True:
        for candidate in _smaller(found):
            tries -= 1
            if tries < 0:
                return found
            if fails(candidate):
                found = candidate
                break
        else:
            return found


def _smaller(recipe: Recipe) -> list[Recipe]:
    """Recipes that are a little smaller, the smallest first: without layers, then with smaller shapes."""
    steps, found = recipe.steps, list[Recipe]()
    for size in (len(steps) // 2, 2, 1):
        for first in range(len(steps) - size + 1) if 0 < size < len(steps) else ():
            found.append(replace(recipe, steps=steps[:first] + steps[first + size :]))
    for axis, n in enumerate(recipe.shape):
        for less in dict.fromkeys((1, n // 2, n - 1)):
            if 0 < less < n:
                found.append(replace(recipe, shape=(*recipe.shape[:axis], less, *recipe.shape[axis + 1 :])))
    found += [
        replace(recipe, steps=(*steps[:i], replace(step, back=1), *steps[i + 1 :]))
        for i, step in enumerate(steps)
        if step.back > 1
    ]
    return found + ([replace(recipe, half=False)] if recipe.half else [])
