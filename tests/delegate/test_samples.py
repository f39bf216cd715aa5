"""Bilinear samples as litert-torch spells PyTorch's grid_sample: one step, and what only resembles them is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from framebind.interop.device import Device
from support.formulas import Formula, error_on, kernels_of

PICTURE, PLACES = (2, 3, 5, 6), (2, 3, 4, 7)


class Sampler(Formula):
    """A picture, columns and rows; ``width`` is the first column beyond the picture, for a spelling that is wrong."""

    def __init__(self, width: int = PICTURE[3]) -> None:
        super().__init__(PICTURE, PLACES, PLACES)
        self.sizes = width, PICTURE[2]
        self.zero, self.none, self.one = self.constant(0.0), self.constant(0, "int32"), self.constant(1.0)
        self.planes = [self.constant(number, "int32") for number in np.indices((*PLACES, 1))[:2]]
        self.low = [self.add("FLOOR", place) for place in (1, 2)]
        self.high = [self.add("ADD", low, self.one) for low in self.low]

    def inside(self, position: int, size: int) -> int:
        least = self.add("GREATER_EQUAL", position, self.zero, dtype="bool")
        return self.add("LOGICAL_AND", least, self.below(position, self.constant(float(size))), dtype="bool")

    def below(self, position: int, bound: int) -> int:
        return self.add("LESS", position, bound, dtype="bool")

    def index(self, position: int, size: int, holds: int) -> int:
        whole = self.add("CAST", position, dtype="int32", inDataType=0, outDataType=2)
        kept = self.add("SELECT_V2", holds, whole, self.none, dtype="int32")
        behind = self.add("ADD", kept, self.constant(size, "int32"), dtype="int32")
        chosen = self.add("SELECT", self.below(kept, self.none), behind, kept, dtype="int32")
        return self.reshape(chosen, *PLACES, 1, dtype="int32")

    def corner(self, column: int, row: int) -> int:
        """The pixel of a corner times its weight."""
        x, y = (self.low[0], self.high[0])[column], (self.low[1], self.high[1])[row]
        holds = self.add("LOGICAL_AND", self.inside(x, self.sizes[0]), self.inside(y, self.sizes[1]), dtype="bool")
        weights = [
            self.add("SUB", place, low) if second else self.add("SUB", high, place)
            for second, place, low, high in zip((column, row), (1, 2), self.low, self.high, strict=True)
        ]
        weight = self.add("SELECT_V2", holds, self.add("MUL", *weights), self.zero)
        joined = [*self.planes, self.index(y, self.sizes[1], holds), self.index(x, self.sizes[0], holds)]
        indices = self.add("CONCATENATION", *joined, shape=(*PLACES, 4), dtype="int32", axis=4)
        return self.add("MUL", self.add("GATHER_ND", 0, indices, shape=PLACES), weight)

    def sampled(self, order: Sequence[tuple[int, int]] = ((0, 0), (1, 0), (0, 1), (1, 1))) -> int:
        first, *rest = [self.corner(*corner) for corner in order]
        for term in rest:
            first = self.add("ADD", first, term)
        return first


def values() -> list[np.ndarray]:
    """A picture, and places of which some are outside of it."""
    random = np.random.default_rng(2)
    places = [random.uniform(-2, size + 1, PLACES).astype(np.float32) for size in PICTURE[:1:-1]]
    places[0][0, 0, 0] = [-1, 0, 5, 6, -1.5, 5.5, 0.5]
    return [random.normal(0, 1, PICTURE).astype(np.float32), *places]


def test_a_bilinear_sample_is_one_step(gpu: Device) -> None:
    sampler = Sampler()
    model = sampler.model(sampler.sampled())
    assert kernels_of(model) == ["bilinear_samples"]
    assert error_on(gpu, model, values()) < 1e-5


@pytest.mark.parametrize(
    ("sampler", "order"),
    [
        (Sampler(PICTURE[3] - 1), ((0, 0), (1, 0), (0, 1), (1, 1))),
        (Sampler(), ((0, 0), (1, 0), (0, 1), (0, 1))),
        (Sampler(), ((0, 0), (1, 0), (1, 1))),
    ],
    ids=["another width", "a corner twice", "three corners"],
)
def test_what_resembles_a_sample_is_left_alone(sampler: Sampler, order: Sequence[tuple[int, int]]) -> None:
    kernels = kernels_of(sampler.model(sampler.sampled(order)))
    assert "bilinear_samples" not in kernels and kernels.count("gather_nd") == len(order)


def test_a_corner_that_something_else_reads_stays() -> None:
    sampler = Sampler()
    model = sampler.model(sampler.sampled(), sampler.low[0])
    assert "bilinear_samples" not in kernels_of(model)
