"""WHILE with a number of steps that follows from the model: all steps run on the GPU, in the partition around them.

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
from ai_edge_litert.interpreter import OpResolverType

import framebind as fb
from framebind.interop.device import Device
from support.tiny_models import CPU_ONLY, G, Op, T, build

on_gl = pytest.mark.parametrize("gpu", ["gl"], indirect=True)
Array = npt.NDArray[Any]


def options(kind: str, **values: Any) -> Any:
    table = getattr(schema, f"{kind}OptionsT")()
    for name, value in values.items():
        setattr(table, name, value)
    return table


def loop(condition: int, body: int) -> Any:
    return options("While", condSubgraphIndex=condition, bodySubgraphIndex=body)


def number(name: str, value: int | None = None) -> T:
    return T(name, (), value, "int32")


def sliced(name: str) -> T:
    """Some rows, as many as the counter says."""
    return T(name, (1, 1, 1), signature=(-1, -1, -1))


def below(steps: int, *others: T) -> G:
    """The condition that the counter, the first variable, is below ``steps``."""
    tensors = [number("i"), *others, number("n", steps), T("more", (), dtype="bool")]
    count = len(others) + 1
    return G(tensors, [Op("LESS", [0, count], [count + 1])], list(range(count)), [count + 1], "condition")


def counted(name: str, *, steps: int = 3, shape: Sequence[int] = (1, 4)) -> bytes:
    """y = ``name`` of x, so many times; the operator before the loop is EXP."""
    x = T("x", shape)
    main = G(
        [x, number("zero", 0), T("e", shape), number("i"), T("y", shape)],
        [Op("EXP", [0], [2]), Op("WHILE", [1, 2], [3, 4], loop(1, 2))], [0], [4],
    )  # fmt: skip
    body = G(
        [number("i"), x, number("one", 1), number("j"), T("y", shape)],
        [Op("ADD", [0, 2], [3], options("Add")), Op(name, [1], [4])], [0, 1], [3, 4], "body",
    )  # fmt: skip
    return build(main, below(steps, x), body)


def recurrent(steps: int) -> bytes:
    """The states s[i] = tanh(W s[i - 1] + x[i]) as a list, as converters write a layer that returns all of them."""
    row, rows = T("s", (1, 4)), T("list", (steps, 1, 4))
    weights = np.random.default_rng(0).uniform(-1, 1, (4, 4)).astype(np.float32)
    main = G(
        [T("x", (steps, 1, 4)), number("zero", 0), T("start", (1, 4), np.zeros((1, 4))),
         T("empty", (steps, 1, 4), np.zeros((steps, 1, 4))), number("i"), row, rows, T("given", (steps, 1, 4))],
        [Op("WHILE", [1, 2, 3, 0], [4, 5, 6, 7], loop(1, 2))], [0], [6, 5],
    )  # fmt: skip
    body = G(
        [number("i"), row, rows, T("x", (steps, 1, 4)), T("W", (4, 4), weights), number("one", 1),
         T("flat", (1,), [1], "int32"), T("rest", (2,), [-1, -1], "int32"), T("origin", (3,), [0, 0, 0], "int32"),
         T("all", (3,), [-1, -1, -1], "int32"), T("zeros", (2,), [0, 0], "int32"), T("form", (3,), [1, 1, 4], "int32"),
         number("j"), T("x[i]", (1, 4)), T("W s", (1, 4)), T("sum", (1, 4)), T("next", (1, 4)),
         T("i as list", (1,), dtype="int32"), T("size", (3,), dtype="int32"), sliced("before"),
         T("j as list", (1,), dtype="int32"), T("begin", (3,), dtype="int32"), sliced("behind"),
         T("item", (1, 1, 4)), T("longer", (steps, 1, 4))],
        [Op("ADD", [0, 5], [12], options("Add")), Op("GATHER", [3, 0], [13], options("Gather")),
         Op("FULLY_CONNECTED", [1, 4, -1], [14], options("FullyConnected")), Op("ADD", [13, 14], [15], options("Add")),
         Op("TANH", [15], [16]), Op("RESHAPE", [0, 6], [17]),
         Op("CONCATENATION", [17, 7], [18], options("Concatenation")), Op("SLICE", [2, 8, 18], [19]),
         Op("RESHAPE", [12, 6], [20]),
         Op("CONCATENATION", [20, 10], [21], options("Concatenation")), Op("SLICE", [2, 21, 9], [22]),
         Op("RESHAPE", [16, 11], [23]), Op("CONCATENATION", [19, 23, 22], [24], options("Concatenation"))],
        [0, 1, 2, 3], [12, 16, 24, 3], "body",
    )  # fmt: skip
    return build(main, below(steps, row, rows, T("x", (steps, 1, 4))), body)


def delegated(model: bytes, backend: str) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend))  # type: ignore[arg-type]
    interpreter = fb.Interpreter(model_content=model)
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    return interpreter, delegate


def results(interpreter: LiteRt, *inputs: Array) -> list[Array]:
    for detail, values in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.resize_tensor_input(detail["index"], values.shape)
    interpreter.allocate_tensors()
    for detail, values in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], values)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def compare(interpreter: fb.Interpreter, model: bytes, *inputs: Array) -> None:
    """LiteRT is without XNNPACK, which does not take every rank that LiteRT takes."""
    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    cpu = LiteRt(model_content=model, experimental_op_resolver_type=resolver)
    for ours, theirs in zip(results(interpreter, *inputs), results(cpu, *inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-6, rtol=2e-6)


# On the GPU -----------------------------------------------------------------------------------------------------------


@on_gl
def test_states_and_lists_stay_on_the_gpu(gpu: Device) -> None:
    """All operators are in one partition. A run copies the input and the two outputs, whatever the number of steps,
    and the weights are there once.
    """
    model = recurrent(6)
    interpreter, delegate = delegated(model, "opengl")
    assert {(op.runs_on, op.partition) for op in interpreter.delegated_ops()} == {("gpu", 0)}
    for seed in range(3):
        fb.transfers.reset()
        compare(interpreter, model, np.random.default_rng(seed).uniform(-1, 1, (6, 1, 4)).astype(np.float32))
    assert {way: hop.calls for (way, _), hop in fb.transfers.by_reason.items()} == {"upload": 1, "download": 1}
    (part,) = delegate.partitions()
    assert (part.operators, part.inputs, part.outputs) == ((0,), (0,), (5, 6))
    assert part.constants_nbytes is not None and part.constants_nbytes < 6 * 4 * 4 * 4 + 1000
    counts = delegate.statistics()
    assert (counts.operators_on_gpu, counts.operators) == (15, 15)


def swapped() -> bytes:
    """(a, b) becomes (b, tanh(a)), three times; c goes through."""
    a, b, c = (T(name, (1, 4)) for name in "abc")
    main = G(
        [a, b, c, number("zero", 0), number("i"), T("p", (1, 4)), T("q", (1, 4)), T("r", (1, 4))],
        [Op("WHILE", [3, 0, 1, 2], [4, 5, 6, 7], loop(1, 2))], [0, 1, 2], [5, 6, 7, 4],
    )  # fmt: skip
    body = G(
        [number("i"), a, b, c, number("one", 1), number("j"), T("t", (1, 4))],
        [Op("ADD", [0, 4], [5], options("Add")), Op("TANH", [1], [6])], [0, 1, 2, 3], [5, 2, 6, 3], "body",
    )  # fmt: skip
    return build(main, below(3, a, b, c), body)


def nested() -> bytes:
    """x is doubled i times in step i."""
    x, y = T("x", (1, 4)), T("y", (1, 4))
    main = G([x, number("zero", 0), number("i"), y], [Op("WHILE", [1, 0], [2, 3], loop(1, 2))], [0], [3])
    outer = G(
        [number("i"), x, number("zero", 0), number("one", 1), number("j"), number("k"), number("n"), y],
        [Op("WHILE", [2, 0, 1], [4, 6, 7], loop(3, 4)), Op("ADD", [0, 3], [5], options("Add"))],
        [0, 1], [5, 7], "outer",
    )  # fmt: skip
    condition = G(
        [number("j"), number("n"), x, T("more", (), dtype="bool")],
        [Op("LESS", [0, 1], [3])],
        [0, 1, 2],
        [3],
        "inner condition",
    )
    inner = G(
        [number("j"), number("n"), x, number("one", 1), number("k"), y],
        [Op("ADD", [0, 3], [4], options("Add")), Op("ADD", [2, 2], [5], options("Add"))], [0, 1, 2], [4, 1, 5], "inner",
    )  # fmt: skip
    return build(main, below(4, x), outer, condition, inner)


@on_gl
@pytest.mark.parametrize(
    "model, inputs",
    [(counted("TANH", steps=0), 1), (counted("TANH"), 1), (swapped(), 3), (nested(), 1)],
    ids=["no step", "three steps", "swapped variables", "a loop in a loop"],
)
def test_loops(gpu: Device, model: bytes, inputs: int) -> None:
    interpreter, delegate = delegated(model, "opengl")
    assert {op.runs_on for op in interpreter.delegated_ops()} == {"gpu"} and len(delegate.partitions()) == 1
    compare(interpreter, model, *np.random.default_rng(0).uniform(-1, 1, (inputs, 1, 4)).astype(np.float32))


# On the CPU -----------------------------------------------------------------------------------------------------------


def endless() -> bytes:
    """A body without operators, and a condition that is a constant."""
    x = T("x", (1, 4))
    main = G([x, T("y", (1, 4))], [Op("WHILE", [0], [1], loop(1, 2))], [0], [1])
    return build(main, G([x, T("c", (), True, "bool")], [], [0], [1], "condition"), G([x], [], [0], [0], "body"))


def growing() -> bytes:
    """Each step doubles the length of a list of constants."""
    numbers = T("numbers", (2,), [1, 2], "int32")
    items = T("items", (2,), dtype="int32", signature=(-1,))
    main = G(
        [T("x", (1,)), number("zero", 0), numbers, number("i"), items],
        [Op("WHILE", [1, 2], [3, 4], loop(1, 2))],
        [0],
        [4],
    )
    body = G(
        [number("i"), items, number("one", 1), number("j"), T("longer", (4,), dtype="int32", signature=(-1,))],
        [Op("ADD", [0, 2], [3], options("Add")), Op("CONCATENATION", [1, 1], [4], options("Concatenation"))],
        [0, 1], [3, 4], "body",
    )  # fmt: skip
    return build(main, below(1 << 30, items), body)


def by_data() -> bytes:
    """The number of steps is the input."""
    main = G([number("n"), number("zero", 0), number("i")], [Op("WHILE", [1, 0], [2, 3], loop(1, 2))], [0], [2])
    main.tensors = [*main.tensors, number("m")]
    condition = G(
        [number("i"), number("n"), T("c", (), dtype="bool")], [Op("LESS", [0, 1], [2])], [0, 1], [2], "condition"
    )
    body = G(
        [number("i"), number("n"), number("one", 1), number("j")], [Op("ADD", [0, 2], [3], options("Add"))],
        [0, 1], [3, 1], "body",
    )  # fmt: skip
    return build(main, condition, body)


def stateful() -> bytes:
    """The body has a variable tensor."""
    x = T("x", (1, 4))
    main = G([x, number("zero", 0), number("i"), T("y", (1, 4))], [Op("WHILE", [1, 0], [2, 3], loop(1, 2))], [0], [3])
    body = G(
        [number("i"), x, number("one", 1), number("j"), T("y", (1, 4)), T("kept", (1, 4), variable=True)],
        [Op("ADD", [0, 2], [3], options("Add")), Op("ADD", [1, 5], [4], options("Add"))], [0, 1], [3, 4], "body",
    )  # fmt: skip
    return build(main, below(3, x), body)


@pytest.mark.parametrize(
    "model, reason",
    [
        (by_data(), "the number of its steps is known only while the model runs"),
        (counted("TANH", steps=1 << 30), "its steps have more than 8192 operators"),
        (growing(), "its steps have more than 8192 operators"),
        (endless(), "its steps have more than 8192 operators"),
        (stateful(), "its subgraph 'body' keeps a state of its own"),
        (counted(CPU_ONLY, shape=(1, 2, 3, 4)), f"operator 1 {CPU_ONLY} of 'body': the operator is not supported"),
    ],
    ids=["by data", "long", "growing", "endless", "a state", "an operator"],
)
def test_loops_that_stay_on_the_cpu(model: bytes, reason: str) -> None:
    interpreter, _ = delegated(model, "null")
    assert [op.reason for op in interpreter.delegated_ops() if op.name == "WHILE"] == [reason]


def chosen() -> bytes:
    """y = tanh three times, or the negative of x, by the truth value c: a loop in a branch."""
    x, y, c = T("x", (1, 4)), T("y", (1, 4)), T("c", (1,), dtype="bool")
    branches = options("If", thenSubgraphIndex=1, elseSubgraphIndex=2)
    return build(
        G([c, x, y], [Op("IF", [0, 1], [2], branches)], [0, 1], [2]),
        G([x, number("zero", 0), number("i"), y], [Op("WHILE", [1, 0], [2, 3], loop(3, 4))], [0], [3], "then"),
        G([x, y], [Op("NEG", [0], [1])], [0], [1], "else"),
        below(3, x),
        G([number("i"), x, number("one", 1), number("j"), y],
          [Op("ADD", [0, 2], [3], options("Add")), Op("TANH", [1], [4])], [0, 1], [3, 4], "body"),
    )  # fmt: skip


@pytest.mark.parametrize("model", [counted("TANH"), chosen()], ids=["of the model", "of a branch"])
def test_a_loop_that_the_gpu_cannot_run_after_a_resize_runs_on_the_cpu(model: bytes) -> None:
    """The subgraphs that the loop runs go with it."""
    interpreter, _ = delegated(model, "null")
    assert [op.runs_on for op in interpreter.delegated_ops() if op.name == "WHILE"] == ["gpu"]
    x = np.full((1,) * 8 + (4,), 0.5, np.float32)
    given = (x,) if len(interpreter.get_input_details()) == 1 else (np.array([True]), x)
    compare(interpreter, model, *given)
    ops = [op for op in interpreter.delegated_ops() if op.name in ("WHILE", "TANH")]
    assert [(op.runs_on, "rank 9" in op.reason) for op in ops] == [("cpu", True)] * 2
