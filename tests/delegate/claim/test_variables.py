"""Variables (VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE) whose values stay on the GPU between runs.

The oracle is LiteRT's CPU interpreter. What crosses between CPU and GPU is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter as LiteRt

import framebind as fb
from framebind.delegate.claim.variables import find_variables
from framebind.delegate.read.reader import read_model
from framebind.interop.device import Device
from framebind.tools.certify.cases.operator_models import CPU_KERNELS
from support.model_runs import backend_of
from support.tiny_models import CPU_ONLY, G, Op, T, build

Array = npt.NDArray[Any]
SHAPE = (1, 2, 3, 5)
FIRST = np.linspace(-1, 1, 30, dtype=np.float32).reshape(SHAPE)
READ, ASSIGN = "READ_VARIABLE", "ASSIGN_VARIABLE"


def options(kind: str, **values: Any) -> Any:
    table = getattr(schema, f"{kind}OptionsT")()
    for name, value in values.items():
        setattr(table, name, value)
    return table


ONCE = Op("CALL_ONCE", [], [], options("CallOnce", initSubgraphIndex=1))
HANDLE = Op("VAR_HANDLE", [], [1], options("VarHandle", sharedName="v", container=""))
X, H = T("x", SHAPE), T("h", (), dtype="resource")


def first(value: Any = FIRST, dtype: str = "float32") -> G:
    """The subgraph that CALL_ONCE runs."""
    tensors = [T("first", np.shape(value), value, dtype), H]
    return G(tensors, [HANDLE, Op(ASSIGN, [1, 0], [])], [], [], "first values")


def model(tensors: Sequence[str], operators: Sequence[Op], outputs: Sequence[int]) -> bytes:
    """A model of x (tensor 0), whose variable v has the handle 1; more tensors follow."""
    more = [T(name, SHAPE) for name in tensors]
    return build(G([X, H, *more], [ONCE, HANDLE, *operators], [0], outputs), first())


def op(name: str, inputs: Sequence[int], output: int) -> Op:
    return Op(name, inputs, [output], options(name.capitalize()) if name in ("ADD", "SUB", "MUL") else None)


SUM = model(
    ["old", "sum", "y"], [Op(READ, [1], [2]), op("ADD", [0, 2], 3), Op(ASSIGN, [1, 3], []), op("TANH", [3], 4)], [4]
)
"""v becomes v + x; y is tanh of it."""
MODELS = {
    "sum": SUM,
    "read before and after": model(
        ["old", "new", "twice", "y"],
        [Op(READ, [1], [2]), Op(ASSIGN, [1, 0], []), Op(READ, [1], [3]), op("ADD", [2, 2], 4), op("SUB", [4, 3], 5)],
        [5],
    ),
    "assigned twice": model(
        ["e", "old", "new", "y"],
        [Op(READ, [1], [3]), op("EXP", [0], 2), Op(ASSIGN, [1, 2], []), Op(ASSIGN, [1, 0], []), Op(READ, [1], [4]),
         op("SUB", [4, 3], 5)],
        [5],
    ),
    "two handles": build(
        G([X, H, T("other", (), dtype="resource"), T("old", SHAPE), T("sum", SHAPE), T("y", SHAPE)],
          [ONCE, HANDLE, Op(READ, [1], [3]), op("ADD", [0, 3], 4),
           Op("VAR_HANDLE", [], [2], options("VarHandle", sharedName="v", container="")), Op(ASSIGN, [2, 4], []),
           op("NEG", [3], 5)], [0], [5]),
        first(),
    ),
    "the CPU between": model(
        ["old", "c", "sum"],
        [Op(READ, [1], [2]), Op(CPU_ONLY, [2], [3]), op("ADD", [0, 3], 4), Op(ASSIGN, [1, 4], [])],
        [4],
    ),
    "never read": model(["y"], [Op(ASSIGN, [1, 0], []), op("NEG", [0], 2)], [2]),
}  # fmt: skip


def delegated(content: bytes, backend: str, **given: Any) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend, **given))  # type: ignore[arg-type]
    interpreter = fb.Interpreter(model_content=content)
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    return interpreter, delegate


def run(interpreter: LiteRt, seed: int) -> Array:
    x = np.random.default_rng(seed).uniform(-1, 1, SHAPE).astype(np.float32)
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def on_cpu(content: bytes) -> LiteRt:
    interpreter = LiteRt(model_content=content)
    interpreter.allocate_tensors()
    return interpreter


@pytest.mark.parametrize("gpu", ["gl"], indirect=True)
@pytest.mark.parametrize("name", MODELS)
def test_values_stay_on_the_gpu(gpu: Device, name: str) -> None:
    """The first value is copied there once, and nothing later."""
    interpreter, _ = delegated(MODELS[name], "auto")
    cpu = on_cpu(MODELS[name])
    used = [
        found.runs_on for found in interpreter.delegated_ops() if found.subgraph == 0 and found.name in (READ, ASSIGN)
    ]
    assert set(used) == {"gpu"}
    fb.transfers.reset()
    for seed in range(4):
        np.testing.assert_allclose(run(interpreter, seed), run(cpu, seed), atol=2e-6)
    assert fb.transfers.by_reason["upload", "first value of variable 'v'"].calls == 1
    assert not [reason for _, reason in fb.transfers.by_reason if "state" in reason or "'h'" in reason]


def stream(dtype: str) -> bytes:
    """A streaming model of integers, as a keyword spotter has it: it sees four frames, and the variable is the last
    three.
    """
    stored, zero = {"dtype": dtype, "scales": [0.02], "zero_points": [0 if dtype == "int16" else 7]}, (1, 3, 2, 5)
    i32 = {"dtype": "int32"}
    tensors = [
        T("x", (1, 1, 2, 5), **stored), H, T("old", zero, **stored), T("all", (1, 4, 2, 5), **stored),
        T("begin", (4,), [0, 1, 0, 0], **i32), T("size", (4,), [1, 3, 2, 5], **i32), T("new", zero, **stored),
    ]  # fmt: skip
    operators = [
        ONCE, HANDLE, Op(READ, [1], [2]), Op("CONCATENATION", [2, 0], [3], options("Concatenation", axis=1)),
        Op("SLICE", [3, 4, 5], [6]), Op(ASSIGN, [1, 6], []),
    ]  # fmt: skip
    given = np.arange(30).reshape(zero) - (0 if dtype == "uint8" else 15)
    return build(G(tensors, operators, [0], [3]), first(given, dtype))


@pytest.mark.parametrize("gpu", ["gl", "cl:pocl"], indirect=True)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_values_of_integers_with_a_scale_stay_on_the_gpu(gpu: Device, dtype: str) -> None:
    """The first value has no scale in the file: the variable's values have it."""
    content = stream(dtype)
    interpreter, _ = delegated(content, backend_of(gpu))
    cpu = LiteRt(model_content=content, experimental_op_resolver_type=CPU_KERNELS)
    cpu.allocate_tensors()
    main = [found for found in interpreter.delegated_ops() if found.subgraph == 0 and found.name != "CALL_ONCE"]
    assert {found.runs_on for found in main} == {"gpu"}
    generator, kind = np.random.default_rng(0), np.iinfo(dtype)
    fb.transfers.reset()
    for _ in range(6):
        x = generator.integers(max(kind.min, -900), min(kind.max, 900), (1, 1, 2, 5)).astype(dtype)
        results: list[Array] = []
        for each in (interpreter, cpu):
            each.set_tensor(0, x)
            each.invoke()
            results.append(each.get_tensor(each.get_output_details()[0]["index"]))
        np.testing.assert_array_equal(*results)
    assert {reason for _, reason in fb.transfers.by_reason if "variable" in reason} == {"first value of variable 'v'"}


@pytest.mark.parametrize("gpu", ["gl"], indirect=True)
def test_a_variable_outlives_resets_and_allocations(gpu: Device) -> None:
    """LiteRT does the same: reset_all_variables() resets variable tensors alone."""
    interpreter, _ = delegated(SUM, "opengl")
    cpu = on_cpu(SUM)
    for each in (interpreter, cpu):
        run(each, 0)
        each.reset_all_variables()
        run(each, 1)
        each.resize_tensor_input(0, SHAPE)
        each.allocate_tensors()
    np.testing.assert_allclose(run(interpreter, 2), run(cpu, 2), atol=2e-6)


def test_a_value_of_another_shape_is_refused() -> None:
    """LiteRT gives the variable the shape then; the GPU keeps the value that it has."""
    interpreter, _ = delegated(MODELS["never read"], "null")
    interpreter.resize_tensor_input(0, (1, 2, 3, 7))
    with pytest.raises(
        fb.ModelError, match=r"while its states are on the GPU: operator 2 ASSIGN_VARIABLE: a value of "
    ):
        interpreter.allocate_tensors()


def used_elsewhere() -> bytes:
    """A model with another signature that reads the variable."""
    other = G([X, H, T("y", SHAPE)], [HANDLE, Op(READ, [1], [2])], [0], [2], "other", signature="other")
    main = G([X, H, T("y", SHAPE)], [ONCE, HANDLE, Op(READ, [1], [2])], [0], [2], signature="main")
    return build(main, first(), other)


UNINITIALIZED = build(G([X, H, T("y", SHAPE)], [HANDLE, Op(ASSIGN, [1, 0], []), Op(READ, [1], [2])], [0], [2]))
ODD = build(
    G([X, H, T("y", SHAPE)], [ONCE, HANDLE, Op(READ, [1], [2])], [0], [2]),
    G([T("first", SHAPE, FIRST), T("h", ())], [HANDLE, Op(ASSIGN, [1, 0], [])], [], [], "first values"),
)
LATE = build(G([X, H, T("y", SHAPE)], [HANDLE, Op(ASSIGN, [1, 0], []), ONCE, Op(READ, [1], [2])], [0], [2]), first())
INTEGER = build(
    G([T("x", (2,), dtype="int32"), H, T("y", (2,), dtype="int32")], [ONCE, HANDLE, Op(READ, [1], [2])], [0], [2]),
    first([1, 2], "int32"),
)  # fmt: skip


def test_values_of_two_scales_stay_on_the_cpu() -> None:
    """LiteRT copies the integers, which then stand for other numbers."""
    stored = {"dtype": "int8", "scales": [0.25], "zero_points": [3]}
    tensors = [T("x", SHAPE, **stored), H, T("y", SHAPE, **{**stored, "scales": [0.5]})]
    main = G(tensors, [ONCE, HANDLE, Op(ASSIGN, [1, 0], []), Op(READ, [1], [2])], [0], [2])
    refused = find_variables(read_model(build(main, first(5, "int8")))).refused
    why = "the CPU keeps variable 'v': its values 'x' and 'y' have different types or scales"
    assert refused == dict.fromkeys((1, 2, 3), why)


@pytest.mark.parametrize(
    "content, reason",
    [
        (used_elsewhere(), "operator 1 READ_VARIABLE of subgraph 'other' uses it too"),
        (UNINITIALIZED, "no CALL_ONCE gives it a first value"),
        (LATE, "it is used before CALL_ONCE, operator 2, gives it its first value"),
        (ODD, "its handle 'h' is float32"),
        (INTEGER, "its value 'y' is int32; it may be float32, and int8, uint8 and int16 with a scale"),
    ],
    ids=["elsewhere", "uninitialized", "late", "odd", "integers"],
)
def test_variables_that_stay_on_the_cpu(content: bytes, reason: str) -> None:
    interpreter, _ = delegated(content, "null")
    found = [each for each in interpreter.delegated_ops() if each.subgraph == 0 and "VAR" in each.name]
    assert {(each.runs_on, each.reason) for each in found} == {("cpu", f"the CPU keeps variable 'v': {reason}")}


def test_all_operators_on_a_variable_are_on_one_side() -> None:
    """A limit of partitions leaves out the one that reads it, so the one that assigns it stays on the CPU too."""
    content = model(
        ["old", "c", "sum", "y"],
        [Op(READ, [1], [2]), Op(CPU_ONLY, [2], [3]), op("ADD", [0, 3], 4), Op(ASSIGN, [1, 4], []), op("NEG", [4], 5)],
        [5],
    )
    interpreter, _ = delegated(content, "null", max_delegated_partitions=1)
    ops = {each.name: each for each in interpreter.delegated_ops() if each.subgraph == 0}
    assert [name for name, each in ops.items() if each.runs_on == "gpu"] == ["ADD", "NEG"]
    assert ops[ASSIGN].reason == "operator 2 READ_VARIABLE, on the CPU, uses variable 'v' too"
