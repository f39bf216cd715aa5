"""The arena of intermediate tensors: nothing overlaps that is needed at the same time, and little is wasted."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from roofline import program_for

from framebind.delegate.plan.arena import Lifetime, most_alive, plan_memory
from support.models import MODELS

EXPORTS = Path(__file__).parents[1] / "support" / "exports"
NAMES = [model.name for model in MODELS]
MOST = 1.3
"""The arena's largest size, as a multiple of the bytes that are needed at the same time."""


def is_tight(path: Path) -> bool:
    program = program_for(path, "f16")
    program.record()
    assert program.layout is not None and program.layout.lifetimes
    return program.arena_nbytes <= MOST * most_alive(program.layout.lifetimes.values())


@pytest.mark.parametrize("name", sorted(path.stem for path in EXPORTS.glob("*.tflite")))
def test_the_arena_of_an_export_is_little_more_than_what_is_alive(name: str) -> None:
    assert is_tight(EXPORTS / f"{name}.tflite")


@pytest.mark.parametrize("name", NAMES)
def test_the_arena_of_a_model_is_little_more_than_what_is_alive(name: str, model_path: Callable[[str], Path]) -> None:
    assert is_tight(model_path(name))


def test_what_is_alive_is_counted() -> None:
    assert most_alive([]) == 0
    assert most_alive([Lifetime(4, 0, 1), Lifetime(2, 1, 3), Lifetime(5, 2, 2), Lifetime(1, 4, 4)]) == 7


def test_the_longest_lived_tensor_goes_first_if_the_arena_is_smaller_so() -> None:
    """Ordered by size, the three largest are in three places, since the small one lies where the first begins."""
    lives = [Lifetime(768, 3, 5), Lifetime(512, 0, 2), Lifetime(768, 1, 1), Lifetime(768, 2, 4)]
    assert plan_memory(dict(enumerate(lives)), 256).nbytes == 1536 == most_alive(lives)


@pytest.mark.parametrize("seed", range(5))
def test_tensors_that_are_alive_together_do_not_overlap(seed: int) -> None:
    random = np.random.default_rng(seed)
    lifetimes = dict[int, Lifetime]()
    for tensor in range(80):
        first = int(random.integers(40))
        lifetimes[tensor] = Lifetime(int(random.integers(1, 5000)), first, first + int(random.integers(8)))
    plan = plan_memory(lifetimes, 256)
    assert all(offset % 256 == 0 for offset in plan.offsets.values())
    assert plan.nbytes == max(plan.offsets[tensor] + life.nbytes for tensor, life in lifetimes.items())
    for one, other in combinations(lifetimes, 2):
        a, b = lifetimes[one], lifetimes[other]
        if a.first <= b.last and b.first <= a.last:
            begins = plan.offsets[one], plan.offsets[other]
            assert begins[0] + a.nbytes <= begins[1] or begins[1] + b.nbytes <= begins[0]
