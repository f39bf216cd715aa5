"""Operators whose kernels in LiteRT take quantized integers as they are: no scale or zero point makes other results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ai_edge_litert.interpreter as litert
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.tools.certify.cases.operator_models import CPU_KERNELS, options
from framebind.video.tflite_writer import G, Op, T, build

Kind = dict[str, Any]
"""The type of a tensor, its scale and its zero point."""


def kind(dtype: str, scale: float, zero_point: int) -> Kind:
    return {"dtype": dtype, "scales": [scale], "zero_points": [zero_point]}


def cast(given: Kind, _: Kind) -> G:
    constant = T("k", (6,), np.array([4, 2, 1, 1, 1, 9], given["dtype"]), **given)
    tensors = [T("x", (1, 6)), constant, T("f", (6,)), T("y", (1, 6))]
    return G(tensors, [Op("CAST", [1], [2], options("Cast")), Op("ADD", [0, 2], [3], options("Add"))], [0], [3])


def select(given: Kind, result: Kind) -> G:
    tensors = [
        T("c", (1, 6), np.array([[1, 0, 1, 1, 0, 0]], bool), "bool"), T("x", (1, 6), **given),
        T("k", (1, 6), np.arange(6).astype(given["dtype"]).reshape(1, 6), **given), T("y", (1, 6), **result),
    ]  # fmt: skip
    return G(tensors, [Op("SELECT", [0, 1, 2], [3], options("Select"))], [1], [3])


def select_v2(given: Kind, result: Kind) -> G:
    tensors = [
        T("c", (1, 6), dtype="bool"),
        T("x", (1, 6), **given),
        T("z", (1, 6), **result),
        T("y", (1, 6), **result),
    ]
    return G(tensors, [Op("SELECT_V2", [0, 1, 2], [3], options("SelectV2"))], [0, 1, 2], [3])


def one_hot(given: Kind, result: Kind) -> G:
    on, off = (T(name, (), np.array(value, given["dtype"]), **given) for name, value in (("on", 50), ("off", 10)))
    tensors = [T("i", (4,), dtype="int32"), T("d", (), np.array(3), "int32"), on, off, T("y", (4, 3), **result)]
    return G(tensors, [Op("ONE_HOT", [0, 1, 2, 3], [4], options("OneHot", axis=-1))], [0], [4])


def broadcast(given: Kind, result: Kind) -> G:
    tensors = [T("x", (1, 6), **given), T("s", (2,), np.array([3, 6]), "int32"), T("y", (3, 6), **result)]
    return G(tensors, [Op("BROADCAST_TO", [0, 1], [2], version=2)], [0], [2])


def resize(given: Kind, result: Kind) -> G:
    tensors = [T("x", (1, 2, 3, 1), **given), T("s", (2,), np.array([4, 6]), "int32"), T("y", (1, 4, 6, 1), **result)]
    return G(tensors, [Op("RESIZE_BILINEAR", [0, 1], [2], options("ResizeBilinear"))], [0], [2])


def concatenation(given: Kind, result: Kind) -> G:
    tensors = [T("x", (1, 6), **given), T("z", (1, 6), **result), T("y", (2, 6), **result)]
    return G(tensors, [Op("CONCATENATION", [0, 1], [2], options("Concatenation", axis=0))], [0, 1], [2])


def negative(given: Kind, result: Kind) -> G:
    return G([T("x", (1, 6), **given), T("y", (1, 6), **result)], [Op("NEG", [0], [1], options("Neg"))], [0], [1])


def softmax(given: Kind, result: Kind) -> G:
    tensors = [T("x", (1, 6), **given), T("y", (1, 6), **result)]
    return G(tensors, [Op("SOFTMAX", [0], [1], options("Softmax", beta=1.0))], [0], [1])


def floor(operator: str) -> Callable[[Kind, Kind], G]:
    def model(given: Kind, result: Kind) -> G:
        divisor = T("z", (1, 6), np.arange(5, 11).astype(given["dtype"]).reshape(1, 6), **given)
        return G([T("x", (1, 6), **given), divisor, T("y", (1, 6), **result)], [Op(operator, [0, 1], [2])], [0], [2])

    return model


def transpose_conv(given: Kind, result: Kind) -> G:
    weights = np.arange(-18, 18).astype(np.int8).reshape(2, 3, 3, 2)
    tensors = [
        T("s", (4,), np.array([1, 8, 8, 2]), "int32"), T("w", weights.shape, weights, **given),
        T("x", (1, 4, 4, 2), **kind("int8", 0.125, 1)), T("y", (1, 8, 8, 2), **kind("int8", 1.5, 2)),
    ]  # fmt: skip
    given_options = options("TransposeConv", strideW=2, strideH=2)
    return G(tensors, [Op("TRANSPOSE_CONV", [0, 1, 2], [3], given_options)], [2], [3])


MODELS: dict[str, Callable[[Kind, Kind], G]] = {
    "CAST": cast, "SELECT": select, "SELECT_V2": select_v2, "ONE_HOT": one_hot, "BROADCAST_TO": broadcast,
    "RESIZE_BILINEAR": resize, "CONCATENATION": concatenation, "NEG": negative, "SOFTMAX": softmax,
    "FLOOR_DIV": floor("FLOOR_DIV"), "FLOOR_MOD": floor("FLOOR_MOD"), "TRANSPOSE_CONV": transpose_conv,
}  # fmt: skip
ALL = (("int8", 3, 1), ("uint8", 3, 1), ("int16", 0, 0))
"""Types, with the zero points of what is read and of what is written."""
TYPES = {
    **dict.fromkeys(MODELS, ALL), "CONCATENATION": ALL[2:], "SOFTMAX": ALL[1:2], "TRANSPOSE_CONV": ALL[:1],
    "ONE_HOT": ALL[:2], "FLOOR_DIV": (ALL[0], ALL[2]), "FLOOR_MOD": (ALL[0], ALL[2]), "NEG": (ALL[0], ALL[2]),
    "RESIZE_BILINEAR": ALL[2:],
}  # fmt: skip
"""The types that LiteRT takes, by operator. XNNPACK refuses models whose RESIZE_BILINEAR of 8 bits has two scales."""
CASES = [(operator, *case) for operator in MODELS for case in TYPES[operator]]


def results(interpreter: litert.Interpreter) -> list[npt.NDArray[np.float64]]:
    interpreter.allocate_tensors()
    draw = np.random.default_rng(0)
    for details in interpreter.get_input_details():
        held = interpreter.get_tensor(details["index"])
        most = {"bool": 2, "int32": 3}.get(held.dtype.name, 100)
        interpreter.set_tensor(details["index"], draw.integers(0, most, held.shape).astype(held.dtype))
    interpreter.invoke()
    return [interpreter.get_tensor(output["index"]).astype(float) for output in interpreter.get_output_details()]


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize(("operator", "dtype", "given", "result"), CASES)
@pytest.mark.parametrize("scale", [0.125, 0.25])
def test_no_scale_makes_other_results(
    context: fb.GlContext, operator: str, dtype: str, given: int, result: int, scale: float
) -> None:
    content = build(MODELS[operator](kind(dtype, 0.125, given), kind(dtype, scale, result)))
    (expected,) = results(litert.Interpreter(model_content=content, experimental_op_resolver_type=CPU_KERNELS))
    interpreter = fb.Interpreter(model_content=content)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(is_precision_loss_allowed=False))
    interpreter.modify_graph_with_delegate(delegate)
    (found,) = results(interpreter)
    delegate.close()
    assert np.abs(found - expected).max() <= 1


@pytest.mark.parametrize(
    "operator", ["SELECT", "SELECT_V2", "ONE_HOT", "BROADCAST_TO", "RESIZE_BILINEAR", "CONCATENATION", "NEG", "SOFTMAX"]
)
def test_what_has_one_scale_stays_on_the_gpu(operator: str) -> None:
    dtype = TYPES[operator][-1][0]
    content = build(MODELS[operator](kind(dtype, 0.125, 0), kind(dtype, 0.125, 0)))
    interpreter = fb.Interpreter(model_content=content)
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(backend="null")))
    interpreter.allocate_tensors()
    assert {found.runs_on for found in interpreter.delegated_ops()} == {"gpu"}
