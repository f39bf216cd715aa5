"""Every operator over its attribute space, in LiteRT's own interpreter, against LiteRT's CPU kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.read.reader import read_model
from framebind.interop.null.device import NullDevice
from framebind.tools.certify.cases.operator_cases import CASES
from framebind.tools.certify.cases.operator_models import (
    Array,
    ModelCase,
    options,
    run_model,
    run_on_cpu,
    runtime_inputs,
    values,
)
from framebind.tools.certify.cases.runs import Run, all_halves
from support.cases.drawn_cases import drawn_case
from support.models import relative_error
from support.tiny_models import G, Op, T, build

TOLERANCE = {False: 1e-5, True: 1e-2}
"""The largest error as a part of the largest reference value, by whether 16 bits are used."""


def check(run: Run) -> None:
    """The model on the GPU, in the context that is current, equals the model on the CPU."""
    model, inputs = run.model, runtime_inputs(run.case)
    if run.half:
        inputs = [-x.astype(np.float16).astype(np.float32) for x in inputs]
    assert claim(read_model(model).subgraphs[0], lambda: NullDevice().traits.target).unsupported == {}
    interpreter = fb.Interpreter(model_content=model)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(is_precision_loss_allowed=run.half))
    if run.half:
        delegate.engine.maker.storage_rule = all_halves
    interpreter.modify_graph_with_delegate(delegate)
    results = run_model(interpreter, inputs)
    delegate.close()
    assert any("output tensor" in reason for _, reason in fb.transfers.by_reason), "nothing came from the GPU"
    for result, expected in zip(results, run_on_cpu(model, inputs), strict=True):
        compare(run, result, expected)


def compare(run: Run, result: Array, expected: Array) -> None:
    if run.case.exact and not run.half:
        np.testing.assert_array_equal(result, expected)
    elif np.abs(expected).max() == 0:
        assert np.abs(result).max() <= TOLERANCE[run.half]
    else:
        assert relative_error(result, expected) <= TOLERANCE[run.half]


def test_operator(operator_run: Run) -> None:
    """The runs that the tier chooses for each device (support/cases/cover.py)."""
    check(operator_run)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=drawn_case())
def test_drawn_cases(context: fb.GlContext, case: ModelCase) -> None:
    fb.transfers.reset()
    check(Run(case))


def test_cases_have_names_of_their_own() -> None:
    assert len({str(case) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_indices_cross_between_gpu_and_cpu(context: fb.GlContext) -> None:
    """ARG_MAX on the GPU, an integer operator on the CPU, and CAST of its result on the GPU again."""
    tensors = [
        T("x", (2, 3, 5)), T("negated", (2, 3, 5)), T("axis", (), np.int32(2), "int32"),
        T("found", (2, 3), None, "int32"), T("lengths", (2,), [3, 3], "int32"),
        T("turned", (2, 3), None, "int32"), T("y", (2, 3)),
    ]  # fmt: skip
    operators = [
        Op("NEG", [0], [1]),
        Op("ARG_MAX", [1, 2], [3], options("ArgMax", outputType=2)),
        Op("REVERSE_SEQUENCE", [3, 4], [5], options("ReverseSequence", seqDim=1, batchDim=0)),
        Op("CAST", [5], [6], options("Cast")),
    ]
    model = build(G(tensors, operators, [0], [6]))
    (reason,) = claim(read_model(model).subgraphs[0], lambda: NullDevice().traits.target).unsupported.values()
    assert reason == "the operator is not supported"
    interpreter = fb.Interpreter(model_content=model)
    interpreter.modify_graph_with_delegate(fb.GpuDelegate())
    x = values(2, 3, 5)
    np.testing.assert_array_equal(run_model(interpreter, [x])[0], (-x).argmax(2)[:, ::-1])
    reasons = [reason for _, reason in fb.transfers.by_reason]
    assert "output tensor 3 'found' to the CPU" in reasons
    assert "input tensor 5 'turned' from the CPU" in reasons


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_the_target_of_a_reshape_is_computed_from_a_static_shape(context: fb.GlContext) -> None:
    """SHAPE, a slice of it, a product and PACK, as converters write them: nothing of it is left to run."""
    tensors = [
        T("x", (2, 3, 4, 5)), T("y", (2, 3, 4, 5)), T("shape", (4,), None, "int32"), T("batch", (), None, "int32"),
        T("begin", (1,), [0], "int32"), T("end", (1,), [1], "int32"), T("step", (1,), [1], "int32"),
        T("three", (), 3, "int32"), T("rows", (), None, "int32"), T("twenty", (), 20, "int32"),
        T("target", (2,), None, "int32"), T("z", (6, 20)), T("w", (6, 20)),
    ]  # fmt: skip
    operators = [
        Op("NEG", [0], [1]),
        Op("SHAPE", [1], [2], options("Shape", outType=2)),
        Op("STRIDED_SLICE", [2, 4, 5, 6], [3], options("StridedSlice", shrinkAxisMask=1)),
        Op("MUL", [3, 7], [8], options("Mul")),
        Op("PACK", [8, 9], [10], options("Pack", valuesCount=2, axis=0)),
        Op("RESHAPE", [1, 10], [11], options("Reshape")),
        Op("EXP", [11], [12]),
    ]
    model = build(G(tensors, operators, [0], [12]))
    interpreter = fb.Interpreter(model_content=model)
    delegate = fb.GpuDelegate()
    interpreter.modify_graph_with_delegate(delegate)
    x = values(2, 3, 4, 5)
    np.testing.assert_allclose(run_model(interpreter, [x])[0], np.exp(-x).reshape(6, 20), rtol=1e-6)
    program = delegate.engine.partitions[0].program
    assert program is not None and len(program.steps) == 2
    interpreter.resize_tensor_input(0, (4, 3, 4, 5))
    x = values(4, 3, 4, 5)
    np.testing.assert_allclose(run_model(interpreter, [x])[0], np.exp(-x).reshape(12, 20), rtol=1e-6)
