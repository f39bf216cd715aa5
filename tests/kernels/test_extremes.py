"""Infinities, NaN and negative bases: the results are those of LiteRT's CPU kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest

import framebind as fb
from framebind.interop.device import Device
from framebind.tools.certify.cases.operator_models import (
    Array,
    Const,
    ModelCase,
    case_model,
    options,
    output_shapes,
    run_model,
    run_on_cpu,
)
from framebind.tools.certify.cases.runs import all_runs
from framebind.tools.certify.checks import Subject
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


NAN = float("nan")


@pytest.mark.parametrize("axes", [[0], [1], [2], [0, 1], [1, 2], [0, 1, 2]], ids=str)
@pytest.mark.parametrize("operator", ["REDUCE_MAX", "REDUCE_MIN"])
@pytest.mark.parametrize("shape", [(3, 5, 6), (2, 40, 3), (1, 2, 131)], ids=str)
@pytest.mark.parametrize("value", [NAN, INFINITY, -INFINITY])
def test_extremes_of_nothing_but_one_value(
    gpu: Device, operator: str, axes: list[int], shape: tuple[int, ...], value: float
) -> None:
    given = (np.full(shape, value, np.float32), Const(np.array(axes, np.int32)))
    (found,), (expected,) = results(gpu, ModelCase(operator, f"{axes}", given, options("Reducer", keepDims=True)))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found, np.full_like(found, value))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_extremes_of_numbers_and_nan_are_those_of_the_numbers(gpu: Device, axis: int) -> None:
    """LiteRT's result depends on the order: it forgets the values before a NaN, or the NaN."""
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5) - 30
    x[1, 1:3], x[:, 3, 1:], x[2, 0, 0] = NAN, NAN, NAN
    for operator, of_numbers in (("REDUCE_MAX", np.fmax), ("REDUCE_MIN", np.fmin)):
        case = ModelCase(operator, f"{axis}", (x, Const(np.array([axis], np.int32))), options("Reducer", keepDims=True))
        np.testing.assert_array_equal(results(gpu, case)[0][0], of_numbers.reduce(x, axis, keepdims=True))


@pytest.mark.parametrize("operator", ["ARG_MAX", "ARG_MIN"])
def test_the_place_of_an_extreme_is_that_of_a_number(gpu: Device, operator: str) -> None:
    rows = [[NAN, 1, 2], [1, NAN, 2], [2, 1, NAN], [NAN, NAN, NAN], [NAN, -INFINITY, -INFINITY], [INFINITY, NAN, 1]]
    table = options("ArgMax" if operator == "ARG_MAX" else "ArgMin", outputType=2)
    given = (np.array(rows, np.float32), Const(np.array(1, np.int32)))
    (found,), (expected,) = results(gpu, ModelCase(operator, "NaN", given, table, dtypes=("int32",)))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("value", [NAN, INFINITY, -INFINITY, 0.0])
def test_a_vector_without_length_is_normalized_as_in_litert(gpu: Device, value: float) -> None:
    x = np.linspace(-2, 2, 40, dtype=np.float32).reshape(1, 2, 4, 5)
    x[0, 0, 1:3, 2], x[0, 1, 0] = value, value
    (found,), (expected,) = results(gpu, ModelCase("L2_NORMALIZATION", "", (x,), options("L2Norm")))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7, equal_nan=True)


@pytest.mark.parametrize("approximate", [False, True], ids=["erf", "tanh"])
def test_a_gelu_far_below_zero_is_zero(gpu: Device, approximate: bool) -> None:
    """1 + erf, and 1 + tanh on PoCL, is not 0 to the last bit there; times the value, that was 8e-8 of it."""
    x = -np.logspace(0, 30, 60, dtype=np.float32).reshape(1, 3, 4, 5)
    (found,), (expected,) = results(gpu, ModelCase("GELU", "below 0", (x,), options("Gelu", approximate=approximate)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_local_responses_of_one_channel_on_another_compiler() -> None:
    """Mesa's softpipe lost sums that a loop adds to an element of an array. Its driver is chosen once per process."""
    names = [
        str(run)
        for run in all_runs()
        if run.case.operator == "LOCAL_RESPONSE_NORMALIZATION" and run.case.inputs[0].shape[-1] == 1
    ]
    subjects = "".join(f"{json.dumps(asdict(Subject('operator', name, name.endswith(' halves'))))}\n" for name in names)
    command = [sys.executable, "-m", "framebind.tools.certify.worker", "gles"]
    environment = {**os.environ, "GALLIUM_DRIVER": "softpipe"}
    done = subprocess.run(command, input=subjects, env=environment, capture_output=True, text=True, timeout=120)
    device, *outcomes = map(json.loads, done.stdout.splitlines()) if done.stdout else [{"gpu": ""}]
    if "softpipe" not in device["gpu"]:
        pytest.skip(f"Mesa's softpipe is not here: {device['gpu'] or done.stderr[-200:]}")
    assert len(outcomes) == len(names) > 3 and all("passed" in json.dumps(outcome) for outcome in outcomes), outcomes


@pytest.mark.parametrize("body", ["MAXIMUM", "MINIMUM"])
def test_windows_forget_what_came_before_a_nan(gpu: Device, body: str) -> None:
    """The result is NaN only if the last value of the window is, as by LiteRT's comparisons."""
    x = np.array([[1, np.nan, 3, -INFINITY, INFINITY, np.nan, np.nan, 2, -2, np.nan]], np.float32)
    table = options(
        "StablehloReduceWindow", windowDimensions=[1, 3], windowStrides=[1, 1], windowDilations=[1, 1],
        baseDilations=[1, 1], padding=[0, 0, 1, 1], bodySubgraphIndex=1,
    )  # fmt: skip
    initial = Const(np.float32(-INFINITY if body == "MAXIMUM" else INFINITY))
    (found,), (expected,) = results(gpu, ModelCase("STABLEHLO_REDUCE_WINDOW", body, (x, initial), table, body=body))
    np.testing.assert_array_equal(found, expected)
