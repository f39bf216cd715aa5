"""Shapes of tensors: those that follow from the inputs are LiteRT's, whatever the file says, before and after resizing.

The oracle is LiteRT's CPU interpreter, which computes them anew too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt

import framebind as fb
from framebind.delegate.claim.subgraphs import parse_operators
from framebind.delegate.read.reader import read_model
from framebind.tools.certify.cases.operator_cases import CASES
from framebind.tools.certify.cases.operator_models import (
    CPU_KERNELS,
    Const,
    ModelCase,
    case_model,
    options,
    output_shapes,
)
from support.tiny_models import CPU_ONLY, G, Op, T, build, chain

Backend = Literal["null", "opengl"]
Shape = tuple[int, ...]
Array = npt.NDArray[Any]


def undeclared(case: ModelCase) -> bytes:
    """The case's model, of which the file declares no shapes of outputs."""
    return case_model(case, [()] * len(output_shapes(case)))


def check_inferred(case: ModelCase) -> None:
    subgraph = read_model(undeclared(case)).subgraphs[0]
    operator = [operator for operator in subgraph.operators if operator.name == case.operator][-1]
    parsed = parse_operators(subgraph, quantized=True, shapes={})
    assert parsed.unsupported == {}, str(case)
    assert [parsed.tensors[i].shape for i in operator.outputs] == [*map(tuple, output_shapes(case))], str(case)


@pytest.mark.parametrize("step", [100, 1])
def test_shapes_that_no_file_declares_are_litert_s(step: int) -> None:
    """Every ``step``-th case of the operators."""
    for case in CASES[::step]:
        check_inferred(case)


@pytest.mark.parametrize("dtype", ["int64", "bool", "float16"])
def test_shapes_do_not_depend_on_types(dtype: str) -> None:
    """An operator that the CPU computes, because the GPU does not take the types, has a shape all the same."""
    tensors = [T("x", (2, 3, 4), dtype=dtype), T("y", (3, 1), dtype=dtype), T("sum", (), dtype=dtype),
               T("axes", (1,), [1], "int32"), T("r", (), dtype=dtype), T("first", (3,), [0, 0, 1], "int32"),
               T("size", (3,), [-1, 2, 1], "int32"), T("s", (), dtype=dtype)]  # fmt: skip
    operators = [
        Op("MUL", [0, 1], [2], options("Mul")),
        Op("REDUCE_MAX", [2, 3], [4], options("Reducer", keepDims=True)),
        Op("SLICE", [2, 5, 6], [7]),
    ]
    subgraph = read_model(build(G(tensors, operators, [0, 1], [4, 7]))).subgraphs[0]
    parsed = parse_operators(subgraph, quantized=True, shapes={})
    assert [parsed.tensors[i].shape for i in (2, 4, 7)] == [(2, 3, 4), (2, 1, 4), (2, 2, 1)]


def lengths(*values: int) -> T:
    return T(f"lengths {values}", (len(values),), values, "int32")


X = T("x", (2, 6, 5, 3))
ON_THE_CPU: dict[str, tuple[list[T], Any, str]] = {
    "L2_POOL_2D": ([X], options("Pool2D", filterHeight=2, filterWidth=3, strideH=2, strideW=1), "float32"),
    "REVERSE_SEQUENCE": ([X, lengths(2, 3)], options("ReverseSequence", seqDim=1), "float32"),
    "MATRIX_DIAG": ([X], options("MatrixDiag"), "float32"),
    "MATRIX_SET_DIAG": ([X, T("diagonal", (2, 6, 3))], options("MatrixSetDiag"), "float32"),
    "BUCKETIZE": ([X], options("Bucketize", boundaries=[0.0, 1.0]), "int32"),
    "RANDOM_UNIFORM": ([lengths(2, 3, 4)], options("Random"), "float32"),
    "UNSORTED_SEGMENT_SUM": ([X, T("ids", (2, 6), 0, "int32"), T("count", (), 4, "int32")],
                             options("UnsortedSegmentSum"), "float32"),
    "SVDF": ([T("x", (2, 3)), T("features", (4, 3), 1.0), T("times", (4, 5), 1.0), T("bias", (4,), 0.0),
              T("state", (2, 20), variable=True)], options("SVDF", rank=1), "float32"),
    "UNIDIRECTIONAL_SEQUENCE_RNN": (
        [T("x", (2, 6, 3)), T("w", (4, 3), 1.0), T("r", (4, 4), 1.0), T("b", (4,), 0.0),
         T("state", (2, 4), variable=True)],
        options("SequenceRNN"), "float32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ON_THE_CPU)
def test_shapes_of_operators_that_have_no_kernel(name: str) -> None:
    inputs, table, dtype = ON_THE_CPU[name]
    tensors = [*inputs, T("beside", (2,)), T("negated", (2,)), T("y", (), dtype=dtype)]
    count = len(inputs)
    operators = [Op(name, range(count), [count + 2], table), Op("NEG", [count], [count + 1])]
    runtime = [i for i, tensor in enumerate(inputs) if tensor.values is None and not tensor.variable]
    model = build(G(tensors, operators, [*runtime, count], [count + 2, count + 1]))
    parsed = parse_operators(read_model(model).subgraphs[0], quantized=True, shapes={})
    cpu = LiteRt(model_content=model, experimental_op_resolver_type=CPU_KERNELS)
    cpu.allocate_tensors()
    assert 0 in parsed.unsupported and parsed.unknown == set()
    assert parsed.tensors[count + 2].shape == shape_of(cpu.get_output_details()[0])


def test_an_ellipsis_for_no_dimension_is_litert_s() -> None:
    """LiteRT takes it for one dimension, and leaves out the last range."""
    index = [T("begin", (2,), [0, 1], "int32"), T("end", (2,), [2, 2], "int32"), T("step", (2,), [1, 1], "int32")]
    table = options("StridedSlice", ellipsisMask=1)
    model = build(G([T("x", (3,)), *index, T("y", ())], [Op("STRIDED_SLICE", [0, 1, 2, 3], [4], table)], [0], [4]))
    assert "ellipsis" in parse_operators(read_model(model).subgraphs[0], quantized=True, shapes={}).unsupported[0]
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(on(applied(model), x), alone(model, x))


@pytest.mark.parametrize(
    ("masks", "begin", "reason"),
    [({"ellipsisMask": 3}, 1, "more than one ellipsis"), ({"shrinkAxisMask": 2}, 1, "dimension 1 backwards")],
)
def test_masks_that_litert_reads_in_a_way_of_its_own_are_litert_s(masks: Any, begin: int, reason: str) -> None:
    index = [T("begin", (2,), [0, begin], "int32"), T("end", (2,), [1, 2], "int32"), T("step", (2,), [1, -1], "int32")]
    graph = G([T("x", (3, 4)), *index, T("y", ())], [], [0], [4])
    graph.operators.append(Op("STRIDED_SLICE", [0, 1, 2, 3], [4], options("StridedSlice", **masks)))
    parsed = parse_operators(read_model(build(graph)).subgraphs[0], quantized=True, shapes={})
    assert reason in parsed.unsupported[0]


@pytest.mark.parametrize(("operator", "kind"), [("SLICE", "Slice"), ("STRIDED_SLICE", "StridedSlice")])
def test_a_begin_of_two_dimensions_is_litert_s(operator: str, kind: str) -> None:
    """LiteRT refuses it."""
    others = [T(f"list {i}", (2,), [1, 1], "int32") for i in range(1 if operator == "SLICE" else 2)]
    tensors = [T("x", (3, 4)), T("begin", (1, 2), dtype="int32"), *others, T("y", ())]
    last = len(tensors) - 1
    model = build(G(tensors, [Op(operator, range(last), [last], options(kind))], [0, 1], [last]))
    assert "must" in parse_operators(read_model(model).subgraphs[0], quantized=True, shapes={}).unsupported[0]
    with pytest.raises(RuntimeError, match="failed to prepare"):
        LiteRt(model_content=model, experimental_op_resolver_type=CPU_KERNELS).allocate_tensors()


def test_matrices_of_six_dimensions_are_litert_s() -> None:
    """LiteRT refuses them."""
    tensors = [T("x", (1, 1, 1, 1, 2, 3)), T("w", (3, 4), 1.0), T("y", ())]
    model = build(G(tensors, [Op("BATCH_MATMUL", [0, 1], [2], options("BatchMatMul"))], [0], [2]))
    assert "at most 5" in parse_operators(read_model(model).subgraphs[0], quantized=True, shapes={}).unsupported[0]
    with pytest.raises(RuntimeError, match="failed to prepare"):
        LiteRt(model_content=model, experimental_op_resolver_type=CPU_KERNELS).allocate_tensors()


# Resizing -------------------------------------------------------------------------------------------------------------


def applied(model: bytes, backend: Backend = "null") -> fb.Interpreter:
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend))
    interpreter = fb.Interpreter(model_content=model, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    return interpreter


def resized(interpreter: LiteRt, shapes: Sequence[Shape]) -> list[Shape] | None:
    """The outputs' shapes for inputs of these shapes; None if they are refused."""
    try:
        for detail, shape in zip(interpreter.get_input_details(), shapes, strict=True):
            interpreter.resize_tensor_input(detail["index"], shape)
        interpreter.allocate_tensors()
    except (fb.ModelError, RuntimeError):
        return None
    return [shape_of(detail) for detail in interpreter.get_output_details()]


def shapes_of_run(interpreter: LiteRt) -> list[Shape]:
    """The outputs' shapes that LiteRT finds when it runs: here those that follow from the values of inputs, zeros."""
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], np.zeros(detail["shape"], detail["dtype"]))
    interpreter.invoke()
    return [shape_of(detail) for detail in interpreter.get_output_details()]


def shape_of(detail: Any) -> Shape:
    return tuple(int(size) for size in detail["shape"])


def other_shape(generator: random.Random, shape: Shape) -> Shape:
    """A shape of another size, or of a rank that is one more or less."""
    kind = generator.random()
    if kind < 0.1 or not shape:
        return (1, *shape)
    if kind < 0.2 and len(shape) > 1:
        return shape[1:]
    place = generator.randrange(len(shape))
    size = max(1, shape[place] + generator.choice([-2, -1, 1, 2, shape[place]]))
    return (*shape[:place], size, *shape[place + 1 :])


@pytest.mark.parametrize("step", [300, 1])
def test_resizing_is_refused_when_litert_refuses_it(step: int) -> None:
    """Sizes that contradict a constant (channels, paddings, matrices) are refused; all other shapes are LiteRT's."""
    generator = random.Random(0)
    for case in CASES[7::step]:
        model = undeclared(case)
        ours = applied(model)
        for _ in range(2):
            shapes = [other_shape(generator, shape_of(detail)) for detail in ours.get_input_details()]
            cpu = LiteRt(model_content=model, experimental_op_resolver_type=CPU_KERNELS)
            found, expected = resized(ours, shapes), resized(cpu, shapes)
            if expected and expected != found and case.shapes:
                expected = shapes_of_run(cpu)
            elif expected and expected != found and case.operator == "TRANSPOSE_CONV":
                # The batch is the input's, as by XNNPACK. LiteRT's own kernel stops if the constant has another one.
                picture = shapes[0 if isinstance(case.inputs[1], Const) else 1]
                expected = [(picture[0], *expected[0][1:])]
            assert found == expected, f"{case} {shapes}"


def convolution() -> bytes:
    """EXP, a 1x1 convolution of 3 channels, TANH. Ranks are not known before an input is given a shape."""
    tensors = [T("x", ()), T("e", ()), T("w", (3, 1, 1, 3), np.arange(9).reshape(3, 1, 1, 3)), T("b", (3,), [1, 2, 3]),
               T("c", ()), T("y", ())]  # fmt: skip
    table = options("Conv2D", strideH=1, strideW=1, padding=1)
    operators = [Op("EXP", [0], [1]), Op("CONV_2D", [1, 2, 3], [4], table), Op("TANH", [4], [5])]
    return build(G(tensors, operators, [0], [5]))


def test_a_refused_size_names_operator_and_reason_and_stays_refused() -> None:
    model = build(
        G([T("x", (1, 4, 5, 3)), T("w", (3, 1, 1, 3), 1.0), T("b", (3,), 0.0), T("y", ())],
          [Op("CONV_2D", [0, 1, 2], [3], options("Conv2D", strideH=1, strideW=1))], [0], [3])
    )  # fmt: skip
    interpreter = applied(model)
    interpreter.resize_tensor_input(0, (1, 4, 5, 4))
    says = (
        r"does not take input shapes \[\(1, 4, 5, 4\)\]: operator 0 CONV_2D: .* do not divide 4 channels .* LiteRT says"
    )
    for _ in range(2):
        with pytest.raises(fb.ModelError, match=says):
            interpreter.allocate_tensors()
    interpreter.resize_tensor_input(0, (2, 4, 5, 3))
    interpreter.allocate_tensors()


def scaled_by_shape() -> bytes:
    """NEG(x) is doubled by a RESIZE whose size is half of a SHAPE, times 4; then all of it in one row per picture."""
    tensors = [
        T("x", (1, 2, 4, 3)), T("n", ()), T("shape", (), dtype="int32"), T("one", (1,), [1], "int32"),
        T("three", (1,), [3], "int32"), T("size", (), dtype="int32"), T("two", (), 2, "int32"),
        T("half", (), dtype="int32"), T("four", (2,), [4, 4], "int32"), T("large", (), dtype="int32"), T("r", ()),
        T("zero", (1,), [0], "int32"), T("batch", (), dtype="int32"), T("rest", (), -1, "int32"),
        T("rows", (), dtype="int32"), T("y", ()),
    ]  # fmt: skip
    operators = [
        Op("NEG", [0], [1]),
        Op("SHAPE", [1], [2], options("Shape", outType=2)),
        Op("STRIDED_SLICE", [2, 3, 4, 3], [5], options("StridedSlice")),
        Op("FLOOR_DIV", [5, 6], [7], options("FloorDiv")),
        Op("MUL", [7, 8], [9], options("Mul")),
        Op("RESIZE_NEAREST_NEIGHBOR", [1, 9], [10], options("ResizeNearestNeighbor")),
        Op("STRIDED_SLICE", [2, 11, 3, 3], [12], options("StridedSlice", shrinkAxisMask=1)),
        Op("PACK", [12, 13], [14], options("Pack", valuesCount=2)),
        Op("RESHAPE", [10, 14], [15], options("Reshape")),
    ]
    return build(G(tensors, operators, [0], [15]))


def through_litert(model: bytes, backend: Backend) -> tuple[LiteRt, Callable[[], None]]:
    """LiteRT's own interpreter, without XNNPACK, which does not take rank 7; and what applies a delegate to it."""
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend), model_content=model)
    interpreter: Any = LiteRt(model_content=model, experimental_op_resolver_type=CPU_KERNELS)
    interpreter._delegates = [delegate]
    return interpreter, lambda: interpreter._interpreter.ModifyGraphWithDelegate(
        delegate._get_native_delegate_pointer()
    )


def through_ours(model: bytes, backend: Backend) -> tuple[LiteRt, Callable[[], None]]:
    interpreter = fb.Interpreter(model_content=model)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend))
    return interpreter, lambda: interpreter.modify_graph_with_delegate(delegate)


def places_of_positive_values() -> bytes:
    """The negated places of values above 0, whose number is known while the model runs, in a shape from SHAPE."""
    rows, columns = {"signature": (-1, 4)}, {"signature": (4, -1)}
    tensors = [
        T("x", (1, 4, 5, 3)), T("zero", (), 0.0), T("above", (), dtype="bool"),
        T("places", (1, 4), dtype="int64", **rows), T("c", (1, 4), **rows), T("s", (2,), dtype="int32"),
        T("n", (1, 4), **rows), T("axis", (1,), [0], "int32"), T("turned", (2,), dtype="int32"),
        T("y", (4, 1), **columns),
    ]  # fmt: skip
    operators = [
        Op("GREATER", [0, 1], [2]),
        Op("WHERE", [2], [3]),
        Op("CAST", [3], [4], options("Cast")),
        Op("SHAPE", [4], [5], options("Shape", outType=2)),
        Op("NEG", [4], [6]),
        Op("REVERSE_V2", [5, 7], [8], options("ReverseV2")),
        Op("RESHAPE", [6, 8], [9], options("Reshape")),
    ]
    return build(G(tensors, operators, [0], [9]))


def spectra_of_frames() -> bytes:
    """Absolute frequencies of frames of 8 values, as tf.signal.stft makes it for an unknown number of signals: the
    dimensions after the time are an empty part of SHAPE, and the time is reshaped to a scalar by an empty shape.
    """
    i32, i64 = {"dtype": "int32"}, {"dtype": "complex64"}
    tensors = [
        T("x", (1, 16)), T("n", ()), T("shape", (2,), **i32), T("sizes", (3,), [1, 1, 0], "int32"),
        T("zero", (), 0, "int32"), T("batch", (1,), **i32), T("time", (1,), **i32), T("after", (0,), **i32),
        T("scalar", (0,), [], "int32"), T("t", (), **i32), T("8", (), 8, "int32"), T("count", (), **i32),
        T("both", (2,), **i32), T("frames", (3,), **i32), T("f", (1, 2, 8)), T("2", (), 2, "int32"),
        T("rows", (1, 2, 1, 8)), T("length", (2,), [1, 8], "int32"), T("s", (1, 2, 1, 5), **i64),
        T("q", (1, 2, 5), **i64), T("y", (1, 2, 5)),
    ]  # fmt: skip
    operators = [
        Op("NEG", [0], [1]),
        Op("SHAPE", [1], [2], options("Shape", outType=2)),
        Op("SPLIT_V", [2, 3, 4], [5, 6, 7], options("SplitV", numSplits=3)),
        Op("RESHAPE", [6, 8], [9], options("Reshape")),
        Op("FLOOR_DIV", [9, 10], [11], options("FloorDiv")),
        Op("PACK", [11, 10], [12], options("Pack", valuesCount=2)),
        Op("CONCATENATION", [7, 5, 12], [13], options("Concatenation")),
        Op("RESHAPE", [1, 13], [14], options("Reshape")),
        Op("EXPAND_DIMS", [14, 15], [16], options("ExpandDims")),
        Op("RFFT2D", [16, 17], [18], options("Rfft2d")),
        Op("SQUEEZE", [18], [19], options("Squeeze", squeezeDims=[2])),
        Op("COMPLEX_ABS", [19], [20]),
    ]
    return build(G(tensors, operators, [0], [20]))


def powers() -> bytes:
    """2.5 to the power of x, of rank 5, as converters make it for an unknown batch: both are broadcast to the shape of
    both. The scalar's own shape is empty.
    """
    tensors = [
        T("x", (1, 2, 3, 2, 3)), T("n", ()), T("shape", (5,), dtype="int64"), T("none", (0,), [], "int64"),
        T("all", (5,), dtype="int64"), T("scalar", (), 2.5), T("a", (1, 2, 3, 2, 3)), T("b", (1, 2, 3, 2, 3)),
        T("y", (1, 2, 3, 2, 3)),
    ]  # fmt: skip
    operators = [
        Op("NEG", [0], [1]),
        Op("SHAPE", [1], [2], options("Shape", outType=4)),
        Op("BROADCAST_ARGS", [3, 2], [4]),
        Op("BROADCAST_TO", [5, 4], [6], version=2),
        Op("BROADCAST_TO", [1, 4], [7], version=2),
        Op("POW", [6, 7], [8], options("Pow")),
    ]
    return build(G(tensors, operators, [0], [8]))


MODELS: dict[str, tuple[bytes, Sequence[Shape]]] = {
    "broadcast scalar": (powers(), [(1, 2, 3, 2, 3), (3, 2, 3, 2, 3)]),
    "empty parts of SHAPE": (spectra_of_frames(), [(1, 16), (3, 32), (2, 8)]),
    "SHAPE": (scaled_by_shape(), [(1, 4, 6, 3), (3, 2, 2, 1), (1, 4, 6, 3)]),
    "places": (places_of_positive_values(), [(1, 4, 5, 3), (2, 3, 4, 5), (1, 2, 1, 3)]),
    "unknown rank": (convolution(), [(1, 4, 5, 3), (2, 3, 3, 3), (1, 4, 5, 3)]),
    "any rank": (chain("EXP", "NEG", shape=()), [(2, 3), (1, 2, 3, 4), (4,), (2, 1, 2, 1, 2, 1, 2), (0, 3), (3, 4)]),
    "between partitions": (chain("EXP", CPU_ONLY, "NEG"), [(2, 4, 5, 3), (1, 2, 3, 4)]),
}


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize("when", ["first", "resized", "allocated"])
@pytest.mark.parametrize("make", [through_ours, through_litert])
@pytest.mark.parametrize("name", MODELS)
def test_any_order_of_calls(name: str, make: Any, when: str, context: fb.GlContext) -> None:
    """The delegate is applied before or after an input is resized and tensors are allocated; later sizes follow."""
    model, shapes = MODELS[name]
    interpreter, apply = make(model, "opengl")
    for shape in shapes:
        if when == "first":
            apply()
        interpreter.resize_tensor_input(0, shape)
        if when == "resized":
            apply()
        interpreter.allocate_tensors()
        if when == "allocated":
            apply()
            interpreter.allocate_tensors()
        when = ""
        x = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
        np.testing.assert_allclose(on(interpreter, x), alone(model, x), atol=2e-6)


def on(interpreter: LiteRt, x: Array) -> Array:
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def alone(model: bytes, x: Array) -> Array:
    """The result of LiteRT's CPU kernels."""
    interpreter = LiteRt(model_content=model, experimental_op_resolver_type=CPU_KERNELS)
    interpreter.resize_tensor_input(0, x.shape)
    interpreter.allocate_tensors()
    return on(interpreter, x)


DEEP = (1, 1, 1, 1, 1, 2, 2, 5, 3)
"""A shape of a rank that no GPU takes."""


def flattened() -> bytes:
    """The sum of r and of what the CPU makes of it; r is EXP of the input, of any rank, as rows of pixels."""
    tensors = [T("x", ()), T("e", ()), T("s", (4,), [1, -1, 5, 3], "int32"), T("r", ()), T("c", ()), T("y", ())]
    operators = [Op("EXP", [0], [1]), Op("RESHAPE", [1, 2], [3], options("Reshape")), Op(CPU_ONLY, [3], [4])]
    return build(G(tensors, [*operators, Op("ADD", [3, 4], [5], options("Add"))], [0], [5]))


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_partition_on_the_cpu_gives_its_results_to_the_next_on_the_gpu(
    context: fb.GlContext, caplog: pytest.LogCaptureFixture
) -> None:
    interpreter = fb.Interpreter(model_content=flattened())
    interpreter.resize_tensor_input(0, (1, 4, 5, 3))
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl")))
    where = ["gpu", "gpu", "cpu", "gpu"]
    for shape, first in (((1, 4, 5, 3), "gpu"), (DEEP, "cpu"), ((4, 15), "gpu"), (DEEP, "cpu")):
        interpreter.resize_tensor_input(0, shape)
        interpreter.allocate_tensors()
        assert [op.runs_on for op in interpreter.delegated_ops()] == [first, first, *where[2:]]
        for seed in (0, 1):
            x = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
            np.testing.assert_allclose(on(interpreter, x), alone(flattened(), x), atol=2e-6)
    assert "a part of the model runs on the CPU: operator 0 EXP: tensor 'x' has rank 9" in caplog.text


def shared() -> bytes:
    """y is x, times what the CPU makes of z. The first partition has EXP of x too, and the negative of w."""
    shape = (1, 4, 5, 3)
    tensors = [T("x", shape), T("w", ()), T("z", shape), *(T(name, ()) for name in "abcy")]
    operators = [
        Op("EXP", [0], [3]),
        Op("NEG", [1], [4]),
        Op(CPU_ONLY, [2], [5]),
        Op("MUL", [5, 0], [6], options("Mul")),
    ]
    return build(G(tensors, operators, [0, 1, 2], [3, 4, 6]))


def gathered() -> bytes:
    """y is x, times what the CPU makes of z. The first partition has rows of x, of which there may be none."""
    shape = (1, 4, 5, 3)
    tensors = [
        T("x", shape),
        T("w", (2,), dtype="int32", signature=(-1,)),
        T("z", shape),
        *(T(name, ()) for name in "acy"),
    ]
    gather = Op("GATHER", [0, 1], [3], options("Gather", axis=1))
    operators = [gather, Op(CPU_ONLY, [2], [4]), Op("MUL", [4, 0], [5], options("Mul"))]
    return build(G(tensors, operators, [0, 1, 2], [3, 5]))


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize(
    "model, sizes, dtype",
    [(shared(), [(2,), DEEP, (3,)], np.float32), (gathered(), [(2,), (0,), (3,)], np.int32)],
    ids=["on the CPU", "empty"],
)
def test_an_input_that_a_first_partition_does_not_copy_reaches_the_next_one(
    model: bytes, sizes: Sequence[Shape], dtype: Any, context: fb.GlContext
) -> None:
    """Both read x, which the first one copies to the GPU unless it does not run there."""
    interpreter, apply = through_ours(model, "opengl")
    apply()
    cpu = LiteRt(model_content=model, experimental_op_resolver_type=CPU_KERNELS)
    for size in sizes:
        for each in (interpreter, cpu):
            each.resize_tensor_input(1, size)
            each.allocate_tensors()
        for seed in (0, 1):
            x, z = np.random.default_rng(seed).uniform(-1, 1, (2, 1, 4, 5, 3)).astype(np.float32)
            for each in (interpreter, cpu):
                each.set_tensor(0, x)
                each.set_tensor(1, np.ones(size, dtype))
                each.set_tensor(2, z)
                each.invoke()
            for output in cpu.get_output_details():
                ours, theirs = (each.get_tensor(output["index"]) for each in (interpreter, cpu))
                np.testing.assert_allclose(ours, theirs, atol=2e-6)


def without_first_row() -> bytes:
    """The negative of x, and the sum of its rows but the first with what the CPU makes of them."""
    tensors = [
        T("x", (2, 4, 5, 3)), T("begin", (1,), [1], "int32"), T("end", (1,), [0], "int32"),
        T("step", (1,), [1], "int32"), T("n", ()), T("r", ()), T("c", ()), T("y", ()),
    ]  # fmt: skip
    rows = Op("STRIDED_SLICE", [0, 1, 2, 3], [5], options("StridedSlice", endMask=1))
    operators = [Op("NEG", [0], [4]), rows, Op(CPU_ONLY, [5], [6]), Op("ADD", [5, 6], [7], options("Add"))]
    return build(G(tensors, operators, [0], [4, 5, 7]))


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_some_outputs_are_empty_after_a_resize(context: fb.GlContext) -> None:
    interpreter = fb.Interpreter(model_content=without_first_row())
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl")))
    cpu = LiteRt(model_content=without_first_row(), experimental_op_resolver_type=CPU_KERNELS)
    for rows in (2, 1, 3, 1):
        x = np.random.default_rng(rows).uniform(-1, 1, (rows, 4, 5, 3)).astype(np.float32)
        for each in (interpreter, cpu):
            each.resize_tensor_input(0, x.shape)
            each.allocate_tensors()
            each.set_tensor(0, x)
            each.invoke()
        for output in cpu.get_output_details():
            ours, theirs = (each.get_tensor(output["index"]) for each in (interpreter, cpu))
            np.testing.assert_allclose(ours, theirs, atol=2e-6)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_the_cpu_does_not_reach_what_is_bound(context: fb.GlContext) -> None:
    interpreter = fb.Interpreter(model_content=chain("EXP", shape=(1, 4, 5, 3)))
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    delegate.bind_buffer_to_tensor(fb.GlBuffer(60 * 4), 0)
    interpreter.resize_tensor_input(0, DEEP)
    interpreter.allocate_tensors()
    with pytest.raises(fb.ModelError, match=r"tensor 0 'x' .* is bound to an object, but the CPU computes"):
        interpreter.invoke()
    delegate.unbind(0)
    np.testing.assert_allclose(on(interpreter, np.zeros(DEEP, np.float32)), np.ones(DEEP), atol=1e-6)


@pytest.mark.parametrize(
    "model, shape",
    [(scaled_by_shape(), (1, 4 * 8 * 3)), (spectra_of_frames(), (1, 2, 5)), (powers(), (1, 2, 3, 2, 3))],
    ids=["scaled", "empty", "broadcast"],
)
def test_nothing_of_shapes_that_are_computed_stays_on_the_cpu(model: bytes, shape: Shape) -> None:
    interpreter = applied(model)
    assert {op.runs_on for op in interpreter.delegated_ops()} == {"gpu"}
    assert [shape_of(detail) for detail in interpreter.get_output_details()] == [shape]
