"""Products of two computed matrices by matrix units, which are emulated if the device has none."""

from __future__ import annotations

import numpy as np
import pytest

from framebind.interop.device import Device
from framebind.kernels.ops.convolution.matmul import MatrixProduct
from framebind.tools.certify.cases.operator_models import Array, values
from support.cases.node_cases import NodeCase
from support.cases.operator_runs import run
from support.graphs import target_of
from support.models import relative_error

Shapes = tuple[tuple[int, ...], tuple[int, ...]]


def case_of(shapes: Shapes, transposed: tuple[bool, bool]) -> NodeCase:
    """A product of matrices of these shapes, which are stored transposed where that is said."""
    given = [(*s[:-2], s[-1], s[-2]) if t else s for s, t in zip(shapes, transposed, strict=True)]

    def expected(first: Array, second: Array) -> Array:
        left, right = (np.swapaxes(x, -1, -2) if t else x for x, t in zip((first, second), transposed, strict=True))
        return left @ right

    operation = MatrixProduct((len(shapes[0]), len(shapes[1])), transposed)
    inputs = (values(*given[0], seed=1), values(*given[1], seed=2))
    return NodeCase(f"{shapes} {transposed}", "BATCH_MATMUL", operation, inputs, expected)


SMALL: Shapes = ((70, 21), (21, 45))
CASES = [
    (SMALL, (False, False), 1), (SMALL, (False, True), 1), (SMALL, (True, False), 1), (SMALL, (True, True), 1),
    (((2, 3, 16, 32), (2, 3, 32, 64)), (False, False), 2), (((1, 2, 33, 50), (3, 1, 50, 7)), (False, True), 1),
]  # fmt: skip


@pytest.mark.parametrize(("shapes", "transposed", "size"), CASES, ids=str)
def test_a_product_by_tiles_is_that_of_numpy(
    device: Device, shapes: Shapes, transposed: tuple[bool, bool], size: int
) -> None:
    """Whole tiles and parts of them, terms that fill no step, and batches that are repeated."""
    case, units = case_of(shapes, transposed), device.traits.matrix_units
    target = target_of(device, fixed={"matrix_product": size}, matrix_units=units)
    result = run(device, case, "f32", target)
    assert device.traits.api == "null" or relative_error(result, case.expected(*case.inputs)) <= (
        2e-3 if units else 1e-5
    )


@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)], ids=str)
def test_an_infinity_in_the_last_term_stays_one(device: Device, transposed: tuple[bool, bool]) -> None:
    """The 21 terms are no multiple of four: what a step reads behind them is not multiplied."""
    case = case_of(SMALL, transposed)
    for matrix, swapped, place in zip(case.inputs, transposed, ((3, -1), (-1, 5)), strict=True):
        (matrix.T if swapped else matrix)[place] = np.inf
    target = target_of(device, fixed={"matrix_product": 1}, matrix_units=device.traits.matrix_units)
    with np.errstate(invalid="ignore"):  # NumPy's products of a matrix' edge set the flag
        found, expected = run(device, case, "f32", target), case.expected(*case.inputs)
    if device.traits.api != "null":
        np.testing.assert_array_equal(
            np.where(np.isfinite(found), 0, found), np.where(np.isfinite(expected), 0, expected)
        )
