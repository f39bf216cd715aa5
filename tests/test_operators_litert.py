"""Every operator over its attribute space, in LiteRT's own interpreter, against LiteRT's CPU kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import framebind as fb
from cases import relative_error
from conftest import CL_DEVICES
from framebind.delegate import program as program_module
from framebind.delegate.claims import claim
from framebind.delegate.reader import read_model
from framebind.kernels.registry import OPERATORS
from operator_cases import ALL_CASES, CASES
from operator_models import Const, ModelCase, case_model, ints, options, output_shapes, run, run_on_cpu, runtime_inputs
from references import Array, values
from test_operators import all_halves
from tiny_models import G, Op, T, build

TOLERANCE = {False: 1e-5, True: 1e-2}
"""By whether 16 bits are used: the largest error as a part of the largest reference value."""


def some_of_each(count: int) -> list[ModelCase]:
    """The first cases of every operator, and as many from all over the rest."""
    chosen: list[ModelCase] = []
    for name in dict.fromkeys(case.operator for case in CASES):
        cases = [case for case in CASES if case.operator == name]
        chosen += cases[:: max(1, len(cases) // count)][:count]
    return chosen


def check(case: ModelCase, *, half: bool = False) -> None:
    """The model on the GPU, in the context that is current, equals the model on the CPU."""
    model = case_model(case, output_shapes(case), negated=half)
    inputs = runtime_inputs(case)
    if half:
        inputs = [-x.astype(np.float16).astype(np.float32) for x in inputs]
    assert claim(read_model(model).subgraphs[0]).refused == {}
    interpreter = fb.Interpreter(model_content=model)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(is_precision_loss_allowed=half))
    interpreter.modify_graph_with_delegate(delegate)
    results = run(interpreter, inputs)
    delegate.close()
    assert any("output tensor" in reason for _, reason in fb.transfers.by_reason), "nothing came from the GPU"
    for result, expected in zip(results, run_on_cpu(model, inputs), strict=True):
        compare(case, result, expected, half)


def compare(case: ModelCase, result: Array, expected: Array, half: bool) -> None:
    if case.exact and not half:
        np.testing.assert_array_equal(result, expected)
    elif np.abs(expected).max() == 0:
        assert np.abs(result).max() <= TOLERANCE[half]
    else:
        assert relative_error(result, expected) <= TOLERANCE[half]


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_on_opengl(context: fb.GlContext, case: ModelCase) -> None:
    check(case)


@pytest.mark.parametrize("context", ["gles"], indirect=True)
@pytest.mark.parametrize("case", some_of_each(2), ids=str)
def test_on_opengl_es(context: fb.GlContext, case: ModelCase) -> None:
    check(case)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize("case", [case for case in some_of_each(3) if case.halves], ids=str)
def test_with_halves(context: fb.GlContext, case: ModelCase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_module, "assign_storages", all_halves)
    check(case, half=True)


SHAPE = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple)


@st.composite
def drawn_case(draw: st.DrawFn) -> ModelCase:
    """An operator that takes any shape, with attributes that fit it."""
    shape = draw(SHAPE)
    rank, x = len(shape), values(*shape)
    axes = draw(st.sets(st.integers(0, rank - 1), min_size=1, max_size=rank))
    axis = draw(st.integers(-rank, rank - 1))
    kind = draw(
        st.sampled_from(["TRANSPOSE", "TILE", "STRIDED_SLICE", "PAD", "SUM", "MEAN", "SOFTMAX", "CUMSUM", "SUB"])
    )
    if kind == "TRANSPOSE":
        return ModelCase(kind, "", (x, ints(*draw(st.permutations(range(rank))))), exact=True)
    if kind == "TILE":
        return ModelCase(
            kind, "", (x, ints(*draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank)))), exact=True
        )
    if kind == "STRIDED_SLICE":
        first = [draw(st.integers(0, n - 1)) for n in shape]
        last = [draw(st.integers(b + 1, n)) for b, n in zip(first, shape, strict=True)]
        steps, mask = [draw(st.integers(1, 3)) for _ in shape], st.integers(0, 15)
        table = options(kind.title().replace("_", ""), beginMask=draw(mask), endMask=draw(mask))
        return ModelCase(kind, "", (x, ints(*first), ints(*last), ints(*steps)), table, exact=True)
    if kind == "PAD":
        amounts = [[draw(st.integers(0, 3)), draw(st.integers(0, 3))] for _ in shape]
        return ModelCase(kind, "", (x, Const(np.array(amounts, np.int32))), options("Pad"), exact=True)
    if kind in ("SUM", "MEAN"):
        return ModelCase(kind, "", (x + 1, ints(*axes)), options("Reducer", keepDims=draw(st.booleans())))
    if kind == "SOFTMAX":
        return ModelCase(kind, "", (x * 5,), options("Softmax", beta=draw(st.floats(0.125, 4, width=32))))
    if kind == "CUMSUM":
        table = options("Cumsum", exclusive=draw(st.booleans()), reverse=draw(st.booleans()))
        return ModelCase(kind, "", (x, Const(np.array(axis, np.int32))), table)
    narrow = tuple(1 if i in axes else n for i, n in enumerate(shape))[draw(st.integers(0, rank - 1)) :]
    return ModelCase(kind, "", (x, values(*narrow, seed=1)), options("Sub"))


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=drawn_case())
def test_drawn_cases(context: fb.GlContext, case: ModelCase) -> None:
    fb.transfers.reset()
    check(case)


@pytest.mark.parametrize("cl_context", [name for name in CL_DEVICES if name != "cl:rusticl"], indirect=True)
@pytest.mark.parametrize("case", some_of_each(10), ids=str)
def test_on_opencl(cl_context: fb.ClContext, case: ModelCase) -> None:
    check(case)


@pytest.mark.parametrize("cl_context", ["cl:rusticl"], indirect=True)
@pytest.mark.parametrize("case", some_of_each(2), ids=str)
def test_on_another_opencl(cl_context: fb.ClContext, case: ModelCase) -> None:
    check(case)


def test_cases_have_names_of_their_own() -> None:
    assert len({str(case) for case in ALL_CASES}) == len(ALL_CASES)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_indices_cross_between_gpu_and_cpu(context: fb.GlContext) -> None:
    """ARG_MAX on the GPU, an integer operator on the CPU, and CAST of its result on the GPU again."""
    tensors = [
        T("x", (2, 3, 5)), T("negated", (2, 3, 5)), T("axis", (), np.int32(2), "int32"),
        T("found", (2, 3), None, "int32"), T("one", (), np.int32(1), "int32"),
        T("more", (2, 3), None, "int32"), T("y", (2, 3)),
    ]  # fmt: skip
    operators = [
        Op("NEG", [0], [1]),
        Op("ARG_MAX", [1, 2], [3], options("ArgMax", outputType=2)),
        Op("ADD", [3, 4], [5], options("Add")),
        Op("CAST", [5], [6], options("Cast")),
    ]
    model = build(G(tensors, operators, [0], [6]))
    assert claim(read_model(model).subgraphs[0]).refused == {2: "tensor 'found' is int32; only float32 is supported"}
    interpreter = fb.Interpreter(model_content=model)
    interpreter.modify_graph_with_delegate(fb.GpuDelegate())
    x = values(2, 3, 5)
    np.testing.assert_array_equal(run(interpreter, [x])[0], (-x).argmax(2) + 1)
    reasons = [reason for _, reason in fb.transfers.by_reason]
    assert "output tensor 3 'found' to the CPU" in reasons
    assert "input tensor 5 'more' from the CPU" in reasons


CUSTOM = {"Convolution2DTransposeBias", "MaxPoolingWithArgmax2D", "MaxUnpooling2D", "Resampler"}
"""LiteRT has no CPU kernel of these: test_custom_operators.py, and test_operators.py for the first, have NumPy."""

ELSEWHERE = {"DENSIFY", "DEQUANTIZE", "QUANTIZE"}
"""They have tests of their own: test_sparse.py, test_quantized.py."""


@pytest.mark.parametrize("name", sorted(set(OPERATORS) - CUSTOM - ELSEWHERE))
def test_the_attribute_space_is_covered(name: str) -> None:
    assert len([case for case in CASES if case.operator == name]) >= 20
