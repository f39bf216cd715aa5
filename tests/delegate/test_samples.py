"""Bilinear samples as litert-torch spells PyTorch's grid_sample: one step, and what only resembles them is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from framebind.interop.device import Device
from framebind.tools.certify.cases.formulas import Formula
from framebind.tools.certify.cases.network_models import Sampler, deformable_attention
from support.formulas import error_on, kernels_of

PICTURE, PLACES = (2, 3, 5, 6), (2, 3, 4, 7)


def sampler_of(width: int = 0) -> Sampler:
    return Sampler(Formula(PICTURE, PLACES, PLACES), width=width)


def values() -> list[np.ndarray]:
    """A picture, and places of which some are outside of it."""
    random = np.random.default_rng(2)
    places = [random.uniform(-2, size + 1, PLACES).astype(np.float32) for size in PICTURE[:1:-1]]
    places[0][0, 0, 0] = [-1, 0, 5, 6, -1.5, 5.5, 0.5]
    return [random.normal(0, 1, PICTURE).astype(np.float32), *places]


def test_a_bilinear_sample_is_one_step(gpu: Device) -> None:
    sampler = sampler_of()
    model = sampler.formula.model(sampler.sampled())
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
    kernels = kernels_of(sampler.formula.model(sampler.sampled(order)))
    assert "bilinear_samples" not in kernels and kernels.count("gather_nd") == len(order)


def test_a_corner_that_something_else_reads_stays() -> None:
    sampler = sampler_of()
    model = sampler.formula.model(sampler.sampled(), sampler.low[0])
    assert "bilinear_samples" not in kernels_of(model)


def test_samples_of_several_maps_are_one_step_without_copies() -> None:
    """Values, places and weights are read where they lie, and the result is written as rows of channels."""
    assert kernels_of(deformable_attention()[0]) == ["weighted_samples"]


def test_samples_of_heads_that_are_no_whole_slices_are_a_step_for_each_map(gpu: Device) -> None:
    model, inputs = deformable_attention(width=6)
    kernels = kernels_of(model)
    assert "weighted_samples" not in kernels and kernels.count("bilinear_samples") == 2
    assert error_on(gpu, model, inputs) < 1e-5


def test_the_places_of_a_large_map_are_exact_in_halves(gpu: Device) -> None:
    """The second map begins at a slice whose number no half holds."""
    model, inputs = deformable_attention(first=(33, 63))
    assert kernels_of(model) == ["weighted_samples"]
    assert error_on(gpu, model, inputs, halves=True) < 2e-3
