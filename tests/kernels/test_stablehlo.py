"""Builtin operators that LiteRT's interpreter does not have, against NumPy.

The references follow openxla.org/stablehlo/spec: cbrt, clamp, remainder (the sign is the dividend's) and
broadcast_in_dim.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import ai_edge_litert.interpreter as litert
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.delegate.read.gpu_only import NAMES, with_custom_codes
from framebind.interop.device import Device
from framebind.tools.certify.cases.operator_models import (
    SHAPES,
    Const,
    ModelCase,
    case_model,
    options,
    run_model,
    values,
)
from support.model_runs import backend_of
from support.models import relative_error
from support.tiny_models import G, Op, T, build

Values = npt.NDArray[Any]


@dataclass(frozen=True)
class HloCase:
    """A model of one operator, and the values that it computes."""

    model: ModelCase
    expected: Values
    tolerance: float = 0.0

    def __str__(self) -> str:
        return str(self.model)


def integers(*shape: int, seed: int = 0) -> npt.NDArray[np.int32]:
    return np.random.default_rng(seed).integers(-(1 << 31), 1 << 31, shape).astype(np.int32)


def whole(operator: str, label: str, inputs: tuple[Any, ...], expected: Values) -> HloCase:
    """A case of int32, whose result an operator of the GPU reads."""
    return HloCase(ModelCase(operator, label, inputs, dtype="int32", read=True), expected)


def cases() -> list[HloCase]:
    found = list[HloCase]()
    for number, shape in enumerate([*SHAPES[::2], (2, 1, 3, 2, 4)]):
        x = values(*shape) * 10.0 ** np.float32(number * 5 - 12)
        found.append(HloCase(ModelCase("STABLEHLO_CBRT", f"{shape}", (x,)), np.cbrt(x), 1e-6))
        x, y = values(*shape) * 9, values(*shape, seed=4)
        y += np.copysign(np.float32(0.1), y)
        model = ModelCase("STABLEHLO_REMAINDER", f"{shape}", (x, Const(y) if number % 2 else y))
        found.append(HloCase(model, np.fmod(x, y), 1e-6))
        found.extend(clamped(number, shape))
        k, divisor = integers(*shape), integers(*shape, seed=1) % 100 + 1
        k.flat[0], divisor.flat[0] = -(1 << 31), 3
        inputs = (k, Const(divisor))
        found.append(whole("STABLEHLO_REMAINDER", f"{shape} int32", inputs, np.fmod(k, divisor)))
    return [*found, *broadcasts()]


def clamped(number: int, shape: tuple[int, ...]) -> list[HloCase]:
    scalar = np.float32(-0.25)
    low, high = (values(*shape, seed=1) - 1, values(*shape, seed=2)) if number % 2 else (scalar, scalar + 1)
    x = values(*shape)
    inputs = (Const(low), x, high if number % 3 == 1 else Const(high))
    floats = ModelCase("STABLEHLO_CLAMP", f"{shape}", inputs)
    k, ends = integers(*shape), (np.int32(-(1 << 30)), np.int32((1 << 30) + 1))
    table = tuple(Const(end) for end in ends)
    expected = np.minimum(np.maximum(k, ends[0]), ends[1])
    return [
        HloCase(floats, np.minimum(np.maximum(x, low), high)),
        whole("STABLEHLO_CLAMP", f"{shape} int32", (table[0], k, table[1]), expected),
    ]


def broadcasts() -> list[HloCase]:
    found = []
    for shape, places, target in [
        ((5,), (3,), (2, 3, 4, 5)), ((3,), (1,), (2, 3, 4, 6)), ((1, 4), (0, 2), (3, 2, 4, 7)), ((), (), (2, 5)),
        ((2, 3, 5, 7), (0, 1, 2, 3), (2, 3, 5, 7)), ((3, 2), (1, 0), (2, 3)), ((2, 4, 5), (3, 0, 1), (4, 5, 3, 2)),
        ((2, 3, 4), (0, 2, 4), (2, 3, 3, 2, 4)), ((1,), (0,), (9,)),
    ]:  # fmt: skip
        x = values(*shape)
        table = options("StablehloBroadcastInDim", broadcastDimensions=list(places))
        model = ModelCase("STABLEHLO_BROADCAST_IN_DIM", f"{shape} {places} {target}", (x,), table, shapes=(target,))
        order = sorted(range(len(places)), key=places.__getitem__)
        sizes = [shape[places.index(place)] if place in places else 1 for place in range(len(target))]
        found.append(HloCase(model, np.broadcast_to(x.transpose(order).reshape(sizes), target)))
    return found


CASES = cases()


def run(gpu: Device, case: ModelCase, shape: tuple[int, ...]) -> list[Values]:
    """The outputs of the case's model, whose operators are all on the GPU."""
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend_of(gpu)))
    model = case_model(case, [shape])
    interpreter = fb.Interpreter(model_content=model, experimental_delegates=[delegate])
    assert {op.runs_on for op in interpreter.delegated_ops()} == {"gpu"}, interpreter.delegated_ops()
    given = [x for x in case.inputs if not isinstance(x, Const)]
    found = run_model(interpreter, given)
    delegate.close()
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_operator(gpu: Device, case: HloCase) -> None:
    found = run(gpu, case.model, case.expected.shape)[0]
    if case.tolerance:
        assert relative_error(found, case.expected) <= case.tolerance
    else:
        np.testing.assert_array_equal(found, case.expected)


def test_infinities_and_nan(gpu: Device) -> None:
    """A remainder by an infinity is the dividend; NaN stays NaN."""
    inf, nan = np.float32(np.inf), np.float32(np.nan)
    x = np.array([inf, -inf, nan, 3, -3, 3, 0, 5], np.float32)
    y = np.array([2, 2, 2, inf, -inf, nan, 2, 0], np.float32)
    with np.errstate(invalid="ignore"):
        expected = np.fmod(x, y)
    np.testing.assert_array_equal(run(gpu, ModelCase("STABLEHLO_REMAINDER", "", (x, y)), (8,))[0], expected)
    np.testing.assert_array_equal(
        run(gpu, ModelCase("STABLEHLO_CBRT", "", (x,)), (8,))[0][[0, 1, 2, 6]], x[[0, 1, 2, 6]]
    )
    bounds = Const(np.float32(-1)), Const(np.float32(2))
    found = run(gpu, ModelCase("STABLEHLO_CLAMP", "", (bounds[0], x, bounds[1])), (8,))[0]
    np.testing.assert_array_equal(found, [2, -1, nan, 2, -1, 2, 0, 2])


def test_litert_still_refuses_these_operators_and_takes_them_as_custom_ones() -> None:
    """``TfliteOp.only_gpu`` is to go where LiteRT has a kernel."""
    assert len(NAMES) == 4
    for name in NAMES:
        tensors = [T("a", (2,)), T("b", (2,)), T("c", (2,)), T("y", (2,))]
        model = build(G(tensors, [Op(name, [0, 1, 2], [3])], [0, 1, 2], [3]))
        with pytest.raises(ValueError, match="Didn't find op"):
            litert.Interpreter(model_content=model)
        litert.Interpreter(model_content=with_custom_codes(model))


def test_several_codes_are_changed_and_others_are_not() -> None:
    """Two operators of the GPU only, around one that LiteRT has; without a delegate LiteRT names the first."""
    tensors = [T(name, (2, 3)) for name in "xabcy"]
    operators = [Op("STABLEHLO_CBRT", [0], [1]), Op("EXP", [1], [2]), Op("STABLEHLO_REMAINDER", [2, 0], [3])]
    model = build(G(tensors, [*operators, Op("NEG", [3], [4])], [0], [4]))
    interpreter = fb.Interpreter(model_content=model)
    assert [op.name for op in interpreter.delegated_ops()] == ["STABLEHLO_CBRT", "EXP", "STABLEHLO_REMAINDER", "NEG"]
    with pytest.raises(RuntimeError, match="STABLEHLO_CBRT"):
        interpreter.allocate_tensors()
    interpreter = fb.Interpreter(model_content=model)
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(backend="null")))
    interpreter.allocate_tensors()
    assert {(op.runs_on, op.partition) for op in interpreter.delegated_ops()} == {("gpu", 0)}


def test_an_operator_that_a_converter_could_not_translate_is_told_from_a_newer_one() -> None:
    tensors = [T(name, (1, 2, 2, 2)) for name in "xwy"]
    model = build(G(tensors, [Op("STABLEHLO_CONVOLUTION", [0, 1], [2])], [0, 1], [2]))
    with pytest.raises(fb.ModelError, match=r"'STABLEHLO_CONVOLUTION' .* replace the layer, and convert"):
        fb.Interpreter(model_content=model)


def test_damaged_files_are_left_to_the_reader() -> None:
    model = build(G([T("x", (2,)), T("y", (2,))], [Op("STABLEHLO_CBRT", [0], [1])], [0], [1]))
    for size, place in itertools.product((4, 20, len(model) // 2), (0, 8)):
        damaged = model[:place] + b"\xff" * 4 + model[place + 4 : size]
        assert with_custom_codes(damaged) is damaged
        with pytest.raises(fb.ModelError):
            fb.Interpreter(model_content=damaged)


@pytest.mark.parametrize(
    "operator, inputs, table, reason",
    [
        ("STABLEHLO_CLAMP", (Const(np.zeros(3, np.float32)), values(2, 3), Const(np.float32(1))), None, "its bound"),
        ("STABLEHLO_REMAINDER", (values(2, 3), values(3)), None, "its operands differ in shape"),
        ("STABLEHLO_REMAINDER", (integers(2, 3), integers(2, 3)), None, "its divisor 'input1' may be 0"),
        ("STABLEHLO_BROADCAST_IN_DIM", (values(2, 3),), (0,), "do not name one of the result for each"),
        ("STABLEHLO_BROADCAST_IN_DIM", (values(2, 3),), (0, 2), "are outside rank 2"),
        ("STABLEHLO_BROADCAST_IN_DIM", (values(4, 3),), (0, 1), "does not become dimensions (0, 1) of (2, 3)"),
    ],
)
def test_reasons(operator: str, inputs: tuple[Any, ...], table: Any, reason: str) -> None:
    given = None if table is None else options("StablehloBroadcastInDim", broadcastDimensions=list(table))
    dtype = "int32" if isinstance(inputs[0], np.ndarray) and inputs[0].dtype == np.int32 else "float32"
    model = case_model(ModelCase(operator, "", inputs, given, dtype=dtype), [(2, 3)])
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="null"))
    interpreter = fb.Interpreter(model_content=model, experimental_delegates=[delegate])
    (seen,) = interpreter.delegated_ops()
    assert seen.runs_on == "cpu" and reason in seen.reason
