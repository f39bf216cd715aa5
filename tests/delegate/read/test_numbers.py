"""Numbers of a model's file that stand for something: none counts from the end, or is read from another's table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

import framebind as fb
from framebind.delegate.read.reader import read_model
from framebind.interop.device import Device
from framebind.kernels.codegen.macro import literal
from framebind.kernels.operation import Unsupported
from framebind.kernels.ops.arguments import ACTIVATIONS, activation_epilogue, member
from framebind.tools.certify.cases.operator_models import CPU_KERNELS, options
from support.tiny_models import G, Op, T, build

INFINITY = float("inf")
X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(1, 2, 3, 4)


def one(operator: Op, *constants: T, output: T | None = None) -> bytes:
    """One operator on x (1, 2, 3, 4) and constants."""
    tensors = [T("x", X.shape), *constants, output or T("y", X.shape)]
    return build(G(tensors, [operator], [0], [len(tensors) - 1]))


def results(content: bytes, backend: str) -> tuple[list[Any], list[str], list[str]]:
    """The model's output without and with a delegate, where its operators run, and why not on the GPU."""
    found: list[Any] = []
    for delegates in ([], [fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend))]):  # type: ignore[arg-type]
        interpreter = fb.Interpreter(model_content=content, experimental_delegates=delegates)
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, X)
        interpreter.invoke()
        found.append(interpreter.get_tensor(interpreter.outputs()[0]))
    operators = interpreter.delegated_ops()
    return found, [operator.runs_on for operator in operators], [operator.reason for operator in operators]


@pytest.mark.parametrize("number", [-1, -5, 5, 6, 100])
def test_a_number_that_is_no_member_of_an_enum_has_no_gpu_form(number: int) -> None:
    with pytest.raises(Unsupported, match=f"fused activation function {number} has no GPU form"):
        activation_epilogue(number)
    with pytest.raises(Unsupported, match=f"mirroring {number} has no GPU form"):
        member(("reflect", "symmetric"), number, "mirroring")
    assert [member(ACTIVATIONS, i, "") for i in range(len(ACTIVATIONS))] == list(ACTIVATIONS)


ODD = [
    (one(Op("ADD", [0, 0], [1], options("Add", fusedActivationFunction=-1))), "fused activation function -1 has no"),
    (one(Op("SOFTMAX", [0], [1], options("Softmax", beta=INFINITY))), "its beta is inf, which is not finite"),
    (one(Op("SOFTMAX", [0], [1], options("Softmax", beta=float("nan")))), "its beta is nan, which is not finite"),
    (
        one(Op("GATHER", [0, 1], [2], options("Gather", axis=3, batchDims=-7)), T("i", (1, 2), 0, "int32")),
        "-5 batch dimensions are not those of indices",
    ),
    (
        one(Op("SHAPE", [0], [1], options("Shape", outType=2)), output=T("y", (4,), dtype="int64")),
        "tensor 'y' is declared int64, and LiteRT computes int32",
    ),
    (
        one(
            Op("ARG_MAX", [0, 1], [2], options("ArgMax", outputType=4)),
            T("a", (1,), [3], "int32"),
            output=T("y", (1, 2, 3), dtype="int32"),
        ),
        "tensor 'y' is declared int32, and LiteRT computes int64",
    ),
    (one(Op("MIRROR_PAD", [0, 1], [2], options("MirrorPad", mode=-1)), T("p", (4, 2), 0, "int32")), "mirroring -1"),
]


@pytest.mark.parametrize("content, says", ODD, ids=[says for _, says in ODD])
def test_an_operator_with_an_odd_number_is_left_to_the_cpu(content: bytes, says: str) -> None:
    interpreter = fb.Interpreter(model_content=content)
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(backend="null")))
    (operator,) = interpreter.delegated_ops()
    assert operator.runs_on == "cpu" and says in operator.reason


def test_negative_batch_dimensions_count_from_the_rank_of_the_indices() -> None:
    indices = T("i", (1, 2, 2), [[[0, 2], [1, 1]]], "int32")
    gather = Op("GATHER", [0, 1], [2], options("Gather", axis=2, batchDims=-1))
    found, runs_on, _ = results(one(gather, indices, output=T("y", (1, 2, 2, 4))), "opengl")
    np.testing.assert_array_equal(*found)
    assert runs_on == ["gpu"]


def test_options_of_another_operator_are_none() -> None:
    """LiteRT adds without the activation function of a subtraction."""
    content = one(Op("ADD", [0, 0], [1], options("Sub", fusedActivationFunction=1)))
    assert read_model(content).subgraphs[0].operators[0].options is None
    found, runs_on, _ = results(content, "opengl")
    np.testing.assert_array_equal(*found)
    assert found[0].min() < 0 and runs_on == ["gpu"]
    read = read_model(one(Op("SUM", [0, 1], [2], schema.ReducerOptionsT()), T("a", (1,), 0, "int32")))
    assert read.subgraphs[0].operators[0].options is not None


def test_padding_with_a_number_that_is_not_finite(gpu: Device) -> None:
    """Programs that pad for a maximum write -infinity, which GLSL and OpenCL C cannot."""
    amounts = T("p", (4, 2), [[0, 0], [1, 0], [0, 0], [0, 0]], "int32")
    content = one(Op("PADV2", [0, 1, 2], [3]), amounts, T("v", (1,), -INFINITY), output=T("y", (1, 3, 3, 4)))
    found, runs_on, _ = results(content, gpu.traits.api.removesuffix(" es"))
    np.testing.assert_array_equal(*found)
    assert runs_on == ["gpu"] and np.isneginf(found[0]).any()


def test_numbers_that_are_not_finite_are_written_as_bits() -> None:
    values = (1.5, INFINITY, -INFINITY, float("nan"))
    shown = "(1.5f) FLOAT_OF_BITS(0x7f800000u) FLOAT_OF_BITS(0xff800000u) FLOAT_OF_BITS(0x7fc00000u)"
    assert " ".join(map(literal, values)) == shown


@pytest.mark.parametrize("names", [("NEG", "CAST"), ("NEG", "RELU", "CAST"), ("NEG", "ABS"), ("NEG", "ABS", "NEG")])
def test_a_tensor_has_the_type_that_litert_computes(names: tuple[str, ...]) -> None:
    """The file declares float32 for the negative of an integer. LiteRT's own kernels are asked: XNNPACK misreads it."""
    tensors = [T("x", (1, 4), dtype="int32"), *(T(f"t{i}", (1, 4)) for i in range(len(names)))]
    cast = options("Cast", inDataType=schema.TensorType.FLOAT32, outDataType=schema.TensorType.FLOAT32)
    operators = [Op(name, [i], [i + 1], cast if name == "CAST" else None) for i, name in enumerate(names)]
    content = build(G(tensors, operators, [0], [len(names)]))
    seen: list[Any] = []
    for delegates in ([], [fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))]):
        interpreter = fb.Interpreter(
            model_content=content, experimental_delegates=delegates, experimental_op_resolver_type=CPU_KERNELS
        )
        for shape in ((1, 4), (2, 4)):
            interpreter.resize_tensor_input(0, shape)
            try:
                interpreter.allocate_tensors()
                interpreter.set_tensor(0, np.array([[1, 2, 3, -4]] * shape[0], np.int32))
                interpreter.invoke()
                found = interpreter.get_tensor(len(names))
                seen.append((found.tolist(), found.dtype))
            except fb.ModelError as error:
                seen.append("refused" if "LiteRT" in str(error) else str(error))
    assert seen[:2] == seen[2:]


def test_a_fused_tanh_is_litert_s() -> None:
    """LiteRT's kernels take a fused TANH and compute no activation; their results are the reference."""
    with pytest.raises(Unsupported, match="TANH, which LiteRT's kernels leave out"):
        activation_epilogue(ACTIVATIONS.index("TANH"))
