"""Graphs of every form around GPU partitions, in LiteRT's own interpreter, on OpenGL and on OpenCL.

The oracle is LiteRT's CPU interpreter. What crosses between CPU and GPU is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter as LiteRt
from ai_edge_litert.interpreter import OpResolverType

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.read.reader import read_model
from framebind.interop.device import Device
from framebind.interop.null.device import NullDevice
from framebind.kernels.operation import Launch, Lowering, Parsed, TfliteOp
from framebind.kernels.ops.pointwise.elementwise import Elementwise
from framebind.kernels.registry import OPERATORS
from support.model_runs import backend_of
from support.tiny_models import CPU_ONLY, G, Op, T, build, chain

on_both = pytest.mark.parametrize("gpu", ["gl", "cl:pocl"], indirect=True)

Array = npt.NDArray[Any]
SHAPE = (1, 4, 5, 3)
NBYTES = 60 * 4


def on_gpu(gpu: Device, model: bytes) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """An allocated interpreter in the context that is current, the one of ``gpu``."""
    backend = backend_of(gpu)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend))
    interpreter = fb.Interpreter(model_content=model)
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    return interpreter, delegate


def on_cpu(model: bytes) -> LiteRt:
    """The results without XNNPACK, which takes a DEQUANTIZE that is an output for weights, and leaves it out."""
    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = LiteRt(model_content=model, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    return interpreter


def run(interpreter: LiteRt, inputs: Sequence[Array]) -> list[Array]:
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def frames(*shapes: Sequence[int], count: int = 3) -> list[list[Array]]:
    """Inputs of these shapes for ``count`` frames."""
    generator = np.random.default_rng(0)
    return [[generator.uniform(-2, 2, tuple(s)).astype(np.float32) for s in shapes] for _ in range(count)]


def same(actual: Sequence[Array], expected: Sequence[Array]) -> None:
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        if ours.dtype == np.float32:
            np.testing.assert_allclose(ours, theirs, atol=2e-6, rtol=2e-6)
        else:
            np.testing.assert_array_equal(ours, theirs)


def check(gpu: Device, model: bytes, given: Sequence[Sequence[Array]], taken: Sequence[int]) -> fb.Interpreter:
    """Every frame is LiteRT's, and the operators ``taken`` of the main subgraph run on the GPU."""
    cpu = on_cpu(model)
    interpreter, delegate = on_gpu(gpu, model)
    assert sorted(i for p in delegate.engine.partitions if p.subgraph == 0 for i in p.operators) == list(taken)
    for inputs in given:
        same(run(interpreter, inputs), run(cpu, inputs))
    return interpreter


def crossings(interpreter: fb.Interpreter, inputs: Sequence[Array]) -> dict[tuple[str, str], tuple[int, int]]:
    """Calls and bytes of what crosses in a frame after the first, by direction and tensor."""
    run(interpreter, inputs)
    fb.transfers.reset()
    run(interpreter, inputs)
    hops = fb.transfers.by_reason.items()
    return {(way, reason.split("'")[1]): (hop.calls, hop.bytes) for (way, reason), hop in hops}


# Tensors that are used in more ways than one --------------------------------------------------------------------------


def concatenation(axis: int) -> Any:
    options = schema.ConcatenationOptionsT()
    options.axis = axis
    return options


X, Y = T("x", SHAPE), T("y", SHAPE)
FORMS = {
    "a tensor twice": G(
        [X, T("a", SHAPE), T("b", SHAPE), T("c", (1, 4, 5, 6))],
        [Op("ADD", [0, 0], [1]), Op("SUB", [1, 1], [2]), Op("CONCATENATION", [1, 1], [3], concatenation(3))],
        [0],
        [3, 2],
    ),
    "an input as output": G([X, Y], [Op("EXP", [0], [1])], [0], [0, 1]),
    "an output twice": G([X, Y], [Op("EXP", [0], [1])], [0], [1, 1]),
    "an input twice": G([X, Y], [Op("MUL", [0, 0], [1])], [0, 0], [1]),
    "an output that is read": G([X, Y, T("z", SHAPE)], [Op("EXP", [0], [1]), Op("NEG", [1], [2])], [0], [2, 1]),
    "several inputs and outputs": G(
        [X, T("w", (1, 1, 1, 3)), Y, T("z", SHAPE), T("v", (1, 1, 1, 3))],
        [Op("ADD", [0, 1], [2]), Op("EXP", [2], [3]), Op("NEG", [1], [4])],
        [1, 0],
        [3, 4, 2],
    ),
    "a constant as output": G([X, T("c", SHAPE, 1.5), Y], [Op("MUL", [0, 1], [2])], [0], [1, 2]),
}


@on_both
@pytest.mark.parametrize("form", FORMS)
def test_forms(gpu: Device, form: str) -> None:
    graph = FORMS[form]
    given = frames(*(graph.tensors[i].shape for i in graph.inputs))
    check(gpu, build(graph), given, range(len(graph.operators)))


@on_both
def test_forty_inputs_are_not_one_kernel(gpu: Device) -> None:
    """A sum of forty inputs is one chain of links, but a kernel has buffers for a few of them only."""
    count = 40
    tensors = [*(T(f"x{i}", SHAPE) for i in range(count)), *(T(f"sum{i}", SHAPE) for i in range(1, count))]
    operators = [Op("ADD", [count + i - 2 if i > 1 else 0, i], [count + i - 1]) for i in range(1, count)]
    model = build(G(tensors, operators, range(count), [2 * count - 2]))
    check(gpu, model, frames(*[SHAPE] * count), range(count - 1))


@pytest.mark.filterwarnings("ignore:Warning. Enabling .experimental_preserve_all_tensors")
@pytest.mark.parametrize("gpu", ["gl"], indirect=True)
@pytest.mark.parametrize("ours", [True, False], ids=["framebind", "LiteRT"])
def test_all_tensors_can_be_preserved(gpu: Device, ours: bool) -> None:
    """The results of operators that only the GPU reads are on the CPU too."""
    tensors = [X, T("a", SHAPE), T("b", SHAPE), T("c", SHAPE), T("d", SHAPE), Y]
    operators = [Op("EXP", [0], [1]), Op("NEG", [1], [2]), Op(CPU_ONLY, [2], [3]), Op("ADD", [1, 3], [4])]
    model = build(G(tensors, [*operators, Op("TANH", [4], [5])], [0], [5]))
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend_of(gpu)), model_content=model)
    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    preserving = LiteRt(
        model_content=model, experimental_op_resolver_type=resolver, experimental_preserve_all_tensors=True
    )
    interpreter = (fb.Interpreter if ours else LiteRt)(
        model_content=model, experimental_delegates=[delegate], experimental_preserve_all_tensors=True
    )
    for each in (preserving, interpreter):
        each.allocate_tensors()
    for inputs in frames(SHAPE):
        same(run(interpreter, inputs), run(preserving, inputs))
        same(*([each.get_tensor(i) for i in range(6)] for each in (interpreter, preserving)))
    for each in (preserving, interpreter):
        each.resize_tensor_input(0, (2, 3, 5, 7))
        each.allocate_tensors()
        run(each, frames((2, 3, 5, 7))[0])
    same(*([each.get_tensor(i) for i in range(6)] for each in (interpreter, preserving)))


# Constants ------------------------------------------------------------------------------------------------------------


@on_both
def test_a_dequantized_constant_that_the_outside_needs_stays_there(gpu: Device) -> None:
    """The GPU has its values already; it would write them to the CPU's memory in every frame."""
    tensors = [X, T("half", SHAPE, 2.5, "float16"), T("c", SHAPE), Y]
    model = build(G(tensors, [Op("DEQUANTIZE", [1], [2]), Op("MUL", [0, 2], [3])], [0], [2, 3]))
    interpreter = check(gpu, model, frames(SHAPE), [1])
    assert set(crossings(interpreter, frames(SHAPE)[0])) == {("upload", "x"), ("download", "y")}


@on_both
def test_what_the_cpu_computes_of_constants_is_copied_once(gpu: Device) -> None:
    tensors = [X, T("c", SHAPE, 1.5), T("d", SHAPE), T("e", SHAPE), Y]
    operators = [Op(CPU_ONLY, [1], [2]), Op(CPU_ONLY, [2], [3]), Op("ADD", [3, 0], [4])]
    interpreter = check(gpu, build(G(tensors, operators, [0], [4])), frames(SHAPE), [2])
    assert crossings(interpreter, frames(SHAPE)[0]) == {("upload", "x"): (1, NBYTES), ("download", "y"): (1, NBYTES)}


@on_both
def test_random_numbers_of_constants_are_copied_in_every_frame(gpu: Device) -> None:
    tensors = [X, T("shape", (4,), SHAPE, "int32"), T("noise", SHAPE), Y]
    operators = [Op("RANDOM_UNIFORM", [1], [2], schema.RandomOptionsT()), Op("ADD", [0, 2], [3])]
    interpreter, _ = on_gpu(gpu, build(G(tensors, operators, [0], [3])))
    (inputs,) = frames(SHAPE, count=1)
    first, second = run(interpreter, inputs)[0], run(interpreter, inputs)[0]
    assert np.abs(first - second).max() > 0.01


# Transfers ------------------------------------------------------------------------------------------------------------

BETWEEN = G(
    [X, T("a", SHAPE), T("b", SHAPE), T("c", SHAPE), Y],
    [Op("EXP", [0], [1]), Op("NEG", [1], [2]), Op(CPU_ONLY, [2], [3]), Op("ATAN2", [3, 1], [4])],
    [0],
    [4],
)
"""The second partition reads a of the first, and c of the CPU, which reads b of the first."""


@on_both
def test_what_only_partitions_read_stays_on_the_gpu(gpu: Device) -> None:
    interpreter = check(gpu, build(BETWEEN), frames(SHAPE), [0, 1, 3])
    once = (1, NBYTES)
    seen = crossings(interpreter, frames(SHAPE)[0])
    assert seen == {("upload", "x"): once, ("download", "b"): once, ("upload", "c"): once, ("download", "y"): once}


@on_both
def test_an_input_of_two_partitions_is_copied_once(gpu: Device) -> None:
    tensors, operators = [X, T("a", SHAPE), T("b", SHAPE), Y], [Op("EXP", [0], [1]), Op(CPU_ONLY, [1], [2])]
    model = build(G(tensors, [*operators, Op("ADD", [2, 0], [3])], [0], [3]))
    interpreter = check(gpu, model, frames(SHAPE), [0, 2])
    assert crossings(interpreter, frames(SHAPE)[0])["upload", "x"] == (1, NBYTES)
    for shape in ((2, 3, 5, 7), SHAPE):
        interpreter.resize_tensor_input(0, shape)
        interpreter.allocate_tensors()
        cpu = on_cpu(model)
        cpu.resize_tensor_input(0, shape)
        cpu.allocate_tensors()
        for inputs in frames(shape):
            same(run(interpreter, inputs), run(cpu, inputs))


# State ----------------------------------------------------------------------------------------------------------------


def stateful() -> bytes:
    """TANH, SVDF (whose state is a variable tensor) and EXP."""
    generator = np.random.default_rng(1)
    options = schema.SVDFOptionsT()
    options.rank = 1
    tensors = [
        T("x", (2, 3)), T("t", (2, 3)), T("features", (4, 3), generator.normal(size=(4, 3))),
        T("times", (4, 5), generator.normal(size=(4, 5))), T("bias", (4,), generator.normal(size=4)),
        T("state", (2, 20), variable=True), T("s", (2, 4)), T("y", (2, 4)),
    ]  # fmt: skip
    operators = [Op("TANH", [0], [1]), Op("SVDF", [1, 2, 3, 4, 5], [6], options), Op("EXP", [6], [7])]
    return build(G(tensors, operators, [0], [7]))


@on_both
def test_state_is_kept_between_invokes_and_can_be_reset(gpu: Device) -> None:
    given = frames((2, 3), count=4)
    interpreter = check(gpu, stateful(), given, [0, 2])
    fresh = run(on_cpu(stateful()), given[0])
    assert np.abs(run(interpreter, given[0])[0] - fresh[0]).max() > 0.01, "the state makes no difference"
    interpreter.reset_all_variables()
    same(run(interpreter, given[0]), fresh)


@on_both
def test_operators_that_touch_a_variable_are_left_to_the_cpu(gpu: Device) -> None:
    """An accumulator: it reads and writes one variable tensor."""
    state = T("state", SHAPE, variable=True)
    model = build(G([X, state, T("a", SHAPE), Y], [Op("EXP", [0], [2]), Op("ADD", [2, 1], [3])], [0], [3]))
    interpreter = check(gpu, model, frames(SHAPE), [0])
    assert "variable" in {op.index: op for op in interpreter.delegated_ops()}[1].reason


@on_both
def test_resource_variables(gpu: Device) -> None:
    """sum = sum + exp(x), in a variable that VAR_HANDLE names: subgraph 1 sets it to 0."""

    def handle() -> Any:
        options = schema.VarHandleOptionsT()
        options.sharedName = "sum"
        return options

    add = [Op("VAR_HANDLE", [], [2], handle()), Op("EXP", [0], [1]), Op("READ_VARIABLE", [2], [3])]
    add += [Op("ADD", [3, 1], [4]), Op("ASSIGN_VARIABLE", [2, 4], []), Op("NEG", [4], [5])]
    tensors = [X, T("e", SHAPE), T("handle", (), dtype="resource"), T("sum", SHAPE), T("more", SHAPE), Y]
    zero = [Op("VAR_HANDLE", [], [1], handle()), Op("ASSIGN_VARIABLE", [1, 2], [])]
    start = G([X, T("handle", (), dtype="resource"), T("zero", SHAPE, 0.0), Y], [*zero, Op("EXP", [0], [3])], [0], [3])
    model = build(
        replace(G(tensors, add, [0], [5]), name="add", signature="add"), replace(start, name="start", signature="start")
    )
    interpreter, delegate = on_gpu(gpu, model)
    taken = [(p.subgraph, p.operators) for p in delegate.engine.partitions]
    assert sorted(i for subgraph, operators in taken if subgraph == 0 for i in operators) == [1, 3, 5]
    cpu = on_cpu(model)
    for key in ("start", "add", "add", "start", "add"):
        (inputs,) = frames(SHAPE, count=1)
        ours, theirs = (i.get_signature_runner(key)(x=inputs[0])["y"] for i in (interpreter, cpu))
        same([ours], [theirs])


# Control flow and dynamic shapes --------------------------------------------------------------------------------------


def branching() -> bytes:
    """y = tanh(then or else of exp(x)), by the truth value c."""
    options = schema.IfOptionsT()
    options.thenSubgraphIndex, options.elseSubgraphIndex = 1, 2
    tensors = [T("c", (1,), dtype="bool"), X, T("a", SHAPE), T("r", SHAPE), Y]
    operators = [Op("EXP", [1], [2]), Op("IF", [0, 2], [3], options), Op("TANH", [3], [4])]
    branches = [G([X, Y], [Op(name, [0], [1])], [0], [1], name) for name in ("NEG", "SQRT")]
    return build(G(tensors, operators, [0, 1], [4]), *branches)


def looping() -> bytes:
    """x is doubled as long as n, which goes down by one, is above 0."""
    options = schema.WhileOptionsT()
    options.condSubgraphIndex, options.bodySubgraphIndex = 1, 2
    n = T("n", (1,))
    main = G(
        [n, X, T("a", SHAPE), T("m", (1,)), T("r", SHAPE), Y],
        [Op("TANH", [1], [2]), Op("WHILE", [0, 2], [3, 4], options), Op("TANH", [4], [5])],
        [0, 1],
        [5],
    )
    condition = G(
        [n, X, T("zero", (1,), 0.0), T("c", (1,), dtype="bool")], [Op("GREATER", [0, 2], [3])], [0, 1], [3], "condition"
    )
    body = G(
        [n, X, T("one", (1,), 1.0), T("m", (1,)), Y], [Op("SUB", [0, 2], [3]), Op("ADD", [1, 1], [4])],
        [0, 1], [3, 4], "body",
    )  # fmt: skip
    return build(main, condition, body)


@on_both
@pytest.mark.parametrize("keep", [False, True], ids=["copied", "kept"])
@pytest.mark.parametrize("model", [branching(), looping()], ids=["IF", "WHILE"])
def test_control_flow(gpu: Device, model: bytes, keep: bool) -> None:
    """Subgraphs run on the GPU too; what they return is copied to the CPU, for IF and WHILE, also if outputs stay
    on the GPU.
    """
    interpreter, delegate = on_gpu(gpu, model)
    assert sorted(partition.subgraph for partition in delegate.engine.partitions) == [0, 0, 1, 2]
    interpreter.set_allow_buffer_handle_output(keep)
    first, x = (detail["index"] for detail in interpreter.get_input_details())
    (output,) = interpreter.outputs()
    cpu = on_cpu(model)
    for number, (value,) in enumerate(frames(SHAPE)):
        control = np.array([number % 2]).astype(interpreter.get_input_details()[0]["dtype"])
        interpreter.set_tensor(first, control)
        interpreter.set_tensor(x, value)
        interpreter.invoke()
        assert delegate.is_readable(output) is not keep
        interpreter.ensure_tensor_data_is_readable(output)
        same([interpreter.get_tensor(output)], run(cpu, [control, value]))


def reshaped(declared: Sequence[int]) -> bytes:
    """y = tanh(exp(x) in the shape s), of which the file says this."""
    tensors = [X, T("s", (2,), dtype="int32"), T("a", SHAPE), T("r", declared), T("y", declared)]
    operators = [Op("EXP", [0], [2]), Op("RESHAPE", [2, 1], [3]), Op("TANH", [3], [4])]
    return build(G(tensors, operators, [0, 1], [4]))


@on_both
@pytest.mark.parametrize("declared, taken", [((1, 60), [0, 2]), ((), [0])], ids=["rank 2", "unknown rank"])
def test_a_shape_known_at_run_time_only(gpu: Device, declared: Sequence[int], taken: Sequence[int]) -> None:
    shapes = ([1, 60], [12, 5], [60, 1])
    given = [[x, np.array(s, np.int32)] for (x,), s in zip(frames(SHAPE), shapes, strict=True)]
    check(gpu, reshaped(declared), given, taken)


def shape_of_input() -> bytes:
    """y = the CPU's result in the shape of x, which SHAPE reads: it alone, between two operators of the CPU."""
    options = schema.ShapeOptionsT()
    options.outType = 2
    tensors = [X, T("l", SHAPE), T("s", (4,), dtype="int32"), T("a", SHAPE), Y]
    operators = [
        Op(CPU_ONLY, [0], [1]),
        Op("SHAPE", [0], [2], options),
        Op("EXP", [1], [3]),
        Op("RESHAPE", [3, 2], [4]),
    ]
    return build(G(tensors, operators, [0], [4]))


@on_both
def test_a_shape_that_is_a_constant_until_inputs_are_resized(gpu: Device) -> None:
    interpreter = check(gpu, shape_of_input(), frames(SHAPE), [1, 2, 3])
    turned = (1, 5, 4, 3)  # as many elements: no count would tell
    cpu = on_cpu(shape_of_input())
    for each in (interpreter, cpu):
        each.resize_tensor_input(0, turned)
        each.allocate_tensors()
    for inputs in frames(turned):
        same(run(interpreter, inputs), run(cpu, inputs))
    for allocated in (False, True):  # resized before the delegate is applied, it sees the shapes
        delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend_of(gpu)))
        fresh = fb.Interpreter(model_content=shape_of_input())
        fresh.resize_tensor_input(0, turned)
        if allocated:
            fresh.allocate_tensors()
        fresh.modify_graph_with_delegate(delegate)
        fresh.allocate_tensors()
        assert [p.operators for p in delegate.engine.partitions] == [(1, 2, 3)]
        for inputs in frames(turned):
            same(run(fresh, inputs), run(cpu, inputs))


@on_both
def test_an_empty_tensor(gpu: Device) -> None:
    """The outputs have as many rows as the input says; for none, nothing is computed."""
    tensors = [T("x", (4, 3)), T("begin", (2,), dtype="int32"), T("size", (2,), dtype="int32"), T("a", (4, 3))]
    tensors += [T("r", (1, 3), signature=(-1, 3)), T("y", (1, 3), signature=(-1, 3))]
    operators = [Op("EXP", [0], [3]), Op("SLICE", [3, 1, 2], [4]), Op("TANH", [4], [5])]
    model = build(G(tensors, operators, [0, 1, 2], [5]))
    begin, sizes = np.zeros(2, np.int32), (1, 0, 4, 0)
    given = [[x, begin, np.array([n, 3], np.int32)] for (x,), n in zip(frames((4, 3), count=4), sizes, strict=True)]
    check(gpu, model, given, [0, 2])


@on_both
def test_a_part_that_is_empty_for_some_shapes(gpu: Device) -> None:
    """The model returns it, and the GPU computes the other part."""
    tensors = [X, T("e", SHAPE), T("sizes", (2,), [2, -1], "int32"), T("axis", (), 1, "int32"), T("a", (1, 2, 5, 3)),
               T("rest", (1, 2, 5, 3)), T("y", (1, 2, 5, 3))]  # fmt: skip
    split = schema.SplitVOptionsT()
    split.numSplits = 2
    operators = [Op("EXP", [0], [1]), Op("SPLIT_V", [1, 2, 3], [4, 5], split), Op("NEG", [4], [6])]
    model = build(G(tensors, operators, [0], [6, 5]))
    interpreter, cpu = check(gpu, model, frames(SHAPE), [0, 1, 2]), on_cpu(model)
    for height in (2, 5, 2):
        shape = (1, height, 5, 3)
        for each in (interpreter, cpu):
            each.resize_tensor_input(0, shape)
            each.allocate_tensors()
        assert {op.runs_on for op in interpreter.delegated_ops()} == {"gpu"}
        for inputs in frames(shape):
            same(run(interpreter, inputs), run(cpu, inputs))


@on_both
def test_signatures_of_several_inputs_and_outputs(gpu: Device) -> None:
    """Each signature has a subgraph of its own, with a CPU operator in the middle of one."""
    one = G(
        [X, T("w", (1, 1, 1, 3)), T("a", SHAPE), T("b", SHAPE), Y],
        [Op("ADD", [0, 1], [2]), Op(CPU_ONLY, [2], [3]), Op("EXP", [3], [4])],
        [0, 1],
        [4, 2],
        "one",
        "one",
    )
    two = G([X, Y, T("z", SHAPE)], [Op("EXP", [0], [1]), Op("NEG", [1], [2])], [0], [1, 2], "two", "two")
    model = build(one, two)
    interpreter, delegate = on_gpu(gpu, model)
    assert [(p.subgraph, p.operators) for p in delegate.engine.partitions] == [(0, (0,)), (0, (2,)), (1, (0, 1))]
    cpu = on_cpu(model)
    for _, (x, w) in zip(range(2), frames(SHAPE, (1, 1, 1, 3)), strict=False):
        for key, given in (("one", {"x": x, "w": w}), ("two", {"x": x})):
            ours, theirs = (i.get_signature_runner(key)(**given) for i in (interpreter, cpu))
            assert list(ours) == list(theirs)
            same(list(ours.values()), list(theirs.values()))


# Operators that cannot be lowered -------------------------------------------------------------------------------------


@on_both
def test_an_operator_that_cannot_be_lowered_is_left_to_the_cpu_alone(
    gpu: Device, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Elementwise):
        def lower(self, lowering: Lowering) -> list[Launch]:
            raise ZeroDivisionError("integer division or modulo by zero")

    monkeypatch.setitem(OPERATORS, "TANH", TfliteOp("TANH", lambda _: Parsed(Broken())))
    check(gpu, chain("EXP", "TANH", "NEG", shape=SHAPE), frames(SHAPE), [0, 2])
    assert "TANH: it cannot be lowered (ZeroDivisionError: integer division or modulo by zero)" in caplog.text


def unsupported(model: bytes, device: NullDevice) -> dict[int, str]:
    subgraph = read_model(model).subgraphs[0]
    claims = claim(subgraph, lambda: device.traits.target)
    return claims.unsupported


def test_a_tensor_above_the_largest_buffer_is_left_to_the_cpu() -> None:
    options = schema.ReducerOptionsT()
    options.keepDims = True
    tensors = [T("large", (1, 64, 64, 4)), T("axes", (2,), [1, 2], "int32"), T("mean", (1, 1, 1, 4))]
    operators = [Op("MEAN", [0, 1], [2], options), Op("EXP", [2], [3])]
    model = build(G([*tensors, T("y", (1, 1, 1, 4))], operators, [0], [3]))
    assert unsupported(model, NullDevice()) == {}
    says = "tensor 'large' takes 65536 bytes; a buffer of null holds 65535"
    assert unsupported(model, NullDevice(max_buffer_bytes=65535)) == {0: says}


def test_constants_above_the_largest_buffer_are_left_to_the_cpu() -> None:
    """Two fit, the third does not; the one that is read twice counts once."""
    tensors = [T(f"t{i}", (1, 16)) for i in range(5)] + [T(f"c{i}", (1, 16), i) for i in range(3)]
    operators = [Op("ADD", [i, 5 + (0, 0, 1, 2)[i]], [i + 1]) for i in range(4)]
    model = build(G(tensors, operators, [0], [4]))
    assert unsupported(model, NullDevice(max_buffer_bytes=192)) == {}
    says = "with its constants those on the GPU take 192 bytes; a buffer of null holds 128"
    assert unsupported(model, NullDevice(max_buffer_bytes=128)) == {3: says}


def test_local_memory_and_buffers_are_limited() -> None:
    device = NullDevice()
    device.traits = replace(device.traits, local_bytes=64, max_memories=3)
    x, y = T("x", (1, 1024)), T("y", (1, 1024))
    said = unsupported(build(G([x, y], [Op("SOFTMAX", [0], [1], schema.SoftmaxOptionsT())], [0], [1])), device)
    assert said == {0: "a work-group needs 256 bytes of local memory; null has 64"}
    added = [T(f"x{i}", SHAPE) for i in range(5)]
    said = unsupported(build(G([*added, Y], [Op("ADD_N", range(5), [5])], range(5), [5])), device)
    assert said == {0: "a kernel of it uses 6 buffers; null gives it 3"}


# Truth values and indices ---------------------------------------------------------------------------------------------


def cast(source: str, target: str) -> Any:
    options = schema.CastOptionsT()
    numbers = {"float32": 0, "int32": 2, "int64": 4, "bool": 6}
    options.inDataType, options.outDataType = numbers[source], numbers[target]
    return options


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64"])
@pytest.mark.parametrize("shape", [(1, 3, 5, 3), (2, 3, 2, 8), (7,)], ids=str)
def test_truth_values_and_indices_cross_as_they_are(gpu: Device, dtype: str, shape: Sequence[int]) -> None:
    """They enter and leave in their own type, and the GPU converts them: the CPU copies bytes."""
    tensors = [T("x", shape), T("i", shape, dtype=dtype), T("made", shape, dtype=dtype), T("real", shape)]
    operators = [Op("CAST", [0], [2], cast("float32", dtype)), Op("CAST", [1], [3], cast(dtype, "float32"))]
    model = build(G(tensors, operators, [0, 1], [2, 3]))
    count = int(np.prod(shape))
    reals = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 2.0**24, -(2.0**24), 2.0**31 - 128, 128 - 2.0**31, 0.5]
    wide = {"bool": [0, 1, 1], "int32": [0, 1, -1, 2**24, -(2**24), 2**31 - 128, -(2**31)]}
    wide["int64"] = [*wide["int32"], 2**31, -(2**31) - 256, 2**40, -(2**40) - 2**17, 2**62, -(2**63)]
    if dtype == "int64":
        reals += [2.0**32, -(2.0**32) - 512, 3e9, -3e9, 1e18, -1e18]
    inputs = [np.resize(np.array(reals, np.float32), shape), np.resize(np.array(wide[dtype], dtype), shape)]
    interpreter = check(gpu, model, [inputs, [-inputs[0], inputs[1][..., ::-1]]], [0, 1])
    size = np.dtype(dtype).itemsize
    assert crossings(interpreter, inputs) == {
        ("upload", "x"): (1, count * 4),
        ("upload", "i"): (1, count * size),
        ("download", "made"): (1, count * size),
        ("download", "real"): (1, count * 4),
    }
