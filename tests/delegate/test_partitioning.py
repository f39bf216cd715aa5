"""The place where each operator runs, and what is said of it: the log's warning, the records of delegated_ops."""

from __future__ import annotations

import logging

import ai_edge_litert.interpreter as litert
import numpy as np
import pytest
import tflite
from ai_edge_litert import schema_py_generated as schema

import framebind as fb
from framebind.delegate.litert.native import NativeDelegate, NativeGraph
from framebind.delegate.read.reader import read_model
from framebind.delegate.report import say_once, warn_of_low_clock, warning_text
from framebind.interop.device import Device
from support.tiny_models import CPU_ONLY, G, Op, T, build, chain, cpu_only

SHAPE = (1, 4, 5, 3)
X = np.linspace(-1, 1, 60, dtype=np.float32).reshape(SHAPE)
IN_THE_MIDDLE = chain("EXP", "TANH", CPU_ONLY, "NEG")
WARNING = f"""\
Following operations are not supported by GPU delegate:
{CPU_ONLY}: the operator is not supported
3 operations will run on the GPU, and the remaining 1 operations will run on the CPU.
op code #{tflite.BuiltinOperator.L2_POOL_2D} cannot be handled by this delegate."""


def delegated(content: bytes, backend: str = "null", **options: object) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """An allocated interpreter with a delegate, which computes nothing unless a backend is named."""
    interpreter = fb.Interpreter(model_content=content)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend, **options))  # type: ignore[arg-type]
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    return interpreter, delegate


def where(interpreter: fb.Interpreter) -> list[tuple[str, str, int | None]]:
    return [(op.name, op.runs_on, op.partition) for op in interpreter.delegated_ops()]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The delegate's warnings, but for the one that the GPU is the CPU, which is no business of these tests."""
    records = [record for record in caplog.records if record.levelno >= logging.WARNING]
    return [text for text in (record.getMessage() for record in records) if "runs on the CPU: without" not in text]


# The model runs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpu", ["gl", "gles", "cl:pocl"], indirect=True)
def test_one_unsupported_operator_in_the_middle(gpu: Device, caplog: pytest.LogCaptureFixture) -> None:
    """The model runs, is right, and warns once, not again for other inputs or shapes."""
    interpreter, delegate = delegated(IN_THE_MIDDLE, "auto")
    for shape in (SHAPE, (2, 3, 3, 5)):
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        interpreter.resize_tensor_input(0, shape)
        interpreter.allocate_tensors()
        for values in (x, -x):
            interpreter.set_tensor(0, values)
            interpreter.invoke()
            result = interpreter.get_tensor(interpreter.outputs()[0])
            np.testing.assert_allclose(result, -cpu_only(np.tanh(np.exp(values))), atol=2e-6)
        assert where(interpreter) == [
            ("EXP", "gpu", 0),
            ("TANH", "gpu", 0),
            (CPU_ONLY, "cpu", None),
            ("NEG", "gpu", 1),
        ]
    assert warnings(caplog) == [WARNING]
    delegate.close()


class Idle:
    """A delegate that takes nothing and, without the flag for dynamic tensors, has LiteRT apply all delegates anew
    whenever an input was resized.
    """

    def __init__(self, content: bytes) -> None:
        self._native = NativeDelegate(self, read_model(content))  # type: ignore[arg-type]
        self._native._native.flags = 0
        self.applied = 0

    def _get_native_delegate_pointer(self) -> int:
        return self._native.pointer

    def claim(self, _: NativeGraph) -> list[int]:
        self.applied += 1
        return []


def test_it_warns_once_though_it_is_applied_again(caplog: pytest.LogCaptureFixture) -> None:
    interpreter = fb.Interpreter(model_content=IN_THE_MIDDLE)
    delegate, idle = fb.GpuDelegate(fb.GpuDelegateOptions(backend="null")), Idle(IN_THE_MIDDLE)
    for given in (delegate, idle):
        interpreter.modify_graph_with_delegate(given)
    interpreter.allocate_tensors()
    for shape in ((1, 2, 2, 3), (2, 3, 3, 5)):
        interpreter.resize_tensor_input(0, shape)
        interpreter.allocate_tensors()
        assert [op.partition for op in interpreter.delegated_ops()] == [0, 0, None, 1]
        assert len(delegate.partitions()) == 2
    assert idle.applied == 3
    assert warnings(caplog) == [WARNING]


def test_none_supported_runs_on_the_cpu_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    interpreter, delegate = delegated(chain(CPU_ONLY, CPU_ONLY), "auto")
    interpreter.set_tensor(0, X)
    interpreter.invoke()
    np.testing.assert_allclose(interpreter.get_tensor(2), cpu_only(cpu_only(X)), atol=2e-6)
    (text,) = warnings(caplog)
    assert text.splitlines()[1:3] == [
        f"{CPU_ONLY}: the operator is not supported",
        "No operations will run on the GPU, and all 2 operations will run on the CPU.",
    ]
    assert {op.runs_on for op in interpreter.delegated_ops()} == {"cpu"} and delegate.partitions() == []
    assert delegate.engine.device is None, "no device is opened for nothing"


# Which partitions ----------------------------------------------------------------------------------------------------

SIZES = ("EXP", CPU_ONLY, "TANH", "NEG", "ABS", CPU_ONLY, "EXP", "TANH", CPU_ONLY, "NEG", "ABS")
"""Operators in a row: partitions of 1, 3, 2 and 2 of them."""


@pytest.mark.parametrize(
    ("limit", "gpu"),
    [
        (1, {2, 3, 4}),
        (2, {2, 3, 4, 6, 7}),
        (3, {2, 3, 4, 6, 7, 9, 10}),
        (4, {0, 2, 3, 4, 6, 7, 9, 10}),
        (None, {0, 2, 3, 4, 6, 7, 9, 10}),
    ],
)
def test_the_largest_partitions_come_first(limit: int | None, gpu: set[int]) -> None:
    """The earlier one of two that are as large comes first."""
    interpreter, delegate = delegated(chain(*SIZES), max_delegated_partitions=limit)
    operators = interpreter.delegated_ops()
    assert {op.index for op in operators if op.runs_on == "gpu"} == gpu
    reports = delegate.partitions()
    assert [report.number for report in reports] == list(range(limit or 4))
    assert {i for report in reports for i in report.operators} == gpu
    for op in operators:
        if op.name == CPU_ONLY:
            assert op.reason == "the operator is not supported"
        elif op.index not in gpu:
            assert f"max_delegated_partitions takes the {limit} largest" in op.reason


@pytest.mark.parametrize("gpu", ["gl"], indirect=True)
def test_a_limited_model_is_right(gpu: Device) -> None:
    interpreter, delegate = delegated(chain("EXP", CPU_ONLY, "TANH", "NEG"), "auto", max_delegated_partitions=1)
    interpreter.set_tensor(0, X)
    interpreter.invoke()
    np.testing.assert_allclose(interpreter.get_tensor(4), -np.tanh(cpu_only(np.exp(X))), atol=2e-6)
    assert [op.runs_on for op in interpreter.delegated_ops()] == ["cpu", "cpu", "gpu", "gpu"]
    delegate.close()


def test_what_only_unpacks_constants_for_the_cpu_stays_there(caplog: pytest.LogCaptureFixture) -> None:
    tensors = [T("x", SHAPE), T("w", SHAPE, 2.0, "float16"), T("d", SHAPE), T("c", SHAPE), T("y", SHAPE)]
    operators = [Op("DEQUANTIZE", [1], [2]), Op(CPU_ONLY, [2], [3]), Op("ADD", [0, 3], [4])]
    interpreter, _ = delegated(build(G(tensors, operators, [0], [4])))
    assert where(interpreter) == [("DEQUANTIZE", "cpu", None), (CPU_ONLY, "cpu", None), ("ADD", "gpu", 0)]
    assert interpreter.delegated_ops()[0].reason.startswith("the CPU needs its result, which is constant")
    assert "DEQUANTIZE" not in warnings(caplog)[0], "the GPU could run it"


def test_what_unpacks_constants_for_operators_that_a_limit_leaves_out_stays_with_them() -> None:
    tensors = [T("x", SHAPE), T("w", SHAPE, 2.0, "float16"), T("d", SHAPE), T("c", SHAPE), T("y", SHAPE), T("z", SHAPE)]
    operators = [Op("DEQUANTIZE", [1], [2]), Op("ADD", [0, 2], [3]), Op(CPU_ONLY, [3], [4]), Op("NEG", [4], [5])]
    interpreter, _ = delegated(build(G(tensors, operators, [0], [5])), first_delegate_node_index=3)
    assert [op.runs_on for op in interpreter.delegated_ops()] == ["cpu", "cpu", "cpu", "gpu"]


def test_constants_that_operators_behind_a_limit_need_are_not_downloaded() -> None:
    """A DEQUANTIZE within the limits gave its constant to the CPU in each frame."""
    tensors = [T("x", SHAPE), T("w", SHAPE, 2.0, "float16"), T("d", SHAPE), T("a", SHAPE), T("b", SHAPE), T("y", SHAPE)]
    operators = [Op("DEQUANTIZE", [1], [2]), Op("EXP", [0], [3]), Op("ADD", [3, 2], [4]), Op("MUL", [4, 2], [5])]
    interpreter, delegate = delegated(build(G(tensors, operators, [0], [5])), last_delegate_node_index=2)
    assert [op.runs_on for op in interpreter.delegated_ops()] == ["cpu", "gpu", "gpu", "cpu"]
    assert interpreter.delegated_ops()[0].reason.startswith("the CPU needs its result, which is constant")
    assert [partition.outputs for partition in delegate.partitions()] == [(4,)]


def test_a_computed_tensor_of_a_type_that_no_operator_takes_stays_on_the_cpu() -> None:
    """SHAPE, RANK and ZEROS_LIKE do not look at the values."""
    sparsity = schema.SparsityParametersT()
    sparsity.traversalOrder, sparsity.blockMap, sparsity.dimMetadata = [0, 1], [], []
    for size in (1, 4):
        dimension = schema.DimensionMetadataT()
        dimension.format, dimension.denseSize = schema.DimensionType.DENSE, size
        sparsity.dimMetadata.append(dimension)
    tensors = [T("x", (1, 4), sparsity=sparsity), T("y", (1, 4)), T("z", (1, 4))]
    content = build(G(tensors, [Op("ZEROS_LIKE", [0], [1]), Op("NEG", [1], [2])], [0], [2]))
    interpreter, _ = delegated(content)
    zeros, _ = interpreter.delegated_ops()
    assert (zeros.runs_on, zeros.reason.startswith("tensor 'x' is sparse float32")) == ("cpu", True)


def test_a_declared_shape_takes_no_memory() -> None:
    """The file says that x * x has 2^30 values."""
    huge = T("t", (1 << 29, 2))
    content = build(G([T("x", (2, 2)), huge, T("y", (2, 2))], [Op("MUL", [0, 0], [1]), Op("EXP", [1], [2])], [0], [2]))
    interpreter, delegate = delegated(content)
    delegate.record()
    assert [op.runs_on for op in interpreter.delegated_ops()] == ["gpu", "gpu"]
    assert delegate.statistics().arena_nbytes < 1024


# Records and the log -------------------------------------------------------------------------------------------------


def test_the_warning_has_each_reason_once_and_each_code() -> None:
    """Custom operators share one code; the GPU knows neither of these two."""
    subgraph = read_model(chain("Mine", CPU_ONLY, "Yours", "Mine", "EXP")).subgraphs[0]
    unsupported = dict.fromkeys(range(4), "the operator is not supported")
    assert warning_text(0, subgraph, unsupported, 1).splitlines() == [
        "Following operations are not supported by GPU delegate:",
        f"{CPU_ONLY}: the operator is not supported",
        "Mine: the operator is not supported",
        "Yours: the operator is not supported",
        "1 operations will run on the GPU, and the remaining 4 operations will run on the CPU.",
        f"op code #{tflite.BuiltinOperator.L2_POOL_2D} cannot be handled by this delegate.",
        f"op code #{tflite.BuiltinOperator.CUSTOM} cannot be handled by this delegate.",
    ]


def test_nothing_is_warned_of_where_all_runs_on_the_gpu(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "framebind.delegate"):
        interpreter, _ = delegated(chain("EXP", "TANH"))
    assert where(interpreter) == [("EXP", "gpu", 0), ("TANH", "gpu", 0)]
    assert warnings(caplog) == []
    assert "operators of subgraph 'main' on the GPU: 2 of 2" in caplog.text


def test_each_subgraph_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    def graph(key: str, *names: str) -> G:
        tensors = [T(f"t{i}", SHAPE) for i in range(len(names) + 1)]
        return G(tensors, [Op(name, [i], [i + 1]) for i, name in enumerate(names)], [0], [len(names)], key, key)

    model = build(graph("one", "EXP", CPU_ONLY), graph("two", CPU_ONLY, "TANH"))
    interpreter, delegate = delegated(model)
    assert [(op.subgraph, op.index, op.name, op.partition) for op in interpreter.delegated_ops()] == [
        (0, 0, "EXP", 0),
        (0, 1, CPU_ONLY, None),
        (1, 0, CPU_ONLY, None),
        (1, 1, "TANH", 1),
    ]
    assert [(report.subgraph, report.operators) for report in delegate.partitions()] == [(0, (0,)), (1, (1,))]
    first, second = warnings(caplog)
    assert first.startswith("Following operations are not supported by GPU delegate:")
    assert second.startswith("Following operations of subgraph 1 'two' are not supported by GPU delegate:")


def test_a_partition_tells_what_it_takes_once_it_is_recorded() -> None:
    interpreter, delegate = delegated(IN_THE_MIDDLE)
    assert [report.dispatches for report in delegate.partitions()] == [None, None]
    delegate.record()
    reports = delegate.partitions()
    assert [(report.inputs, report.outputs, report.dispatches) for report in reports] == [
        ((0,), (2,), 1),
        ((3,), (4,), 1),
    ]
    assert all(report.constants_nbytes is not None and report.arena_nbytes is not None for report in reports)
    for shape in ((1, 2, 2, 3), (1, 0, 2, 3)):
        interpreter.resize_tensor_input(0, shape)
        interpreter.allocate_tensors()
        assert [report.dispatches for report in delegate.partitions()] == [None, None]
    delegate.record()
    assert [report.dispatches for report in delegate.partitions()] == [None, None], "of an empty tensor nothing is made"


def test_without_a_delegate_all_is_on_the_cpu() -> None:
    interpreter = fb.Interpreter(model_content=chain("EXP"))
    (op,) = interpreter.delegated_ops()
    assert op == fb.DelegatedOp(0, "EXP", 0, "cpu", None, "this interpreter has no GpuDelegate", (0,), (1,))


def test_a_delegate_applied_late_is_reported_too() -> None:
    """LiteRT's own CPU delegate holds the operators by then, so the interpreter is made anew."""
    interpreter = fb.Interpreter(model_content=IN_THE_MIDDLE)
    interpreter.allocate_tensors()
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(backend="null")))
    assert [op.partition for op in interpreter.delegated_ops()] == [0, 0, None, 1]


def test_a_closed_delegate_records_nothing() -> None:
    _, delegate = delegated(IN_THE_MIDDLE)
    delegate.close()
    with pytest.raises(fb.DelegateError, match="this GpuDelegate is closed"):
        delegate.record()


def test_a_delegate_without_an_interpreter_has_no_operators() -> None:
    with pytest.raises(fb.DelegateError, match="serves no interpreter"):
        fb.GpuDelegate(model_content=chain("EXP")).delegated_ops()


def test_litert_own_interpreter_has_the_records_at_the_delegate() -> None:
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="null"), model_content=IN_THE_MIDDLE)
    interpreter = litert.Interpreter(model_content=IN_THE_MIDDLE, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    assert [op.runs_on for op in delegate.delegated_ops()] == ["gpu", "gpu", "cpu", "gpu"]


def test_quantized_operators_are_left_out_with_the_reason() -> None:
    x = T("x", SHAPE, dtype="int8", scales=[0.1], zero_points=[0])
    y = T("y", SHAPE, dtype="int8", scales=[0.1], zero_points=[0])
    model = build(G([x, y], [Op("RELU", [0], [1], version=2)], [0], [1]))
    interpreter, _ = delegated(model, enable_quantization=False)
    (op,) = interpreter.delegated_ops()
    assert (op.runs_on, op.reason) == ("cpu", "tensor 'x' is quantized int8, and enable_quantization is False")
    assert delegated(model)[0].delegated_ops()[0].runs_on == "gpu"


def test_every_operator_of_a_merged_step_is_in_its_record() -> None:
    """A resize that the convolution behind it reads through is no step of its own: the label joins both by a plus."""
    resize, conv = schema.ResizeBilinearOptionsT(), schema.Conv2DOptionsT()
    conv.strideH = conv.strideW = 1
    tensors = [
        T("x", (1, 8, 8, 4)), T("size", (2,), (16, 16), "int32"), T("large", (1, 16, 16, 4)),
        T("weights", (4, 1, 1, 4), np.eye(4).reshape(4, 1, 1, 4)), T("bias", (4,), np.zeros(4)), T("y", (1, 16, 16, 4)),
    ]  # fmt: skip
    operators = [Op("RESIZE_BILINEAR", [0, 1], [2], resize), Op("CONV_2D", [2, 3, 4], [5], conv)]
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="null"))
    interpreter = fb.Interpreter(
        model_content=build(G(tensors, operators, [0], [5])), experimental_delegates=[delegate]
    )
    interpreter.allocate_tensors()
    delegate.record()
    assert [(step.label, step.operators) for step in delegate.steps()] == [("0 RESIZE_BILINEAR 0 + CONV_2D 1", (0, 1))]


def test_a_clock_that_fell_while_kernels_were_compiled_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """NVIDIA's driver lowers it after three seconds without work, unless a CUDA context is open."""
    say_once.cache_clear()
    for seconds in (0.5, 2.9, 4.2, 4.2):
        warn_of_low_clock(seconds)
    (line,) = caplog.messages
    assert line.startswith("the GPU idled for 4 s") and "An open fb.cuda.CudaContext() keeps the clock up" in line
