"""The integers that the GPU computes, and why others stay on the CPU. Their bits are cases of certify/."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.delegate.claim.claims import Claims, claim
from framebind.delegate.read.reader import read_model
from framebind.interop.device import Device
from framebind.interop.null.device import NullDevice
from framebind.interop.record.one_dispatch import merge
from framebind.kernels.codegen.glsl import GLSL
from framebind.kernels.codegen.render import render_program
from framebind.tools.certify.cases.operator_models import options, run_model, run_on_cpu, values
from null_programs import program_on_null
from support.model_runs import backend_of
from support.tiny_models import G, Op, T, build

BINARY = {
    "ADD": "Add", "SUB": "Sub", "MUL": "Mul", "MAXIMUM": "MaximumMinimum", "MINIMUM": "MaximumMinimum",
    "SQUARED_DIFFERENCE": "",
}  # fmt: skip
DIVISIONS, UNARY = ("DIV", "FLOOR_DIV", "FLOOR_MOD"), ("ABS", "NEG", "SIGN")
REDUCTIONS = ("SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")


class Integers:
    """A model whose inputs are int32: each result is an output, and a CAST on the GPU reads it."""

    def __init__(self, *inputs: npt.NDArray[Any]) -> None:
        self.given = inputs
        self.tensors = [T(f"x{i}", x.shape, None, str(x.dtype)) for i, x in enumerate(inputs)]
        self.operators, self.outputs = list[Op](), list[int]()

    def constant(self, given: Any, dtype: str = "int32") -> int:
        array = np.asarray(given, dtype)
        self.tensors.append(T(f"constant {len(self.tensors)}", array.shape, array, dtype))
        return len(self.tensors) - 1

    def add(self, name: str, inputs: list[int], shape: Any, table: Any = None, dtype: str = "int32") -> int:
        self.tensors += [T(name, shape, None, dtype), T(f"float of {name}", shape)]
        result = len(self.tensors) - 2
        self.operators.append(Op(name, inputs, [result], table))
        self.operators.append(Op("CAST", [result], [result + 1], options("Cast")))
        self.outputs += [result, result + 1]
        return result

    def model(self) -> bytes:
        return build(G(self.tensors, self.operators, range(len(self.given)), self.outputs))

    def claims(self) -> Claims:
        return claim(read_model(self.model()).subgraphs[0], lambda: NullDevice().traits.target)


def embedding() -> Integers:
    """Ids below zero count from the end, as Keras and NumPy have it: LESS, ADD, SELECT and GATHER."""
    model = Integers(np.array([[3, -1, 0], [-7, 6, 2]], np.int32))
    below = model.add("LESS", [0, model.constant(0)], (2, 3), options("Less"), "bool")
    from_end = model.add("ADD", [0, model.constant(7)], (2, 3), options("Add"))
    ids = model.add("SELECT_V2", [below, from_end, 0], (2, 3), options("SelectV2"))
    model.tensors.append(T("rows", (2, 3, 5)))
    rows = len(model.tensors) - 1
    model.operators.append(Op("GATHER", [model.constant(values(7, 5), "float32"), ids], [rows], options("Gather")))
    model.outputs = [rows]
    return model


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_ids_of_an_embedding_stay_on_the_gpu(context: fb.GlContext) -> None:
    case = embedding()
    interpreter = fb.Interpreter(model_content=case.model())
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(is_precision_loss_allowed=False)))
    (result,), (expected,) = run_model(interpreter, case.given), run_on_cpu(case.model(), case.given)
    np.testing.assert_array_equal(result, expected)
    assert {operator.runs_on for operator in interpreter.delegated_ops()} == {"gpu"}


def test_integers_and_halves_share_a_buffer() -> None:
    """Words of one text hold both, and each access converts for itself."""
    _, program = program_on_null(embedding().model(), "f16")
    assert program is not None
    text = render_program(merge(program.record().steps, 1 << 15).source, GLSL)
    assert "ivec4" in text and "uintBitsToFloat" in text


@pytest.mark.parametrize(
    "name, table, dtype, says",
    [
        ("ADD", options("Add"), "int64", "is int64, and may hold more than the 32 bits of integers on the GPU"),
        ("DIV", options("Div"), "int32", "its divisor 'x1' may be 0, at which LiteRT stops and the GPU cannot"),
        ("FLOOR_MOD", None, "int64", "is int64, and may hold more than the 32 bits of integers on the GPU"),
        (
            "SUB",
            options("Sub", fusedActivationFunction=4),
            "int32",
            "its fused activation function is TANH, which LiteRT's kernels leave out",
        ),
    ],
)
def test_other_integers_stay_on_the_cpu(name: str, table: Any, dtype: str, says: str) -> None:
    model = Integers(np.zeros(4, dtype), np.zeros(4, dtype))
    model.add(name, [0, 1], (4,), table, dtype)
    assert says in model.claims().unsupported[0]


def places_of_peaks(rows: int) -> bytes:
    """Places of the largest values of tables of 15 columns, as detectors find peaks: rows, columns, and numbers in all
    tables, in int64. GATHER reads at each place.
    """
    count, shape, i64 = rows * 15, (2, 4), {"dtype": "int64"}
    tensors = [
        T("x", (2, count)), T("k", (), 4, "int32"), T("values", shape), T("places", shape, dtype="int32"),
        T("p", shape, **i64), T("4", (), 4, "int64"), T("starts", (2, 1), [[0], [4 * count]], "int64"),
        T("15", (), 15, "int64"), *(T(name, shape, **i64) for name in ("bytes", "starting", "columns", "begins")),
        T("table", (15, 3), values(15, 3)), T("taken", (2, 4, 3)), T("number", shape), T("begin", shape),
    ]  # fmt: skip
    operators = [
        Op("TOPK_V2", [0, 1], [2, 3], options("TopKV2")),
        Op("CAST", [3], [4], options("Cast")),
        Op("MUL", [4, 5], [8], options("Mul")),
        Op("ADD", [8, 6], [9], options("Add")),
        Op("FLOOR_MOD", [4, 7], [10], options("FloorMod")),
        Op("SUB", [4, 10], [11], options("Sub")),
        Op("GATHER", [12, 10], [13], options("Gather")),
        Op("CAST", [9], [14], options("Cast")),
        Op("CAST", [11], [15], options("Cast")),
    ]
    return build(G(tensors, operators, [0], [2, 13, 14, 15]))


@pytest.mark.parametrize("gpu", ["gl", "cl:pocl"], indirect=True)
def test_int64_of_the_places_of_the_largest_values_stays_on_the_gpu(gpu: Device) -> None:
    """A place is less than the row is long, so that products fit 32 bits."""
    model, x = places_of_peaks(20), values(2, 300)
    interpreter = fb.Interpreter(model_content=model)
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend_of(gpu))))
    for result, expected in zip(run_model(interpreter, [x]), run_on_cpu(model, [x]), strict=True):
        np.testing.assert_array_equal(result, expected)
    assert {operator.runs_on for operator in interpreter.delegated_ops()} == {"gpu"}


def test_bounds_of_places_follow_from_the_length_of_the_axis() -> None:
    model = Integers(np.zeros((2, 40), np.int32))
    place = model.add("ARG_MAX", [0, model.constant(1)], (2,), options("ArgMax", outputType=4), "int64")
    small = model.add("MUL", [place, model.constant((1 << 31) // 40, "int64")], (2,), options("Mul"), "int64")
    model.add("ADD", [small, model.constant(1 << 30, "int64")], (2,), options("Add"), "int64")
    assert list(model.claims().unsupported) == [4]


def test_bounds_of_int64_follow_from_its_operators() -> None:
    """An int32 and a constant make 33 bits: the first sum fits, the second may not."""
    model = Integers(np.zeros(4, np.int32))
    small = model.add("MINIMUM", [0, model.constant(9)], (4,), options("MaximumMinimum"))
    large = model.add("MAXIMUM", [small, model.constant(-9)], (4,), options("MaximumMinimum"))
    wide = model.add("CAST", [large], (4,), options("Cast"), "int64")
    near = model.add("ADD", [wide, model.constant(1 << 30, "int64")], (4,), options("Add"), "int64")
    model.add("MUL", [near, model.constant(2, "int64")], (4,), options("Mul"), "int64")
    assert list(model.claims().unsupported) == [8]
    assert "its result is int64, and may have more than the 32 bits" in model.claims().unsupported[8]


def test_integers_that_only_the_cpu_reads_are_computed_there() -> None:
    model = Integers(np.zeros(4, np.int32))
    model.add("ADD", [0, model.constant(1)], (4,), options("Add"))
    model.operators[1:] = [Op("SEGMENT_SUM", [2, 2], [3])]  # it has no kernel here
    model.tensors[3] = T("bits", (4,), None, "int32")
    assert model.claims().unneeded == {0: "it computes integers that no operator on the GPU reads"}


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_divisor_that_is_never_zero_is_computed(context: fb.GlContext) -> None:
    """The divisor's bounds exclude zero. The quotient is LiteRT's, also of the smallest integer as the dividend."""
    model = Integers(np.array([-(1 << 31), 7, -7, 0], np.int32), np.array([-5, 2, 3, 9], np.int32))
    divisor = model.add("MAXIMUM", [1, model.constant(1)], (4,), options("MaximumMinimum"))
    model.add("DIV", [0, divisor], (4,), options("Div"))
    model.add("FLOOR_MOD", [0, divisor], (4,))
    assert not model.claims().unsupported
    interpreter = fb.Interpreter(model_content=model.model())
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(is_precision_loss_allowed=False)))
    results, expected = run_model(interpreter, model.given), run_on_cpu(model.model(), model.given)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize(
    "name, shape, axes, says",
    [
        ("MEAN", (40000,), [0], "its mean is that of 40000 integers; 32767 at most are supported"),
        ("MEAN", (2, 3, 2, 3, 2, 3, 2), [1, 3, 5], "its mean of integers is taken in several steps"),
    ],
)
def test_means_of_integers_that_would_round_twice(name: str, shape: Any, axes: Any, says: str) -> None:
    model = Integers(np.zeros(shape, np.int32))
    left = [size for axis, size in enumerate(shape) if axis not in axes]
    model.add(name, [0, model.constant(axes)], left, options("Reducer"))
    assert says in model.claims().unsupported[0]


def test_a_sum_of_int64_fits_or_is_refused() -> None:
    """Ten thousand truth values fit 32 bits, and ten thousand integers of 32 bits do not."""
    model = Integers(np.zeros(10000, np.int32))
    truth = model.add("LESS", [0, model.constant(3)], (10000,), options("Less"), "bool")
    for source in (truth, 0):
        wide = model.add("CAST", [source], (10000,), options("Cast"), "int64")
        model.add("SUM", [wide, model.constant([0])], (1,), options("Reducer", keepDims=True), "int64")
    (reason,) = model.claims().unsupported.values()
    assert "its result is int64, and may have more than the 32 bits" in reason


def random_chain(seed: int) -> Integers:
    """Five operators on integers of all 32 bits, each of which reads the last result, or others of its shape too."""
    rng = np.random.default_rng(seed)
    given = rng.integers(-(1 << 31) + 1, 1 << 31, rng.integers(1, 7, 4)).astype(np.int32)
    model, shapes = Integers(given), {0: given.shape}
    last = 0
    for name in rng.choice([*BINARY, *DIVISIONS, *UNARY, *REDUCTIONS, "CUMSUM", "TRANSPOSE"], 5):
        shape, table = shapes[last], None
        if name in BINARY:
            other = int(rng.choice([tensor for tensor, found in shapes.items() if found == shape]))
            inputs, table = [last, other], options(BINARY[name]) if BINARY[name] else None
        elif name in DIVISIONS:
            divisors = rng.choice([-(1 << 20), -7, -3, 2, 5, 1 << 30], shape[3])
            inputs, table = [last, model.constant(divisors)], options("Div") if name == "DIV" else None
        elif name in REDUCTIONS:
            axes = rng.permutation(4)[: rng.integers(1, 5)]
            shape = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
            inputs, table = [last, model.constant(axes)], options("Reducer", keepDims=True)
        elif name == "CUMSUM":
            reverse, exclusive = (bool(flag) for flag in rng.integers(0, 2, 2))
            inputs = [last, model.constant(int(rng.integers(4)))]
            table = options("Cumsum", reverse=reverse, exclusive=exclusive)
        elif name == "TRANSPOSE":
            order = rng.permutation(4)
            shape, inputs = tuple(shape[axis] for axis in order), [last, model.constant(order)]
        else:
            inputs = [last]
        last = model.add(str(name), inputs, shape, table)
        shapes[last] = shape
    return model


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize("seed", range(2))
def test_random_chains_have_the_bits_of_litert(context: fb.GlContext, seed: int) -> None:
    case = random_chain(seed)
    assert not case.claims().unsupported
    interpreter = fb.Interpreter(model_content=case.model())
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(is_precision_loss_allowed=False)))
    results, expected = run_model(interpreter, case.given), run_on_cpu(case.model(), case.given)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)
