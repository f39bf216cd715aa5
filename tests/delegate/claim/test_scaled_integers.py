"""Integers of 32 and 64 bits with a quantization scale: it counts for biases, and not for axes and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import ai_edge_litert.interpreter as litert
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.read.reader import read_model
from framebind.interop.null.device import NullDevice
from framebind.kernels.tensor import INDEX_DTYPES
from framebind.tools.certify.cases.operator_cases import CASES
from framebind.tools.certify.cases.operator_models import (
    CPU_KERNELS,
    Const,
    ModelCase,
    case_model,
    options,
    output_shapes,
    run_model,
    runtime_inputs,
)
from support.tiny_models import G, Op, T, build, pack, unpack

INT32, INT64 = 2, 4
"""The numbers of these types in the schema."""


def has_integers(case: ModelCase) -> bool:
    return any(isinstance(i, Const) and str(np.asarray(i.values).dtype) in INDEX_DTYPES for i in case.inputs)


def chosen() -> dict[str, list[ModelCase]]:
    """The first cases of each operator with constant integers: two for each number of inputs."""
    cases = sorted(filter(has_integers, CASES), key=lambda case: (case.operator, len(case.inputs)))
    found: dict[str, list[ModelCase]] = {}
    for (operator, _), alike in groupby(cases, key=lambda case: (case.operator, len(case.inputs))):
        found.setdefault(operator, []).extend(list(alike)[:2])
    return found


CHOSEN = chosen()


def scaled(content: bytes) -> bytes:
    """The model with the scale 0.5 for each constant of int32 and int64."""
    model: Any = unpack(content)
    quantization: Any = unpack(build(G([T("x", (1,), dtype="int8", scales=[0.5], zero_points=[0])], [], [0], [0])))
    for tensor in model.subgraphs[0].tensors:
        data = model.buffers[tensor.buffer].data
        if tensor.type in (INT32, INT64) and data is not None and len(data):
            tensor.quantization = quantization.subgraphs[0].tensors[0].quantization
    return pack(model)


def results(interpreter: litert.Interpreter, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]] | None:
    """The outputs; None if LiteRT refuses the model."""
    try:
        return run_model(interpreter, inputs)
    except (RuntimeError, ValueError, fb.ModelError):
        return None


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize("operator", CHOSEN)
def test_no_operator_reads_a_scaled_index(context: fb.GlContext, operator: str) -> None:
    for case in CHOSEN[operator]:
        content, inputs = scaled(case_model(case, output_shapes(case))), runtime_inputs(case)
        expected = results(litert.Interpreter(model_content=content, experimental_op_resolver_type=CPU_KERNELS), inputs)
        interpreter = fb.Interpreter(model_content=content)
        delegate = fb.GpuDelegate(fb.GpuDelegateOptions(is_precision_loss_allowed=False))
        interpreter.modify_graph_with_delegate(delegate)
        found = results(interpreter, inputs)
        delegate.close()
        assert (found is None) == (expected is None), case
        for value, wanted in zip(found or (), expected or (), strict=True):
            assert (value.shape, value.dtype) == (wanted.shape, wanted.dtype), case
            assert np.abs(value - wanted.astype(np.float64)).max() <= 1e-5 * np.abs(wanted).max(), case


def test_a_bias_that_is_an_axis_too() -> None:
    """One tensor is the bias of one operator, which then stays on the CPU, and the axes of another."""
    tensors = [
        T("x", (1, 4, 4, 2), dtype="int8", scales=[0.5], zero_points=[0]),
        T("weights", (2, 1, 1, 2), np.ones((2, 1, 1, 2)), "int8", scales=[0.5], zero_points=[0]),
        T("shared", (2,), [1, 2], "int32", scales=[0.25], zero_points=[0]),
        T("y", (1, 4, 4, 2), dtype="int8", scales=[0.5], zero_points=[0]),
        T("mean", (1, 2), dtype="int8", scales=[0.5], zero_points=[0]),
    ]
    conv = Op("CONV_2D", [0, 1, 2], [3], options("Conv2D", strideW=1, strideH=1))
    mean = Op("MEAN", [3, 2], [4], options("Reducer"))

    def reasons(*operators: Op) -> Mapping[int, str]:
        subgraph = read_model(build(G(tensors, operators, [0], [operators[-1].outputs[0]]))).subgraphs[0]
        return claim(subgraph, lambda: NullDevice().traits.target).unsupported

    assert reasons(conv) == {}
    assert "'shared' is int32" in reasons(conv, mean)[0]
