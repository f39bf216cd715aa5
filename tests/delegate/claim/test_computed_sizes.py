"""Begins, sizes, shapes and multiples that are computed while the model runs stay on the CPU, with the reason."""

from __future__ import annotations

import numpy as np
import pytest

from framebind.delegate.certify.cases.operator_models import Const, ModelCase, case_model, values
from framebind.delegate.claim.claims import claim
from framebind.delegate.read.reader import read_model
from framebind.interop.record.null import NullDevice

PAIR, ONE = np.array([1, 2], np.int32), Const(np.array(1.0, np.float32))


@pytest.mark.parametrize(
    "operator, what, inputs, tensor",
    [
        ("SLICE", "begin", (values(3, 4), PAIR, Const(PAIR)), "input1"),
        ("SLICE", "size", (values(3, 4), Const(PAIR), PAIR), "input2"),
        ("FILL", "shape", (PAIR, ONE), "input0"),
        ("BROADCAST_TO", "shape", (values(1, 1), PAIR), "input1"),
        ("TILE", "multiples", (values(3, 4), PAIR), "input1"),
    ],
)
def test_the_reason_names_the_tensor_that_is_not_constant(
    operator: str, what: str, inputs: tuple[object, ...], tensor: str
) -> None:
    model = case_model(ModelCase(operator, "computed", inputs), [(1, 2)])
    claims = claim(read_model(model).subgraphs[0], lambda: NullDevice().traits.target)
    assert claims.unsupported == {
        0: f"{what} must be constant: kernels are made for one value, and tensor '{tensor}' is known only later"
    }
