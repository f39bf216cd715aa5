"""Attention on each device, with matrix units, which are emulated if it has none, and without."""

from __future__ import annotations

import pytest

from framebind.interop.device import Device
from support.cases.attention_cases import SIZES, Heads, case_of
from support.cases.operator_runs import run
from support.graphs import target_of
from support.models import relative_error


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_softmax_of_products_is_that_of_numpy(device: Device, sizes: Heads) -> None:
    case = case_of(sizes)
    result = run(device, case, "f32", target_of(device, matrix_units=False))
    assert device.traits.api == "null" or relative_error(result, case.expected(*case.inputs)) <= 1e-5


@pytest.mark.parametrize("split", [1, 2])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_warps_share_keys_on_matrix_units(device: Device, sizes: Heads, split: int) -> None:
    """Matrix units take halves; without them the same kernel computes floats."""
    case = case_of(sizes)
    units = device.traits.matrix_units
    target = target_of(device, fixed={"matrix_attention": split}, matrix_units=units)
    result = run(device, case, "f32", target)
    assert device.traits.api == "null" or relative_error(result, case.expected(*case.inputs)) <= (
        3e-3 if units else 1e-5
    )
