"""The processor that a model runs on: what ``delegate="auto"`` takes, and the one line that says so."""

from __future__ import annotations

import logging
from typing import Literal

import numpy as np
import pytest
from ai_edge_litert import interpreter as litert
from ai_edge_litert import schema_py_generated as schema

import framebind as fb
from framebind.delegate.claim.payoff import LEAST_MULTIPLY_ADDS, multiply_adds, reason_not_to_delegate
from framebind.delegate.read.reader import read_model
from framebind.delegate.report import say_once
from framebind.interop.discovery.devices import ChosenDevice
from framebind.interop.errors import DeviceError
from framebind.interop.null.device import NullDevice
from support.tiny_models import CPU_ONLY, G, Op, T, build, chain

SIDE = 64
X = np.random.default_rng(0).random((1, SIDE, SIDE, 32), np.float32)


@pytest.fixture(autouse=True)
def nothing_said() -> None:
    """The lines of other tests in this process are forgotten."""
    say_once.cache_clear()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The log since the last call, without the name of the library."""
    said = [record.getMessage().removeprefix("framebind: ") for record in caplog.records]
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    caplog.clear()
    return said


def convolutions(*between: str, side: int = SIDE, signature: tuple[int, ...] | None = None) -> bytes:
    """Convolutions of 32 channels with 3x3 windows, the operators ``between`` two of them."""
    shape = (1, side, side, 32)
    tensors = [T("x", shape, signature=signature), T("weights", (32, 3, 3, 32), np.full((32, 3, 3, 32), 0.01)),
               T("bias", (32,), np.zeros(32))]  # fmt: skip
    operators: list[Op] = []
    last = 0
    for name in ("CONV_2D", *(each for middle in between for each in (middle, "CONV_2D"))):
        tensors.append(T(f"t{len(tensors)}", shape))
        options = schema.Conv2DOptionsT()
        options.strideW = options.strideH = 1
        given = ([last, 1, 2], options) if name == "CONV_2D" else ([last], None)
        operators.append(Op(name, given[0], [len(tensors) - 1], given[1]))
        last = len(tensors) - 1
    return build(G(tensors, operators, [0], [last], signature="serve"))


def automatic(content: bytes) -> fb.Interpreter:
    """An interpreter as ``delegate="auto"`` makes it on a machine with a GPU, which computes nothing here."""
    interpreter = fb.Interpreter(model_content=content, delegate="cpu")
    interpreter._apply_if_it_pays(lambda: ChosenDevice(NullDevice()))
    return interpreter


def on_litert(content: bytes) -> np.ndarray:
    interpreter = litert.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, X)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


# What pays ------------------------------------------------------------------------------------------------------------


def test_a_model_that_pays_runs_on_the_gpu(caplog: pytest.LogCaptureFixture) -> None:
    interpreter = automatic(convolutions())
    assert lines(caplog) == [f"the model runs on the GPU: null on {NullDevice().traits.name}"]
    assert [op.runs_on for op in interpreter.delegated_ops()] == ["gpu"]
    with pytest.raises(RuntimeError, match="not ready"):  # as on a machine without a GPU
        interpreter.invoke()
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert not interpreter.get_tensor(interpreter.outputs()[0]).any()
    assert lines(caplog) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (convolutions(side=8), "it takes 0.59 million multiply-adds, and a GPU pays from 10 million"),
        (convolutions(CPU_ONLY, CPU_ONLY, CPU_ONLY), "in 4 partitions only, with copies between them; 2 pay"),
        (chain(CPU_ONLY, shape=(1, SIDE, SIDE, 32)), "a GPU could do 0% of its multiply-adds, and pays from 90%"),
    ],
    ids=["small", "partitions", "share"],
)
def test_a_model_that_does_not_pay_runs_as_litert_runs_it(
    content: bytes, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One line says so, without the list of operators on the CPU. The delegate that looked at the model is gone."""
    interpreter = automatic(content)
    (line,) = lines(caplog)
    assert line.startswith("the model runs on the CPU: ") and says in line
    assert {op.runs_on for op in interpreter.delegated_ops()} == {"cpu"}
    x = X[:, : interpreter.get_input_details()[0]["shape"][1], : interpreter.get_input_details()[0]["shape"][2]]
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    if x.shape == X.shape:
        np.testing.assert_array_equal(interpreter.get_tensor(interpreter.outputs()[0]), on_litert(content))
    interpreter.resize_tensor_input(0, [2, *x.shape[1:]])
    interpreter.allocate_tensors()
    assert lines(caplog) == []


def test_two_partitions_pay_and_the_operators_on_the_cpu_are_listed(caplog: pytest.LogCaptureFixture) -> None:
    interpreter = automatic(convolutions(CPU_ONLY))
    listed, line = lines(caplog)
    assert CPU_ONLY in listed and line.startswith("the model runs on the GPU: ")
    assert [op.runs_on for op in interpreter.delegated_ops()] == ["gpu", "cpu", "gpu"]


def test_sizes_that_the_file_leaves_open_are_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Nor does a later size move the model."""
    interpreter = automatic(convolutions(side=3, signature=(1, -1, -1, 32)))
    interpreter.allocate_tensors()
    interpreter.resize_tensor_input(0, [1, 5, 5, 32])
    interpreter.allocate_tensors()
    assert [op.runs_on for op in interpreter.delegated_ops()] == ["gpu"]
    assert [line for line in lines(caplog) if "runs on" in line] == [
        f"the model runs on the GPU: null on {NullDevice().traits.name}"
    ]


def test_without_a_gpu_it_is_the_cpu_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    def no_driver() -> ChosenDevice:
        raise DeviceError("neither OpenGL nor OpenCL works here:\nno driver")

    interpreter = fb.Interpreter(model_content=convolutions(), delegate="cpu")
    interpreter._apply_if_it_pays(no_driver)
    assert lines(caplog) == ["the model runs on the CPU: neither OpenGL nor OpenCL works here: no driver"]


def test_a_driver_that_computes_on_the_cpu_never_pays(context: fb.GlContext, caplog: pytest.LogCaptureFixture) -> None:
    """The same call takes the GPU on a machine that has one."""
    interpreter = fb.Interpreter(model_content=convolutions(), delegate="auto")
    (line,) = lines(caplog)
    software = context.software
    assert line.startswith(f"the model runs on the {'CPU: no GPU was found' if software else 'GPU: '}")
    assert [op.runs_on for op in interpreter.delegated_ops()] == ["cpu" if software else "gpu"]


def test_multiply_adds_are_counted() -> None:
    subgraph = read_model(convolutions()).subgraphs[0]
    shapes = dict(enumerate(subgraph.tensors))
    assert multiply_adds(subgraph.operators[0], shapes) == SIDE * SIDE * 32 * 32 * 9 > LEAST_MULTIPLY_ADDS
    assert reason_not_to_delegate(subgraph, shapes, [0], 1) == ""
    tensors = [T("x", (6, 8)), T("weights", (5, 8), np.zeros((5, 8))), T("y", (6, 5))]
    graph = read_model(build(G(tensors, [Op("FULLY_CONNECTED", [0, 1], [2])], [0], [2]))).subgraphs[0]
    assert multiply_adds(graph.operators[0], dict(enumerate(graph.tensors))) == 6 * 5 * 8


# What is said ---------------------------------------------------------------------------------------------------------


def test_a_script_whose_import_was_changed_is_told_once_that_it_is_on_the_cpu(caplog: pytest.LogCaptureFixture) -> None:
    first, second = (fb.Interpreter(model_content=chain("EXP")) for _ in range(2))
    for interpreter in (first, second):
        interpreter.allocate_tensors()
    assert lines(caplog) == []  # a delegate may still come
    first.invoke()
    (line,) = lines(caplog)
    assert line.startswith("the model runs on the CPU, as in LiteRT. ") and "delegate='auto'" in line
    first.invoke()
    second.invoke()
    assert lines(caplog) == []


def test_a_program_that_configures_no_logging_sees_the_line_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # pytest's
    log = logging.getLogger("framebind")

    def said() -> list[str]:
        interpreter = fb.Interpreter(model_content=chain("EXP"))
        interpreter.allocate_tensors()
        interpreter.invoke()
        return [line for line in capfd.readouterr().err.splitlines() if line.startswith("framebind: ")]

    (line,) = said()
    assert "runs on the CPU, as in LiteRT" in line
    say_once.cache_clear()
    before = log.level
    try:
        log.setLevel("ERROR")
        assert said() == []
    finally:
        log.setLevel(before)


def test_a_signature_tells_it_too(caplog: pytest.LogCaptureFixture) -> None:
    runner = fb.Interpreter(model_content=chain("EXP", signature="serve")).get_signature_runner()
    runner(x=np.zeros((1, 4, 5, 3), np.float32))
    (line,) = lines(caplog)
    assert line.startswith("the model runs on the CPU, as in LiteRT. ")


@pytest.mark.parametrize("choice", ["cpu", None])
def test_who_says_where_the_model_runs_is_told_nothing(
    choice: Literal["cpu"] | None, caplog: pytest.LogCaptureFixture
) -> None:
    interpreter = fb.Interpreter(model_content=chain("EXP"), delegate=choice)
    if choice is None:
        interpreter.modify_graph_with_delegate(fb.GpuDelegate("null"))
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert lines(caplog) == []


@pytest.mark.usefixtures("gl_and_cl")
def test_the_gpu_is_taken_whether_it_pays_or_not() -> None:
    interpreter = fb.Interpreter(model_content=chain("EXP"), delegate="gpu")
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert [operator.runs_on for operator in interpreter.delegated_ops()] == ["gpu"]


def test_what_contradicts_itself_is_refused() -> None:
    content = chain("EXP")
    with pytest.raises(fb.DelegateError, match="delegate is 'tpu': take 'auto', 'gpu' or 'cpu'"):
        fb.Interpreter(model_content=content, delegate="tpu")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="delegate='auto' or experimental_delegates, not both"):
        fb.Interpreter(model_content=content, experimental_delegates=[fb.GpuDelegate("null")], delegate="auto")


# The idiom of TensorFlow Lite's documents -----------------------------------------------------------------------------


class Machine(fb.CompatibilityList):
    """A machine with these best options, whatever runs the test."""

    def __init__(self, best: fb.BestOptions) -> None:
        self.best = best

    def best_options_for_this_device(self) -> fb.BestOptions:
        return self.best


@pytest.mark.parametrize("backend", ["opengl", None])
def test_the_documents_idiom(backend: Literal["opengl"] | None, context: fb.GlContext) -> None:
    """ "if the device has a supported GPU, add the GPU delegate", "if the GPU is not supported, run on 4 threads"."""
    compatibility = Machine(fb.BestOptions(backend, False, None if backend else 2, "the test's"))
    content = chain("EXP")
    if compatibility.is_delegate_supported_on_this_device():
        delegate = fb.GpuDelegate(compatibility.best_options_for_this_device())
        interpreter = fb.Interpreter(model_content=content, experimental_delegates=[delegate])
    else:
        threads = compatibility.best_options_for_this_device().num_threads
        interpreter = fb.Interpreter(model_content=content, num_threads=threads)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.zeros((1, 4, 5, 3), np.float32))
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(1), 1)
    assert interpreter.delegated_ops()[0].runs_on == ("cpu" if backend is None else "gpu")
