"""The reader against what LiteRT itself says of the same files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import framebind as fb
from framebind.delegate.read.reader import read_model
from framebind.kernels.tensor import Quantization
from framebind.tools.certify.cases.operator_models import options
from support.tiny_models import G, Op, T, build, chain, pack, unpack

MODELS = (
    "deeplabv3_257_mv_gpu",
    "face_detection_front",
    "hand_landmark_lite",
    "pose_landmark_lite",
    "selfie_segmentation",
    "style_predict_quantized_256",
    "style_transfer_f16_384",
)


@pytest.mark.parametrize("name", MODELS)
def test_it_reads_what_litert_reads(name: str, model_path: Callable[[str], Path]) -> None:
    content = model_path(name).read_bytes()
    subgraph = read_model(content).subgraphs[0]
    litert = Interpreter(
        model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    details = {d["index"]: d for d in litert.get_tensor_details()}
    assert set(details) == {i for i, t in enumerate(subgraph.tensors) if t.name or i in details}
    for index, detail in details.items():
        tensor = subgraph.tensors[index]
        assert (tensor.name, tensor.shape) == (detail["name"], tuple(detail["shape"]))
        assert tensor.dtype == np.dtype(detail["dtype"]).name
        scales = detail["quantization_parameters"]["scales"]
        assert (tensor.quantization.scales if tensor.quantization else ()) == tuple(map(float, scales))
    operators: list[dict[str, Any]] = litert._get_ops_details()
    assert len(operators) == len(subgraph.operators)
    for raw, detail in zip(subgraph.operators, operators, strict=True):
        assert (raw.name, raw.inputs, raw.outputs) == (
            detail["op_name"],
            tuple(detail["inputs"]),
            tuple(detail["outputs"]),
        )
    assert subgraph.inputs == tuple(d["index"] for d in litert.get_input_details())
    assert subgraph.outputs == tuple(d["index"] for d in litert.get_output_details())


def test_two_values_of_int4_lie_in_a_byte() -> None:
    given = np.array([[-8, 7, 0], [1, -1, 3]], np.int8)
    model = build(G([T("x", (2, 3)), T("w", (2, 3), given, "int4", scales=[0.5], zero_points=[0])], [], [0], [0]))
    read = read_model(model).subgraphs[0].tensors[1]
    assert read.constant is not None and read.dtype == "int4" and not read.constant.flags.writeable
    np.testing.assert_array_equal(read.constant, given)


def test_constants_are_read_only_views_of_the_file() -> None:
    values = np.arange(12, dtype=np.float16).reshape(2, 6)
    tensors = [T("x", (2, 6)), T("w", (2, 6), values, "float16"), T("d", (2, 6)), T("y", (2, 6))]
    content = build(G(tensors, [Op("DEQUANTIZE", [1], [2]), Op("ADD", [0, 2], [3])], [0], [3]))
    constant = read_model(content).subgraphs[0].tensors[1].constant
    assert constant is not None and constant.dtype == np.float16
    np.testing.assert_array_equal(constant, values)
    assert not constant.flags.writeable
    start = np.frombuffer(content, np.uint8).ctypes.data
    assert start <= constant.ctypes.data < start + len(content), "copied out of the file"


def test_options_versions_and_custom_operators() -> None:
    pool = schema.Pool2DOptionsT()
    pool.filterWidth = pool.filterHeight = 3
    tensors = [T("x", (1, 6, 6, 1)), T("p", (1, 4, 4, 1)), T("y", (1, 4, 4, 1))]
    operators = [Op("MAX_POOL_2D", [0], [1], pool, version=2), Op("MyOperator", [1, -1], [2], b"\x01\x02\x03")]
    first, second = read_model(build(G(tensors, operators, [0], [2]))).subgraphs[0].operators
    assert (first.name, first.version, first.custom, first.code) == ("MAX_POOL_2D", 2, False, 17)
    assert isinstance(first.options, tflite.Pool2DOptions) and first.options.FilterWidth() == 3
    assert (second.name, second.custom, second.options, second.inputs) == ("MyOperator", True, b"\x01\x02\x03", (1, -1))


@pytest.mark.parametrize("old, new", [(28, 0), (0, 28), (28, 28), (127, 28), (28, 127)])
def test_an_operator_code_is_the_larger_of_its_two_fields(old: int, new: int) -> None:
    """LiteRT reads so, because converters may leave out the older field, or write 127 into it."""
    model = unpack(chain("TANH"))
    (code,) = model.operatorCodes
    code.deprecatedBuiltinCode, code.builtinCode = old, new
    content = pack(model)
    operator = read_model(content).subgraphs[0].operators[0]
    assert operator.code == max(old, new)
    if operator.code == tflite.BuiltinOperator.TANH:
        assert Interpreter(model_content=content)._get_ops_details()[0]["op_name"] == operator.name == "TANH"


def test_a_sequence_is_reversed_on_the_cpu() -> None:
    """REVERSE_SEQUENCE has two inputs."""
    tensors = [T("x", (2, 3)), T("lengths", (2,), [2, 3], "int32"), T("y", (2, 3))]
    operator = Op("REVERSE_SEQUENCE", [0, 1], [2], options("ReverseSequence", seqDim=1))
    interpreter = fb.Interpreter(model_content=build(G(tensors, [operator], [0], [2])))
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(backend="null")))
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.arange(6, dtype=np.float32).reshape(2, 3))
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(2), [[1, 0, 2], [5, 4, 3]])


def test_quantization_and_variables() -> None:
    tensors = [
        T("x", (1, 4), dtype="int8", scales=[0.5], zero_points=[-3]),
        T("w", (2, 4), 1, "int8", scales=[0.5, 0.25], zero_points=[0, 0], axis=0),
        T("state", (1, 4), variable=True),
        T("y", (1, 2)),
    ]
    x, w, state, y = read_model(build(G(tensors, [Op("Anything", [0, 1, 2], [3])], [0], [3]))).subgraphs[0].tensors
    assert x.quantization == Quantization((0.5,), (-3,))
    assert w.quantization == Quantization((0.5, 0.25), (0, 0), 0)
    assert (state.variable, state.constant, y.variable, y.quantization) == (True, None, False, None)


def test_all_subgraphs_are_read() -> None:
    one = G([T("a", (2,)), T("b", (2,))], [Op("EXP", [0], [1])], [0], [1], "one")
    two = G([T("c", (3,)), T("d", (3,))], [Op("LOG", [0], [1])], [0], [1], "two")
    model = read_model(build(one, two))
    assert [(g.name, g.operators[0].name, g.tensors[0].shape) for g in model.subgraphs] == [
        ("one", "EXP", (2,)),
        ("two", "LOG", (3,)),
    ]
