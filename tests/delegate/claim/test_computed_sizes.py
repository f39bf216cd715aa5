"""Sizes, shapes and multiples that are computed while the model runs stay on the CPU, with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.read.reader import read_model
from framebind.interop.null.device import NullDevice
from framebind.tools.certify.cases.operator_models import (
    Const,
    ModelCase,
    case_model,
    options,
    run_model,
    runtime_inputs,
    values,
)

PAIR, ONE = np.array([1, 2], np.int32), Const(np.array(1.0, np.float32))
SHRINK = options("StridedSlice", shrinkAxisMask=3)


@pytest.mark.parametrize(
    "operator, what, inputs, tensor",
    [
        ("SLICE", "size", (values(3, 4), Const(PAIR), PAIR), "input2"),
        ("FILL", "shape", (PAIR, ONE), "input0"),
        ("BROADCAST_TO", "shape", (values(1, 1), PAIR), "input1"),
        ("TILE", "multiples", (values(3, 4), PAIR), "input1"),
        ("PAD", "paddings", (values(3, 4), np.array([PAIR, PAIR])), "input1"),
    ],
)
def test_the_reason_names_the_tensor_that_is_not_constant(
    operator: str, what: str, inputs: tuple[object, ...], tensor: str
) -> None:
    model = case_model(ModelCase(operator, "computed", inputs), [(1, 2)])
    claims = claim(read_model(model).subgraphs[0], lambda: NullDevice().traits.target)
    assert claims.unsupported == {
        0: f"{what} must be constant: the shape of the result follows from it, and tensor '{tensor}' is known only "
        "while the model runs"
    }


@pytest.mark.parametrize(
    "operator, inputs, table, says",
    [
        (
            "SLICE",
            (values(3, 4), PAIR, Const(np.array([1, -1], np.int32))),
            None,
            "its size [1, -1] follows from its begin",
        ),
        (
            "STRIDED_SLICE",
            (values(3, 4), PAIR, np.array([3, 4], np.int32), Const(np.array([1, 1], np.int32))),
            options("StridedSlice", shrinkAxisMask=1),
            "the size of dimension 0 of its result is known only while the model runs",
        ),
        (
            "SLICE",
            (values(3, 3, 3, 3, 3), np.zeros(5, np.int32), Const(np.ones(5, np.int32))),
            None,
            "it starts at 5 computed places; 4 at most are supported",
        ),
    ],
)
def test_a_computed_begin_leaves_the_shape_known_or_stays_on_the_cpu(
    operator: str, inputs: tuple[object, ...], table: Any, says: str
) -> None:
    model = case_model(ModelCase(operator, "computed", inputs, table), [(1, 2)])
    claims = claim(read_model(model).subgraphs[0], lambda: NullDevice().traits.target)
    assert says in claims.unsupported[0]


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_place_computed_outside_the_tensor_is_the_nearest_one(context: fb.GlContext) -> None:
    """LiteRT raises an error at these, or reads beyond the tensor."""
    x, last = values(3, 4), np.array([9, -9], np.int32)
    for operator, inputs, table, expected in (
        ("SLICE", (x, last, Const(np.array([1, 2], np.int32))), None, x[2:, :2]),
        ("STRIDED_SLICE", (x, last, last, Const(np.array([1, 1], np.int32))), SHRINK, x[2, 0]),
        ("GATHER", (x, last), options("Gather"), x[[2, 0]]),
        ("GATHER_ND", (x, last), options("GatherNd"), x[2, 0]),
    ):
        case = ModelCase(operator, "outside", inputs, table)
        interpreter = fb.Interpreter(model_content=case_model(case, [expected.shape]))
        interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(is_precision_loss_allowed=False)))
        (result,) = run_model(interpreter, runtime_inputs(case))
        np.testing.assert_array_equal(result, expected, operator)
