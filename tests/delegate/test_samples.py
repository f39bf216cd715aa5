"""Bilinear samples as litert-torch spells PyTorch's grid_sample: one step, and what only resembles them is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from framebind.interop.device import Device
from framebind.tools.certify.cases.network_models import Sampler
from support.formulas import error_on, kernels_of

PICTURE, PLACES = (2, 3, 5, 6), (2, 3, 4, 7)


def sampler_of(width: int = 0) -> Sampler:
    return Sampler(PICTURE, PLACES, width)


def values() -> list[np.ndarray]:
    """A picture, and places of which some are outside of it."""
    random = np.random.default_rng(2)
    places = [random.uniform(-2, size + 1, PLACES).astype(np.float32) for size in PICTURE[:1:-1]]
    places[0][0, 0, 0] = [-1, 0, 5, 6, -1.5, 5.5, 0.5]
    return [random.normal(0, 1, PICTURE).astype(np.float32), *places]


def test_a_bilinear_sample_is_one_step(gpu: Device) -> None:
    sampler = sampler_of()
    model = sampler.model(sampler.sampled())
    assert kernels_of(model) == ["bilinear_samples"]
    assert error_on(gpu, model, values()) < 1e-5


@pytest.mark.parametrize(
    ("sampler", "order"),
    [
        (sampler_of(PICTURE[3] - 1), ((0, 0), (1, 0), (0, 1), (1, 1))),
        (sampler_of(), ((0, 0), (1, 0), (0, 1), (0, 1))),
        (sampler_of(), ((0, 0), (1, 0), (1, 1))),
    ],
    ids=["another width", "a corner twice", "three corners"],
)
def test_what_resembles_a_sample_is_left_alone(sampler: Sampler, order: Sequence[tuple[int, int]]) -> None:
    kernels = kernels_of(sampler.model(sampler.sampled(order)))
    assert "bilinear_samples" not in kernels and kernels.count("gather_nd") == len(order)


def test_a_corner_that_something_else_reads_stays() -> None:
    sampler = sampler_of()
    model = sampler.model(sampler.sampled(), sampler.low[0])
    assert "bilinear_samples" not in kernels_of(model)
