"""GpuDelegateOptions: what each field does, what it resolves into, and which combinations are refused."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.interop.device import Device, Fence
from support.environment import ROOT
from support.tiny_models import G, Op, T, build, chain

AUTO, PRECISION, LATENCY, MEMORY = fb.InferencePriority
SHAPE = (1, 4, 5, 3)


def options(*priorities: fb.InferencePriority, **others: Any) -> fb.GpuDelegateOptions:
    fields = {f"inference_priority{number}": priority for number, priority in enumerate(priorities, 1)}
    return fb.GpuDelegateOptions(**fields, **others)


# Priorities ----------------------------------------------------------------------------------------------------------


def test_the_defaults_are_those_of_the_c_delegate_where_they_do_not_cost_frames() -> None:
    defaults = fb.GpuDelegateOptions()
    assert (defaults.inference_priority1, defaults.inference_priority2, defaults.inference_priority3) == (
        PRECISION, AUTO, AUTO,
    )  # fmt: skip
    assert defaults.inference_preference is fb.InferencePreference.FAST_SINGLE_ANSWER
    assert (defaults.is_precision_loss_allowed, defaults.enable_quantization, defaults.storage) == (None, True, "f32")
    # Not those: C++ takes one partition, and waits for results that it then copies to the CPU.
    assert (defaults.max_delegated_partitions, defaults.wait_type) == (None, fb.WaitType.DO_NOT_WAIT)


@pytest.mark.parametrize(
    ("given", "resolved", "storage"),
    [
        ((PRECISION,), (PRECISION, LATENCY, MEMORY), "f32"),
        ((LATENCY,), (LATENCY, MEMORY, PRECISION), "f16"),
        ((MEMORY,), (MEMORY, PRECISION, LATENCY), "f16"),
        ((PRECISION, MEMORY), (PRECISION, MEMORY, LATENCY), "f32"),
        ((LATENCY, PRECISION), (LATENCY, PRECISION, MEMORY), "f16"),
        ((MEMORY, LATENCY, PRECISION), (MEMORY, LATENCY, PRECISION), "f16"),
    ],
    ids=str,
)
def test_priorities_resolve_as_in_c(
    given: tuple[fb.InferencePriority, ...], resolved: tuple[fb.InferencePriority, ...], storage: str
) -> None:
    made = options(*given)
    assert (made.priorities, made.storage) == (resolved, storage)


def test_the_older_field_stands_for_a_first_priority() -> None:
    assert options(is_precision_loss_allowed=True).priorities == options(LATENCY).priorities
    assert options(is_precision_loss_allowed=False).priorities == options(PRECISION).priorities


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (lambda: options(AUTO), "inference_priority1 is AUTO"),
        (lambda: options(LATENCY, AUTO, MEMORY), "inference_priority3 is MIN_MEMORY_USAGE behind"),
        (lambda: options(LATENCY, LATENCY), "MIN_LATENCY, MIN_LATENCY, AUTO: name each once"),
        (lambda: options(LATENCY, PRECISION, LATENCY), "name each once"),
        (lambda: options(LATENCY, is_precision_loss_allowed=False), "is_precision_loss_allowed is False and"),
        (lambda: options(is_precision_loss_allowed=-1), "None, which is C\\+\\+'s -1"),
        (lambda: options(2), "inference_priority1 is 2: take one of InferencePriority's AUTO, MAX_PRECISION"),  # type: ignore
        (lambda: options(wait_type=0), "wait_type is 0: take one of WaitType's PASSIVE, ACTIVE"),
        (lambda: options(inference_preference="FAST"), "inference_preference is 'FAST': take one of"),
        (lambda: options(backend="metal"), "no backend 'metal': take one of gl, opengl, cl, opencl, cuda, auto"),
        (lambda: options(max_delegated_partitions=0), "max_delegated_partitions is 0: give 1 or more"),
        (lambda: options(first_delegate_node_index=-1), "first_delegate_node_index is -1"),
        (lambda: options(first_delegate_node_index=5, last_delegate_node_index=4), "last_delegate_node_index 4"),
        (lambda: options(serialization_dir="cache"), "model_token None: give both or neither"),
        (lambda: options(model_token="abc"), "serialization_dir is None .* give both or neither"),
        (lambda: options(serialization_dir="", model_token="abc"), "serialization_dir is '': give the path"),
        (lambda: options(serialization_dir="a\0", model_token="abc"), r"serialization_dir is 'a\\x00': give the path"),
        (lambda: options(serialization_dir=b"cache", model_token="abc"), "serialization_dir is b'cache': give"),
        (lambda: options(serialization_dir="cache", model_token=7), "model_token is 7: it becomes part"),
        (lambda: options(serialization_dir="cache", model_token="../abc"), "model_token is '../abc': it becomes part"),
        (lambda: options(serialization_dir="cache", model_token=".abc"), "without '.' in front"),
        (lambda: options(serialization_dir="cache", model_token=""), "1 to 128 letters"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused_with_the_reason(given: Any, says: str) -> None:
    with pytest.raises(fb.DelegateError, match=says):
        given()


def test_a_delegate_takes_the_best_options_or_a_backend() -> None:
    best = fb.BestOptions("opencl", True, None, "a GPU")
    assert fb.GpuDelegate(best).options == options(backend="opencl", is_precision_loss_allowed=True)
    none = fb.BestOptions(None, False, 4, "no GPU was found")
    assert fb.GpuDelegate(none).options == options(backend="auto", is_precision_loss_allowed=False)
    assert fb.GpuDelegate("opencl").options == options(backend="opencl") == options(backend="cl")
    assert options(backend="gl").backend == "opengl" and fb.GpuDelegate("null").options.backend == "null"
    assert fb.GpuDelegate().options == fb.GpuDelegate(None).options == options()
    with pytest.raises(
        fb.DelegateError, match=r"no backend 'model\.tflite': take one of gl, opengl, cl, opencl, cuda, auto"
    ):
        fb.GpuDelegate("model.tflite")  # type: ignore
    with pytest.raises(
        fb.DelegateError, match=r"options of GpuDelegate are dict: give GpuDelegateOptions, the name of"
    ):
        fb.GpuDelegate({"backend": "opencl"})  # type: ignore


# What they change ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "nbytes"), [((PRECISION, MEMORY), 16384), ((LATENCY,), 8192), ((MEMORY,), 8192)])
def test_other_priorities_than_precision_halve_the_constants(
    given: tuple[fb.InferencePriority, ...], nbytes: int
) -> None:
    shape = (1, 16, 16, 16)
    model = G([T("x", shape), T("w", shape, 0.5), T("y", shape)], [Op("MUL", [0, 1], [2])], [0], [2])
    interpreter = fb.Interpreter(model_content=build(model))
    delegate = fb.GpuDelegate(options(*given, backend="null"))
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    delegate.record()
    (partition,) = delegate.partitions()
    assert partition.constants_nbytes == nbytes


@pytest.mark.parametrize(
    ("first", "last", "gpu"), [(0, None, {0, 1, 2, 3}), (1, None, {1, 2, 3}), (1, 2, {1, 2}), (9, 9, set())]
)
def test_operators_outside_the_range_stay_on_the_cpu(
    first: int, last: int | None, gpu: set[int], caplog: pytest.LogCaptureFixture
) -> None:
    interpreter = fb.Interpreter(model_content=chain("EXP", "TANH", "NEG", "ABS"))
    made = options(backend="null", first_delegate_node_index=first, last_delegate_node_index=last)
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(made))
    interpreter.allocate_tensors()
    operators = interpreter.delegated_ops()
    assert {op.index for op in operators if op.runs_on == "gpu"} == gpu
    not_selected = {op.reason for op in operators if op.runs_on == "cpu"}
    assert not_selected <= {"first_delegate_node_index or last_delegate_node_index leaves it out"}
    assert "not supported" not in caplog.text, "the GPU could run them"


@pytest.mark.parametrize("gpu", ["gl", "cl:pocl"], indirect=True)
@pytest.mark.parametrize("wait_type", fb.WaitType, ids=lambda wait: wait.name)
def test_what_invoke_waits_for(gpu: Device, wait_type: fb.WaitType, monkeypatch: pytest.MonkeyPatch) -> None:
    """No fence is made by default. With the option there is one, which the GPU has passed when invoke returns.

    The model takes the software GPUs milliseconds, so that without the wait they would not have.
    """
    shape = (1, 256, 256, 8)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    fences: list[Fence] = []

    def fence() -> Fence:
        fences.append(real())
        return fences[-1]

    interpreter = fb.Interpreter(model_content=chain("EXP", "TANH", shape=shape))
    delegate = fb.GpuDelegate(options(wait_type=wait_type))
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.set_allow_buffer_handle_output(True)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, x)
    device = delegate.engine.running_device()
    real = device.fence
    monkeypatch.setattr(device, "fence", fence)
    for _ in range(3):
        interpreter.invoke()
        assert all(made.done for made in fences)
    assert len(fences) == (0 if wait_type is fb.WaitType.DO_NOT_WAIT else 3)
    interpreter.ensure_tensor_data_is_readable(2)
    np.testing.assert_allclose(interpreter.get_tensor(2), np.tanh(np.exp(x)), atol=2e-6)
    delegate.close()


def test_the_null_backend_computes_nothing() -> None:
    interpreter = fb.Interpreter(model_content=chain("EXP", "TANH"))
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(options(backend="null")))
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(2), np.zeros(SHAPE))


def test_the_table_in_the_documentation_has_every_field_and_default() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", (ROOT / "docs" / "options.md").read_text(), re.MULTILINE)

    def written(default: object) -> str:
        return getattr(default, "name", None) or (f'"{default}"' if isinstance(default, str) else str(default))

    fields = dataclasses.fields(fb.GpuDelegateOptions)
    assert dict(rows) == {field.name: written(field.default) for field in fields}
