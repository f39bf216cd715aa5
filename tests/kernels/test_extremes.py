"""Infinities, NaN and negative bases: the results are those of LiteRT's CPU kernels."""

from __future__ import annotations

import numpy as np
import pytest

import framebind as fb
from framebind.delegate.certify.cases.operator_models import (
    Array,
    Const,
    ModelCase,
    case_model,
    options,
    output_shapes,
    run_model,
    run_on_cpu,
)
from framebind.interop.device import Device
from support.model_runs import backend_of

INFINITY = float("inf")


def results(gpu: Device, case: ModelCase) -> tuple[list[Array], list[Array]]:
    """The outputs on the GPU, and those of LiteRT's kernels, for the case's own inputs."""
    model, given = case_model(case, output_shapes(case)), [x for x in case.inputs if not isinstance(x, Const)]
    interpreter = fb.Interpreter(model_content=model)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend_of(gpu)))
    interpreter.modify_graph_with_delegate(delegate)
    found = run_model(interpreter, given)
    assert all(operator.runs_on != "cpu" for operator in interpreter.delegated_ops())
    delegate.close()
    return found, run_on_cpu(model, given)


@pytest.mark.parametrize(
    "row",
    [
        [1, INFINITY, 2, INFINITY, 0, -INFINITY, 7],
        [-INFINITY] * 7,
        [INFINITY] * 7,
        [-INFINITY, 3.4028234e38, -3.4028234e38, INFINITY, 0, -0.0, 0],
    ],
)
def test_the_largest_values_may_be_infinite(gpu: Device, row: list[float]) -> None:
    count = Const(np.array(5, np.int32))
    case = ModelCase(
        "TOPK_V2", "infinite", (np.array([row], np.float32), count), options("TopKV2"), 2, dtypes=("float32", "int32")
    )
    for found, expected in zip(*results(gpu, case), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("beta", [1.0, 2.0, 0.5])
def test_a_local_response_may_be_the_power_of_a_negative_number(gpu: Device, beta: float) -> None:
    """LiteRT's own tests have an alpha of -3. The power is NaN if the exponent is no whole number."""
    table = options("LocalResponseNormalization", radius=2, bias=1.0, alpha=-3.0, beta=beta)
    x = np.linspace(-2, 2, 30, dtype=np.float32).reshape(1, 2, 3, 5)
    (found,), (expected,) = results(gpu, ModelCase("LOCAL_RESPONSE_NORMALIZATION", f"{beta}", (x,), table))
    assert (expected < 0).any() and (beta != 0.5 or np.isnan(expected).any())
    np.testing.assert_allclose(found, expected, rtol=1e-5, equal_nan=True)
