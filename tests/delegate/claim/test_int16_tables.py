"""Functions of int16 that LiteRT interpolates: the GPU computes those whose table is near the function."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.delegate.claim.int16_tables import LARGEST_ERROR, table_error
from framebind.interop.device import Device
from framebind.tools.certify.cases.operator_models import options, run_model, run_on_cpu
from framebind.video.tflite_writer import G, Op, T, build
from support.model_runs import backend_of

FINE = [("EXP", 3e-5, 1e-4), ("EXP", 1e-5, 1e-3), ("GELU", 1e-4, 1e-4)]
"""Operators, and scales of their input and output, at which LiteRT's table is near the function."""
COARSE = [("EXP", 3e-4, 1e-3), ("GELU", 3e-4, 1e-4), ("LOG", 1e-4, 1e-3), ("RSQRT", 1e-5, 1e-3)]


def every_integer(lowest: int) -> npt.NDArray[np.int16]:
    return np.arange(-32768, 32768).clip(lowest).astype(np.int16).reshape(1, 256, 256, 1)


def one_operator(name: str, source_scale: float, result_scale: float) -> tuple[bytes, npt.NDArray[Any]]:
    """A model of int16, and every integer that LiteRT takes: its RSQRT refuses those below 0."""
    x = every_integer(1 if name == "RSQRT" else -32768)
    tensors = [
        T(tensor, x.shape, dtype="int16", scales=[scale], zero_points=[0])
        for tensor, scale in (("x", source_scale), ("y", result_scale))
    ]
    return build(G(tensors, [Op(name, [0], [1], options("Gelu") if name == "GELU" else None, 2)], [0], [1])), x


def on_gpu(gpu: Device, model: bytes, x: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], str]:
    """The operator's results, and why it stays on the CPU."""
    interpreter = fb.Interpreter(model_content=model)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend_of(gpu)))
    interpreter.modify_graph_with_delegate(delegate)
    (result,) = run_model(interpreter, [x])
    (operator,) = interpreter.delegated_ops()
    delegate.close()
    return result, operator.reason


@pytest.mark.parametrize(("name", "source_scale", "result_scale"), FINE)
def test_a_table_near_the_function_runs_on_the_gpu(
    gpu: Device, name: str, source_scale: float, result_scale: float
) -> None:
    model, x = one_operator(name, source_scale, result_scale)
    found, reason = on_gpu(gpu, model, x)
    (expected,) = run_on_cpu(model, [x])
    assert reason == "" and len(np.unique(expected)) > 10
    assert np.abs(found.astype(int) - expected).max() <= LARGEST_ERROR


@pytest.mark.parametrize(("name", "source_scale", "result_scale"), COARSE)
def test_a_table_far_from_the_function_stays_on_the_cpu(
    gpu: Device, name: str, source_scale: float, result_scale: float
) -> None:
    model, x = one_operator(name, source_scale, result_scale)
    found, reason = on_gpu(gpu, model, x)
    error = table_error(name, source_scale, result_scale)
    assert error > 10 and reason == (
        "LiteRT interpolates int16 between 513 values, which at the scales of 'x' and 'y' is up to "
        f"{error:.0f} steps off"
    )
    np.testing.assert_array_equal(found, run_on_cpu(model, [x])[0])


@pytest.mark.parametrize(("name", "function"), [("EXP", np.exp), ("LOG", np.log)])
@pytest.mark.parametrize(("source_scale", "result_scale"), [(3e-5, 1e-4), (1e-4, 1e-3), (2.8e-4, 0.3), (1e-6, 2e-4)])
def test_the_error_is_that_of_litert_s_table(
    name: str, function: Any, source_scale: float, result_scale: float
) -> None:
    """All 65,536 integers are compared. LiteRT makes its table in 32 bits: two values may each be a step beside."""
    model, x = one_operator(name, source_scale, result_scale)
    (found,) = run_on_cpu(model, [x])
    with np.errstate(all="ignore"):
        exact = np.nan_to_num(np.rint(function(x * source_scale) / result_scale), nan=-32768).clip(-32768, 32767)
    assert abs(np.abs(found - exact).max() - table_error(name, source_scale, result_scale)) <= 2
