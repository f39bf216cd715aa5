"""The delegate inside LiteRT's real interpreter: partitions, copies, handles, shapes, errors, threads."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import ai_edge_litert.interpreter as litert
import numpy as np
import pyopencl
import pytest

import framebind as fb
from framebind.delegate.litert import abi as tflite_abi
from framebind.interop.null.device import NullResource
from framebind.tools.certify.cases.operator_models import options
from support.tiny_models import CPU_ONLY, G, Op, T, build, chain, cpu_only

SHAPE = (1, 4, 5, 3)
X = np.linspace(-1, 1, 60, dtype=np.float32).reshape(SHAPE)
EXP_TANH = np.tanh(np.exp(X))

# EXP on the GPU, CPU_ONLY on the CPU, and an addition on the GPU that reads both results.
FORK = build(
    G(
        [T("x", SHAPE), T("exp", SHAPE), T("normal", SHAPE), T("y", SHAPE)],
        [Op("EXP", [0], [1]), Op(CPU_ONLY, [1], [2]), Op("ADD", [1, 2], [3])],
        [0],
        [3],
    )
)


def ready(content: bytes, **options: object) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """An allocated interpreter with a delegate."""
    interpreter = fb.Interpreter(model_content=content)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(**options))  # type: ignore[arg-type]
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    return interpreter, delegate


def run(interpreter: litert.Interpreter, x: np.ndarray = X, output: int | None = None) -> np.ndarray:
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    index = interpreter.get_output_details()[0]["index"] if output is None else output
    return interpreter.get_tensor(index)


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, atol=2e-6, rtol=2e-6)


def hops() -> dict[str, int]:
    """Bytes by reason, without the constants, which are uploaded once."""
    rows = fb.transfers.by_reason.items()
    return {reason: hop.bytes for (_, reason), hop in rows if reason != "constants of the model"}


# Which operators, and which copies -----------------------------------------------------------------------------------


def test_litert_own_interpreter_takes_the_delegate(context: fb.GlContext, model_path: Callable[[str], Path]) -> None:
    path = model_path("face_detection_front")
    x = np.random.default_rng(0).standard_normal((1, 128, 128, 3), np.float32)
    results = []
    for delegates in (None, [fb.GpuDelegate(model_path=path)]):
        interpreter = litert.Interpreter(model_path=str(path), experimental_delegates=delegates)
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, x)
        interpreter.invoke()
        results.append([interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()])
    for cpu, gpu in zip(*results, strict=True):
        assert np.abs(cpu - gpu).max() <= 1e-4 * np.abs(cpu).max()
    once = ("flag of the barrier between work-groups", "steps of a program")  # on GPUs that run many steps as one
    assert {reason: nbytes for reason, nbytes in hops().items() if reason not in once} == {
        "input tensor 0 'input' from the CPU": x.nbytes,
        "output tensor 175 'regressors' to the CPU": 896 * 16 * 4,
        "output tensor 174 'classificators' to the CPU": 896 * 4,
    }


def test_without_a_delegate_it_is_the_cpu_interpreter() -> None:
    interpreter = fb.Interpreter(model_content=chain("EXP", "TANH"))
    interpreter.allocate_tensors()
    close(run(interpreter), EXP_TANH)
    assert (interpreter.inputs(), interpreter.outputs(), hops()) == ([0], [2], {})


def test_a_result_goes_between_partitions_on_the_gpu(context: fb.GlContext) -> None:
    """The addition reads EXP's result where the GPU left it; the CPU operator gets a copy, once."""
    interpreter, _ = ready(FORK)
    close(run(interpreter), np.exp(X) + cpu_only(np.exp(X)))
    assert hops() == {
        "input tensor 0 'x' from the CPU": X.nbytes,
        "output tensor 1 'exp' to the CPU": X.nbytes,
        "input tensor 2 'normal' from the CPU": X.nbytes,
        "output tensor 3 'y' to the CPU": X.nbytes,
    }
    close(run(interpreter, X + 1), np.exp(X + 1) + cpu_only(np.exp(X + 1)))


def test_the_number_of_partitions_can_be_limited(context: fb.GlContext) -> None:
    interpreter, _ = ready(chain("EXP", CPU_ONLY, "TANH", "NEG"), max_delegated_partitions=1)
    close(run(interpreter), -np.tanh(cpu_only(np.exp(X))))
    assert set(hops()) == {"input tensor 2 't2' from the CPU", "output tensor 4 't4' to the CPU"}


def test_nothing_claimed_runs_on_the_cpu_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    """No GL context is needed, nor made, if nothing goes to the GPU."""
    interpreter, delegate = ready(chain(CPU_ONLY))
    heading = "Following operations are not supported by GPU delegate"
    assert f"{heading}:\n{CPU_ONLY}: the operator is not supported\n" in caplog.text
    assert "No operations will run on the GPU, and all 1 operations will run on the CPU." in caplog.text
    close(run(interpreter), cpu_only(X))
    with pytest.raises(fb.BindingError, match="no operator on the GPU reads or writes it"):
        delegate.bind_buffer_to_tensor(object(), 0)


def test_what_the_cpu_computes_of_constants_is_copied_once_also_where_the_input_is_bound_anew(
    context: fb.GlContext,
) -> None:
    tensors = [T("x", SHAPE), T("w", SHAPE, 2.0), T("c", SHAPE), T("y", SHAPE)]
    add = options("Add")
    interpreter, delegate = ready(build(G(tensors, [Op(CPU_ONLY, [1], [2]), Op("ADD", [0, 2], [3], add)], [0], [3])))
    ring = [fb.GlBuffer(X.nbytes, X + i) for i in range(2)]
    fb.transfers.reset()
    for i in (0, 1, 0):
        delegate.bind_buffer_to_tensor(ring[i], 0)
        interpreter.invoke()
        close(interpreter.get_tensor(3), X + i + cpu_only(np.full(SHAPE, 2, np.float32)))
    assert hops()["input tensor 2 'c' from the CPU"] == X.nbytes


def test_constants_that_only_the_cpu_needs_are_left_to_it(context: fb.GlContext) -> None:
    tensors = [T("x", SHAPE), T("w", SHAPE, 2.0, "float16"), T("d", SHAPE), T("c", SHAPE), T("y", SHAPE)]
    add = options("Add", fusedActivationFunction=5)  # the GPU has no SIGN_BIT, and the CPU ignores it
    operators = [Op("DEQUANTIZE", [1], [2]), Op(CPU_ONLY, [0], [3]), Op("ADD", [3, 2], [4], add)]
    interpreter, delegate = ready(build(G(tensors, operators, [0], [4])))
    assert delegate.engine.partitions == []
    close(run(interpreter), cpu_only(X) + 2)


# Results that stay on the GPU ----------------------------------------------------------------------------------------


def test_outputs_stay_on_the_gpu_until_asked_for(context: fb.GlContext) -> None:
    interpreter, _ = ready(chain("EXP", "TANH"))
    interpreter.set_allow_buffer_handle_output(True)
    interpreter.set_tensor(0, X)
    interpreter.invoke()
    assert hops() == {"input tensor 0 'x' from the CPU": X.nbytes}
    for read in (lambda: interpreter.get_tensor(2), lambda: interpreter.tensor(2)()):
        with pytest.raises(fb.BindingError, match=r"ensure_tensor_data_is_readable\(2\) first"):
            read()
    interpreter.ensure_tensor_data_is_readable(2)
    interpreter.ensure_tensor_data_is_readable(2)
    close(interpreter.get_tensor(2), EXP_TANH)
    close(interpreter.tensor(2)(), EXP_TANH)
    assert hops()["output tensor 2 't2' to the CPU"] == X.nbytes, "copied once, however often it is asked for"
    interpreter.set_allow_buffer_handle_output(False)
    close(run(interpreter, -X), np.tanh(np.exp(-X)))


def test_what_the_cpu_reads_is_copied_even_then(context: fb.GlContext) -> None:
    interpreter, _ = ready(FORK)
    interpreter.set_allow_buffer_handle_output(True)
    interpreter.set_tensor(0, X)
    interpreter.invoke()
    assert "output tensor 1 'exp' to the CPU" in hops()
    assert "output tensor 3 'y' to the CPU" not in hops()
    interpreter.ensure_tensor_data_is_readable(3)
    close(interpreter.get_tensor(3), np.exp(X) + cpu_only(np.exp(X)))


def test_unknown_tensors_are_named(context: fb.GlContext) -> None:
    interpreter, delegate = ready(chain("EXP", "TANH"))
    with pytest.raises(
        fb.BindingError, match="there is no tensor 17; the model's inputs are 0 'x', its outputs 2 't2'"
    ):
        interpreter.ensure_tensor_data_is_readable(17)
    with pytest.raises(fb.BindingError, match="there is no tensor -1"):
        delegate.bind_buffer_to_tensor(fb.GlBuffer(240), -1)
    with pytest.raises(fb.BindingError, match=r"tensor 1 't1' .* is inside the model"):
        delegate.bind_buffer_to_tensor(fb.GlBuffer(240), 1)


# Bound objects -------------------------------------------------------------------------------------------------------


def test_bound_buffers_need_no_copy_in_a_hundred_frames(context: fb.GlContext) -> None:
    interpreter, delegate = ready(chain("EXP", "TANH"))
    interpreter.set_allow_buffer_handle_output(True)
    source, result = fb.GlBuffer(X.nbytes, X), fb.GlBuffer(X.nbytes)
    delegate.bind_buffer_to_tensor(source, 0)
    delegate.bind_buffer_to_tensor(result, 2)
    interpreter.invoke()
    fb.transfers.reset()
    with fb.transfer_guard("disallow"):
        for _ in range(100):
            interpreter.invoke()
    assert (fb.transfers.bytes, fb.transfers.calls) == (0, 0)
    close(result.read().reshape(SHAPE), EXP_TANH)
    interpreter.ensure_tensor_data_is_readable(2)
    close(interpreter.get_tensor(2), EXP_TANH)


@pytest.mark.parametrize("before", [True, False], ids=["before allocate_tensors", "after"])
def test_bind_before_and_after_allocation(before: bool, context: fb.GlContext) -> None:
    interpreter = fb.Interpreter(model_content=chain("EXP", "TANH"))
    delegate = fb.GpuDelegate()
    interpreter.modify_graph_with_delegate(delegate)
    if not before:
        interpreter.allocate_tensors()
        close(run(interpreter, -X), np.tanh(np.exp(-X)))
    delegate.bind_buffer_to_tensor(fb.GlBuffer(X.nbytes, X), 0)  # kept alive by the delegate alone
    gc.collect()
    if before:
        interpreter.allocate_tensors()
    interpreter.invoke()
    close(interpreter.get_tensor(2), EXP_TANH)
    with pytest.raises(fb.BindingError, match=r"tensor 0 is bound to an object: write to that object, or unbind\(0\)"):
        interpreter.set_tensor(0, X)
    delegate.unbind(0)
    close(run(interpreter, X / 2), np.tanh(np.exp(X / 2)))


def test_the_value_of_a_bound_input_is_in_its_object_alone(context: fb.GlContext) -> None:
    """The CPU's memory of it has what nobody wrote, also if it is an output of the model, too."""
    tensors = [T("x", SHAPE), T("y", SHAPE)]
    content = build(G(tensors, [Op("NEG", [0], [1])], [0], [1, 0], signature="serve"))
    interpreter, delegate = fb.Interpreter(model_content=content), fb.GpuDelegate()
    interpreter.modify_graph_with_delegate(delegate)
    delegate.bind_buffer_to_tensor(fb.GlBuffer.from_array(X), 0)
    interpreter.allocate_tensors()
    interpreter.invoke()
    close(interpreter.get_tensor(1), -X)
    with pytest.raises(fb.BindingError, match="tensor 0 is an input that is bound to an object: read that"):
        interpreter.get_tensor(0)
    run_signature = interpreter.get_signature_runner("serve")
    result = run_signature()
    assert list(result) == ["y"]
    close(result["y"], -X)
    with pytest.raises(fb.BindingError, match=r"tensor 0 is bound to an object: write to that object, or unbind\(0\)"):
        run_signature(x=X)
    delegate.unbind(0)
    result = run_signature(x=X / 2)
    close(result["x"], X / 2)
    close(result["y"], -X / 2)


def test_a_ring_of_textures_allocates_and_compiles_nothing(context: fb.GlContext) -> None:
    interpreter, delegate = ready(chain("EXP", "TANH"))
    interpreter.set_allow_buffer_handle_output(True)
    frames = [fb.GlTexture(5, 4, "rgba32f", np.full((4, 5, 4), i / 10, np.float32)) for i in range(3)]
    results = [fb.GlBuffer(X.nbytes) for _ in range(2)]

    def frame(number: int) -> None:
        delegate.bind_buffer_to_tensor(frames[number % 3], 0)
        delegate.bind_buffer_to_tensor(results[number % 2], 2)
        interpreter.invoke()

    frame(0)
    program = delegate.engine.partitions[0].program
    assert program is not None
    commands, live = program.record(), dict(context.objects.live)
    with fb.transfer_guard("disallow"):
        for number in range(1, 12):
            frame(number)
    assert delegate.engine.partitions[0].program is program and program.record() is commands
    assert dict(context.objects.live) == live
    close(results[1].read(), np.full(60, np.tanh(np.exp(np.float32(0.2)))))
    close(results[0].read(), np.full(60, np.tanh(np.exp(np.float32(0.1)))))


def calls_of_a_frame(backend: str, result: object, frames: list[Any]) -> int:
    """The functions in Python and C that it takes to bind the next object of a ring and to run."""
    interpreter, delegate = ready(chain("EXP", "TANH"), backend=backend)
    interpreter.set_allow_buffer_handle_output(True)
    delegate.bind_buffer_to_tensor(result, 2)
    calls: list[str] = []

    def frame(obj: object) -> None:
        delegate.bind_buffer_to_tensor(obj, 0)
        interpreter.invoke()

    for texture in frames:
        frame(texture)
    sys.setprofile(lambda _frame, event, _argument: calls.append(event) if event in ("call", "c_call") else None)
    try:
        frame(frames[0])
    finally:
        sys.setprofile(None)
    delegate.close()
    return len(calls)


PICTURES = [np.full((4, 5, 4), i / 10, np.float32) for i in range(3)]


def test_the_next_texture_of_a_ring_takes_few_python_calls(context: fb.GlContext) -> None:
    """All calls of a live frame run from cold caches while the GPU waits: there were 114, then 75, then 65."""
    frames = [fb.GlTexture(5, 4, "rgba32f", picture) for picture in PICTURES]
    assert calls_of_a_frame("opengl", fb.GlBuffer(X.nbytes), frames) <= 45


def test_the_next_image_of_a_ring_takes_few_python_calls(cl_context: fb.cl.ClContext) -> None:
    """The number was 63 once."""
    frames = [fb.cl.ClImage.from_array(picture) for picture in PICTURES]
    assert calls_of_a_frame("opencl", fb.cl.ClBuffer.from_array(X), frames) <= 35


def test_an_output_bound_anew_is_read_from_where_it_was_computed(context: fb.GlContext) -> None:
    interpreter, delegate = ready(chain("EXP", "TANH"))
    interpreter.set_allow_buffer_handle_output(True)
    interpreter.set_tensor(0, X)
    results = [fb.GlBuffer(X.nbytes) for _ in range(2)]
    delegate.bind_buffer_to_tensor(results[0], 2)
    interpreter.invoke()
    delegate.bind_buffer_to_tensor(results[1], 2)
    interpreter.ensure_tensor_data_is_readable(2)
    close(interpreter.get_tensor(2), EXP_TANH)


def test_binding_another_kind_of_object_replaces(context: fb.GlContext) -> None:
    interpreter, delegate = ready(chain("EXP", "TANH"))
    for number, obj in enumerate(
        (
            fb.GlBuffer(X.nbytes, np.full(60, 0.25, np.float32)),
            fb.GlTexture(5, 4, "rgba32f", np.full((4, 5, 4), 0.5, np.float32)),
            fb.GlTexture(9, 9, "rgba8", np.full((9, 9, 4), 255, np.uint8)),
            fb.GlBuffer(X.nbytes, np.full(60, 0.25, np.float32)),
        )
    ):
        delegate.bind_buffer_to_tensor(obj, 0)
        interpreter.invoke()
        value = np.float32((0.25, 0.5, 1.0, 0.25)[number])
        close(interpreter.get_tensor(2), np.full(SHAPE, np.tanh(np.exp(value))))


def test_one_object_cannot_be_input_and_output(context: fb.GlContext) -> None:
    interpreter, delegate = ready(chain("EXP", "TANH"))
    one, two = fb.GlBuffer(X.nbytes, X), fb.GlBuffer(X.nbytes)
    delegate.bind_buffer_to_tensor(one, 0)
    delegate.bind_buffer_to_tensor(one, 2)
    with pytest.raises(fb.BindingError, match=r"is bound to tensor 2 't2' .* and to tensor 0: bind another"):
        interpreter.invoke()
    delegate.bind_buffer_to_tensor(two, 2)
    interpreter.invoke()
    delegate.bind_buffer_to_tensor(two, 0)  # in passing both are the same: only an invoke would be an error
    delegate.bind_buffer_to_tensor(one, 2)
    interpreter.invoke()
    close(one.read().reshape(SHAPE), np.tanh(np.exp(EXP_TANH)))
    delegate.bind_buffer_to_tensor(one, 0)
    for _ in range(2):
        with pytest.raises(fb.BindingError, match="and to tensor 0: bind another"):
            interpreter.invoke()
    delegate.bind_buffer_to_tensor(two, 0)
    interpreter.invoke()


def test_one_object_that_is_wrapped_twice_cannot_be_input_and_output(context: fb.GlContext) -> None:
    interpreter, delegate = ready(chain("EXP", "TANH"))
    one, two = fb.GlBuffer(X.nbytes, X), fb.GlBuffer(X.nbytes)
    delegate.bind_buffer_to_tensor(fb.GlBuffer.from_id(one.id), 0)
    delegate.bind_buffer_to_tensor(fb.GlBuffer.from_id(one.id), 2)
    with pytest.raises(fb.BindingError, match=r"is bound to tensor 2 't2' .* and to tensor 0: bind another"):
        interpreter.invoke()
    close(one.read().reshape(SHAPE), X)
    delegate.bind_buffer_to_tensor(fb.GlBuffer.from_id(two.id), 2)
    interpreter.invoke()
    close(two.read().reshape(SHAPE), EXP_TANH)


def test_one_object_cannot_be_written_by_two_partitions(context: fb.GlContext) -> None:
    tensors = [T(f"t{i}", SHAPE) for i in range(4)]
    operators = [Op("EXP", [0], [1]), Op(CPU_ONLY, [1], [2]), Op("TANH", [2], [3])]
    interpreter, delegate = ready(build(G(tensors, operators, [0], [1, 3])))
    interpreter.set_tensor(0, X)
    one, two = fb.GlBuffer(X.nbytes), fb.GlBuffer(X.nbytes)
    delegate.bind_buffer_to_tensor(one, 1)
    interpreter.invoke()
    delegate.bind_buffer_to_tensor(one, 3)
    for _ in range(2):
        with pytest.raises(fb.BindingError, match=r"is bound to tensor 1 't1' .* and to tensor 3: bind another"):
            interpreter.invoke()
    delegate.bind_buffer_to_tensor(two, 3)
    interpreter.invoke()
    close(one.read().reshape(SHAPE), np.exp(X))
    delegate.close()


def test_a_texture_and_a_buffer_of_the_same_name_are_two_objects(context: fb.GlContext) -> None:
    interpreter, delegate = ready(chain("EXP", "TANH"))
    textures, buffers = [fb.GlTexture(5, 4, "rgba32f")], [fb.GlBuffer(X.nbytes)]
    while textures[-1].id != buffers[-1].id:
        if textures[-1].id < buffers[-1].id:
            textures.append(fb.GlTexture(5, 4, "rgba32f"))
        else:
            buffers.append(fb.GlBuffer(X.nbytes))
    textures[-1].write(np.full((4, 5, 4), 0.5, np.float32))
    delegate.bind_buffer_to_tensor(textures[-1], 0)
    delegate.bind_buffer_to_tensor(buffers[-1], 2)
    interpreter.invoke()
    close(buffers[-1].read(), np.full(60, np.tanh(np.exp(np.float32(0.5)))))


def test_a_refused_binding_leaves_the_old_one(context: fb.GlContext) -> None:
    interpreter, delegate = ready(chain("EXP", "TANH"))
    delegate.bind_buffer_to_tensor(fb.GlBuffer(X.nbytes, X), 0)
    with pytest.raises(fb.BindingError, match="100 bytes"):
        delegate.bind_buffer_to_tensor(fb.GlBuffer(100), 0)
    interpreter.invoke()
    close(interpreter.get_tensor(2), EXP_TANH)


def test_an_object_released_after_binding_is_an_error_and_then_replaceable(context: fb.GlContext) -> None:
    interpreter, delegate = ready(chain("EXP", "TANH"))
    texture = fb.GlTexture(5, 4, "rgba32f", np.zeros((4, 5, 4), np.float32))
    delegate.bind_buffer_to_tensor(texture, 0)
    interpreter.invoke()
    texture.release()
    with pytest.raises(fb.BindingError, match="released"):
        interpreter.invoke()
    with pytest.raises(fb.BindingError, match="released"):
        delegate.bind_buffer_to_tensor(texture, 0)
    delegate.bind_buffer_to_tensor(fb.GlBuffer(X.nbytes, X), 0)
    interpreter.invoke()
    close(interpreter.get_tensor(2), EXP_TANH)


def test_what_the_model_reads_elsewhere_cannot_be_a_texture_or_come_from_one(context: fb.GlContext) -> None:
    interpreter, delegate = ready(FORK)
    with pytest.raises(fb.BindingError, match="the model itself reads it again; bind a buffer"):
        delegate.bind_buffer_to_tensor(fb.GlTexture(5, 4, "rgba32f"), 1)
    middle = fb.GlBuffer(X.nbytes)
    delegate.bind_buffer_to_tensor(middle, 1)
    close(run(interpreter), np.exp(X) + cpu_only(np.exp(X)))
    close(middle.read().reshape(SHAPE), np.exp(X))
    both = build(
        G([T("x", SHAPE), T("a", SHAPE), T("b", SHAPE)], [Op("EXP", [0], [1]), Op(CPU_ONLY, [0], [2])], [0], [1, 2])
    )
    _, delegate = ready(both)
    with pytest.raises(fb.BindingError, match=rf"the CPU read it too \(1 {CPU_ONLY}\); use set_tensor"):
        delegate.bind_buffer_to_tensor(fb.GlBuffer(X.nbytes), 0)


# Shapes --------------------------------------------------------------------------------------------------------------


def test_resizing_an_input_rebuilds_the_program(context: fb.GlContext) -> None:
    interpreter, _ = ready(FORK)
    close(run(interpreter), np.exp(X) + cpu_only(np.exp(X)))
    for shape in ((1, 7, 2, 3), (2, 3, 3, 5), SHAPE):
        x = np.random.default_rng(1).random(shape, np.float32)
        interpreter.resize_tensor_input(0, shape)
        interpreter.allocate_tensors()
        result = run(interpreter, x)
        assert result.shape == shape
        close(result, np.exp(x) + cpu_only(np.exp(x)))


def test_a_bound_object_is_checked_again_after_resizing(context: fb.GlContext) -> None:
    interpreter, delegate = ready(chain("EXP", "TANH"))
    delegate.bind_buffer_to_tensor(fb.GlBuffer(X.nbytes, X), 0)
    interpreter.invoke()
    interpreter.resize_tensor_input(0, (1, 8, 5, 3))
    interpreter.allocate_tensors()
    with pytest.raises(fb.BindingError, match=r"BHWC 1x8x5x3.*Make a buffer of 480 bytes"):
        interpreter.invoke()
    x = np.random.default_rng(1).random((1, 8, 5, 3), np.float32)
    delegate.bind_buffer_to_tensor(fb.GlBuffer(x.nbytes, x), 0)
    interpreter.invoke()
    close(interpreter.get_tensor(2), np.tanh(np.exp(x)))


def test_a_bigger_buffer_can_be_bound_between_resizing_and_allocation(context: fb.GlContext) -> None:
    interpreter, delegate = ready(chain("EXP", "TANH"))
    x = np.random.default_rng(1).random((1, 2, 5, 3), np.float32)
    interpreter.resize_tensor_input(0, x.shape)
    delegate.bind_buffer_to_tensor(fb.GlBuffer(x.nbytes, x), 0)
    interpreter.allocate_tensors()
    interpreter.invoke()
    close(interpreter.get_tensor(2), np.tanh(np.exp(x)))


def test_shapes_that_do_not_fit_are_an_error_and_can_be_taken_back(context: fb.GlContext) -> None:
    model = build(G([T("x", SHAPE), T("w", (1, 4, 5, 3), 1.0), T("y", SHAPE)], [Op("ADD", [0, 1], [2])], [0], [2]))
    interpreter, _ = ready(model)
    interpreter.resize_tensor_input(0, (1, 6, 5, 3))
    with pytest.raises(fb.ModelError, match=r"does not take input shapes.*operator 0 ADD"):
        interpreter.allocate_tensors()
    interpreter.resize_tensor_input(0, SHAPE)
    interpreter.allocate_tensors()
    close(run(interpreter), X + 1)


# Applying it ---------------------------------------------------------------------------------------------------------


def test_applied_after_allocation_it_still_gets_the_operators(context: fb.GlContext) -> None:
    """XNNPACK holds them by then: LiteRT's interpreter is made anew, with the shapes and values it had."""
    interpreter = fb.Interpreter(model_content=chain("EXP", "TANH"), num_threads=1)
    interpreter.resize_tensor_input(0, (1, 2, 2, 3))
    interpreter.allocate_tensors()
    x = np.random.default_rng(2).random((1, 2, 2, 3), np.float32)
    interpreter.set_tensor(0, x)
    delegate = fb.GpuDelegate()
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.invoke()
    close(interpreter.get_tensor(2), np.tanh(np.exp(x)))
    assert set(hops()) == {"input tensor 0 'x' from the CPU", "output tensor 2 't2' to the CPU"}


def test_one_delegate_serves_one_interpreter(context: fb.GlContext) -> None:
    interpreter, delegate = ready(chain("EXP", "TANH"))
    with pytest.raises(fb.DelegateError, match="already serves an interpreter: make one for each"):
        fb.Interpreter(model_content=chain("EXP"), experimental_delegates=[delegate])
    other = fb.GpuDelegate(model_content=chain("EXP"))
    kept = litert.Interpreter(model_content=chain("EXP"), experimental_delegates=[other])
    with pytest.raises(fb.DelegateError, match="already serves an interpreter"):
        litert.Interpreter(model_content=chain("EXP"), experimental_delegates=[other])
    assert kept.get_output_details()[0]["index"] == 1
    close(run(interpreter), EXP_TANH)


def test_litert_own_interpreter_needs_the_model_told(context: fb.GlContext) -> None:
    with pytest.raises(fb.DelegateError, match=r"GpuDelegate\(model_path=\.\.\.\), or use framebind\.Interpreter"):
        litert.Interpreter(model_content=chain("EXP"), experimental_delegates=[fb.GpuDelegate()])


RENAMED = G([T(name, SHAPE) for name in ("x", "z", "t2")], [Op("EXP", [0], [1]), Op("TANH", [1], [2])], [0], [2])
RETYPED = G(
    [T("x", SHAPE), T("t1", SHAPE, dtype="int32"), T("t2", SHAPE)],
    [Op("EXP", [0], [1]), Op("TANH", [1], [2])],
    [0],
    [2],
)
REWIRED = G([T(name, SHAPE) for name in ("x", "t1", "t2")], [Op("EXP", [0], [2]), Op("TANH", [2], [1])], [0], [1])


@pytest.mark.parametrize(
    "other, says",
    [
        (chain("EXP", "TANH", "NEG"), "it has 3 tensors, not 4"),
        (chain("EXP", "NEG"), "the code of operator 1 NEG is 28, not 59"),
        (build(RETYPED), "the type of tensor 1 't1' is 'float32', not 'int32'"),
        (build(RENAMED), "the name of tensor 1 'z'"),
        (build(REWIRED), "the outputs of operator 0 EXP"),
    ],
)
def test_another_model_than_litert_has_is_refused(other: bytes, says: str, context: fb.GlContext) -> None:
    with pytest.raises(RuntimeError):
        litert.Interpreter(
            model_content=chain("EXP", "TANH"), experimental_delegates=[fb.GpuDelegate(model_content=other)]
        )
    interpreter = fb.Interpreter(model_content=chain("EXP", "TANH"))
    interpreter._model = fb.GpuDelegate(model_content=other).engine.model  # what only a foreign LiteRT could show
    with pytest.raises(fb.DelegateError, match=says) as error:
        interpreter.modify_graph_with_delegate(fb.GpuDelegate())
    assert f"LiteRT {tflite_version()}" in str(error.value) and "install ai-edge-litert 2.0 to 2.3" in str(error.value)
    interpreter.allocate_tensors()
    close(run(interpreter), EXP_TANH)


def tflite_version() -> str:
    import ai_edge_litert

    return ai_edge_litert.__version__


@pytest.mark.parametrize("structure", ["Tensor", "Node", "Registration", "Context"])
@pytest.mark.parametrize("at", [0, 1, 2, 4])
def test_another_layout_is_an_error_and_no_crash(
    structure: str, at: int, monkeypatch: pytest.MonkeyPatch, context: fb.GlContext
) -> None:
    """A LiteRT whose structures have eight bytes more somewhere: seen before anything is called or written."""
    known = getattr(tflite_abi, structure)
    fields = list(known._fields_)
    fields.insert(at, ("more", tflite_abi.P))
    foreign = type(structure, (known.__base__,), {"_fields_": fields})
    monkeypatch.setattr(tflite_abi, structure, foreign)
    interpreter = fb.Interpreter(model_content=chain("EXP", "CustomThing", "TANH"))
    with pytest.raises(fb.DelegateError, match="of this LiteRT is not the known one"):
        interpreter.modify_graph_with_delegate(fb.GpuDelegate())
    monkeypatch.undo()
    cpu = fb.Interpreter(model_content=chain("EXP", "TANH"))
    cpu.allocate_tensors()
    close(run(cpu), EXP_TANH)


def test_no_driver_is_one_error_and_the_cpu_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_platform() -> None:
        raise pyopencl.LogicError("PLATFORM_NOT_FOUND_KHR")

    monkeypatch.setattr(pyopencl, "get_platforms", no_platform)
    interpreter = fb.Interpreter(model_content=chain("EXP", "TANH"))
    with pytest.raises(fb.DeviceError, match="there is no OpenCL platform: install"):
        interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(backend="opencl")))
    interpreter.allocate_tensors()
    close(run(interpreter), EXP_TANH)


# Errors while it runs ------------------------------------------------------------------------------------------------


def test_a_forbidden_copy_names_the_hop_and_the_interpreter_goes_on(context: fb.GlContext) -> None:
    interpreter, _ = ready(chain("EXP", "TANH"))
    close(run(interpreter), EXP_TANH)
    interpreter.set_tensor(0, X)
    with pytest.raises(fb.TransferError, match="input tensor 0 'x' from the CPU"), fb.transfer_guard("disallow"):
        interpreter.invoke()
    with (
        pytest.raises(fb.TransferError, match="output tensor 2 't2' to the CPU"),
        fb.transfer_guard("disallow", exempt=("input tensor 0 'x' from the CPU",)),
    ):
        interpreter.invoke()
    close(run(interpreter, -X), np.tanh(np.exp(-X)))


def test_a_forbidden_copy_has_the_cure_of_its_cause(context: fb.GlContext) -> None:
    """An input has to be bound; a bound output is copied as long as outputs do not stay on the GPU."""
    interpreter, delegate = ready(chain("EXP", "TANH"))
    with pytest.raises(fb.TransferError, match="bind a GPU object to that tensor"), fb.transfer_guard("disallow"):
        interpreter.invoke()
    delegate.bind_buffer_to_tensor(fb.GlBuffer(X.nbytes, X), 0)
    delegate.bind_buffer_to_tensor(fb.GlBuffer(X.nbytes), 2)
    with (
        pytest.raises(fb.TransferError, match=r"set_allow_buffer_handle_output\(True\)") as caught,
        fb.transfer_guard("disallow"),
    ):
        interpreter.invoke()
    assert "bind" not in str(caught.value)
    interpreter.set_allow_buffer_handle_output(True)
    with fb.transfer_guard("disallow"):
        interpreter.invoke()
        with pytest.raises(fb.TransferError, match="outside of the guard's block"):
            interpreter.ensure_tensor_data_is_readable(2)
    interpreter.ensure_tensor_data_is_readable(2)
    close(interpreter.get_tensor(2), EXP_TANH)


def test_another_thread_is_an_error(context: fb.GlContext) -> None:
    interpreter, _ = ready(chain("EXP", "TANH"))
    close(run(interpreter), EXP_TANH)
    caught: list[BaseException] = []

    def invoke() -> None:
        try:
            interpreter.invoke()
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=invoke)
    thread.start()
    thread.join()
    assert len(caught) == 1 and isinstance(caught[0], fb.DeviceError) and "thread" in str(caught[0])
    close(run(interpreter, -X), np.tanh(np.exp(-X)))


def test_another_context_is_an_error(context: fb.GlContext) -> None:
    interpreter, _ = ready(chain("EXP", "TANH"))
    close(run(interpreter), EXP_TANH)
    with fb.GlContext.headless() as _, pytest.raises(fb.DeviceError, match="not current"):
        interpreter.invoke()
    context.make_current()
    close(run(interpreter, -X), np.tanh(np.exp(-X)))


def test_litert_own_interpreter_shows_the_text_of_our_errors(context: fb.GlContext) -> None:
    content = chain("EXP", "TANH")
    interpreter = litert.Interpreter(
        model_content=content, experimental_delegates=[fb.GpuDelegate(model_content=content)]
    )
    interpreter.allocate_tensors()
    with pytest.raises(RuntimeError, match=r"TransferError: upload of 240 bytes.*'x'"), fb.transfer_guard("disallow"):
        interpreter.invoke()
    close(run(interpreter), EXP_TANH)


def test_closed_is_an_error(context: fb.GlContext) -> None:
    interpreter, delegate = ready(chain("EXP", "TANH"))
    run(interpreter)
    delegate.close()
    delegate.close()
    for use in (interpreter.invoke, lambda: delegate.bind_buffer_to_tensor(fb.GlBuffer(240), 0)):
        with pytest.raises(fb.FramebindError, match="closed"):
            use()


@pytest.mark.parametrize("shapes", [(X.shape,), (X.shape, (2, *X.shape[1:]))], ids=["as made", "resized"])
def test_a_closed_delegate_computes_nothing_more(context: fb.GlContext, shapes: Sequence[tuple[int, ...]]) -> None:
    """The context lives on, and so do the bound objects, which would keep the last frame without a word."""
    interpreter, delegate = ready(chain("EXP", "TANH"))
    interpreter.set_allow_buffer_handle_output(True)
    result = fb.GlBuffer(X.nbytes)
    delegate.bind_buffer_to_tensor(result, 2)
    interpreter.set_tensor(0, X)
    interpreter.invoke()
    delegate.close()
    for shape in shapes:
        with pytest.raises(fb.DelegateError, match="is closed: make a new one, and an interpreter for it"):
            interpreter.resize_tensor_input(0, shape)
            interpreter.allocate_tensors()
            interpreter.invoke()
    for use in (
        interpreter.invoke,
        delegate.record,
        delegate.fence,
        lambda: interpreter.get_tensor(2),
        lambda: interpreter.ensure_tensor_data_is_readable(2),
    ):
        with pytest.raises(fb.DelegateError, match="is closed: make a new one, and an interpreter for it"):
            use()
    another, _ = ready(chain("EXP", "TANH"))
    close(run(another), EXP_TANH)


def test_interpreters_leave_nothing_behind(context: fb.GlContext) -> None:
    def once() -> None:
        interpreter, delegate = ready(FORK)
        delegate.bind_buffer_to_tensor(fb.GlBuffer(X.nbytes, X), 0)
        interpreter.invoke()

    once()
    gc.collect()
    context.objects.drain()
    live = dict(context.objects.live)
    for _ in range(5):
        once()
    gc.collect()
    context.objects.drain()
    assert {kind: count for kind, count in context.objects.live.items() if count > live.get(kind, 0)} == {}


# Signatures and subgraphs --------------------------------------------------------------------------------------------


def test_a_signature_runner_returns_arrays_also_when_outputs_stay_on_the_gpu(context: fb.GlContext) -> None:
    interpreter, _ = ready(chain("EXP", "TANH", signature="serve"))
    interpreter.set_allow_buffer_handle_output(True)
    runner = interpreter.get_signature_runner()
    close(runner(x=X)["t2"], EXP_TANH)
    bigger = np.random.default_rng(3).random((1, 6, 5, 3), np.float32)
    close(runner(x=bigger)["t2"], np.tanh(np.exp(bigger)))
    with pytest.raises(fb.TransferError, match="input tensor 0 'x'"), fb.transfer_guard("disallow"):
        runner(x=X)
    interpreter.allocate_tensors()  # LiteRT's own runner forbids that as long as it lives
    interpreter.invoke()
    with pytest.raises(fb.BindingError, match="ensure_tensor_data_is_readable"):
        interpreter.get_tensor(2)


def test_every_subgraph_runs_on_the_gpu(context: fb.GlContext) -> None:
    def graph(operator: str, key: str) -> G:
        return G([T("x", SHAPE), T("y", SHAPE)], [Op(operator, [0], [1])], [0], [1], key, key)

    interpreter, delegate = ready(build(graph("EXP", "one"), graph("TANH", "two"), graph("EXP", "three")))
    for key, function in (("one", np.exp), ("two", np.tanh), ("three", np.exp)):
        fb.transfers.reset()
        close(interpreter.get_signature_runner(key)(x=X)["y"], function(X))
        assert set(hops()) == {"input tensor 0 'x' from the CPU", "output tensor 1 'y' to the CPU"}
    assert [partition.subgraph for partition in delegate.engine.partitions] == [0, 1, 2]


def test_garbage_in_place_of_a_context_is_refused() -> None:
    """Whatever the bytes are, reading them says so instead of crashing."""
    from framebind.delegate.read.reader import read_model

    subgraph = read_model(chain("EXP")).subgraphs[0]
    random = np.random.default_rng(0)
    for _ in range(200):
        garbage = random.integers(0, 256, 512, np.uint8)
        words = garbage.view(np.uint64)
        words[0] = 2  # the number of tensors, so that it goes further
        words[2] = random.choice(np.array([garbage.ctypes.data, 0, 8, 2**47 - 4096, 2**63], np.uint64))
        with pytest.raises(tflite_abi.LayoutMismatch):
            tflite_abi.check_layout(garbage.ctypes.data, subgraph)


def test_a_custom_operator_of_a_newer_version_is_the_file_s_own(context: fb.GlContext) -> None:
    """LiteRT shows version 1 for each custom operator that it does not know (face_landmark_with_attention has 2)."""
    tensors = [T(name, (1, 4)) for name in "xabcy"]
    operators = [Op("EXP", [0], [1]), Op("TANH", [1], [2]), Op("SomebodysOwn", [2], [3], b"", 2), Op("EXP", [3], [4])]
    interpreter = fb.Interpreter(model_content=build(G(tensors, operators, [0], [4])))
    delegate = fb.GpuDelegate()
    interpreter.modify_graph_with_delegate(delegate)
    assert [partition.operators for partition in delegate.partitions()] == [(0, 1), (3,)]
    with pytest.raises(RuntimeError, match="unresolved custom op: SomebodysOwn"):
        interpreter.allocate_tensors()
    delegate.close()


# What the interpreter and the delegate tell each other ----------------------------------------------------------------


def null_pair(content: bytes) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """An interpreter and its delegate on the device that computes nothing; outputs stay there."""
    interpreter, delegate = fb.Interpreter(model_content=content), fb.GpuDelegate(fb.GpuDelegateOptions(backend="null"))
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.set_allow_buffer_handle_output(True)
    interpreter.allocate_tensors()
    return interpreter, delegate


def uploads_of(action: Callable[[], object]) -> int:
    """The number of inputs that are copied from the CPU meanwhile."""
    fb.transfers.reset()
    action()
    return sum(hop.calls for (_, reason), hop in fb.transfers.by_reason.items() if reason.startswith("input tensor"))


TWO_INPUTS = build(
    G([T("a", (1, 2, 2, 4)), T("b", (1, 2, 2, 4)), T("sum", (1, 2, 2, 4))], [Op("ADD", [0, 1], [2])], [0, 1], [2])
)


def test_an_input_is_copied_when_it_was_set_and_not_before_each_run() -> None:
    interpreter, delegate = null_pair(TWO_INPUTS)
    ones = np.ones((1, 2, 2, 4), np.float32)
    assert uploads_of(interpreter.invoke) == 2, "what LiteRT's memory holds at first"
    with fb.transfer_guard("disallow"):
        interpreter.invoke()
    interpreter.set_tensor(0, ones)
    with fb.transfer_guard("disallow"), pytest.raises(fb.TransferError, match="input tensor 0 'a'"):
        interpreter.invoke()
    assert uploads_of(interpreter.invoke) == 1, "a refused copy is made up for"
    for tensor in (0, 1):
        interpreter.resize_tensor_input(tensor, (1, 3, 2, 4))
    interpreter.allocate_tensors()
    assert uploads_of(interpreter.invoke) == 2, "LiteRT has moved its memory"
    interpreter.tensor(1)()[...] = 1.0
    assert [uploads_of(interpreter.invoke) for _ in range(3)] == [1, 1, 1], "a view may be written unseen"
    delegate.close()


def test_a_run_after_refused_sizes_is_an_error_and_no_interrupt() -> None:
    interpreter, delegate = null_pair(TWO_INPUTS)
    interpreter.invoke()
    interpreter.resize_tensor_input(0, (1, 3, 2, 4))
    with pytest.raises(fb.ModelError, match="do not broadcast"):
        interpreter.allocate_tensors()
    for _ in range(2):
        with pytest.raises(fb.ModelError, match="call allocate_tensors"):
            interpreter.invoke()
    interpreter.resize_tensor_input(1, (1, 3, 2, 4))
    interpreter.allocate_tensors()
    interpreter.invoke()
    delegate.close()


def test_litert_own_interpreter_does_not_tell_so_inputs_are_copied_before_each_run() -> None:
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="null"), model_content=TWO_INPUTS)
    interpreter = litert.Interpreter(model_content=TWO_INPUTS, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    assert [uploads_of(interpreter.invoke) for _ in range(2)] == [2, 2]
    del interpreter
    delegate.close()


def test_inputs_set_once_reach_the_gpu_and_so_do_those_of_a_signature(context: fb.GlContext) -> None:
    interpreter, delegate = fb.Interpreter(model_content=chain("ABS", signature="abs")), fb.GpuDelegate()
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    runner = interpreter.get_signature_runner("abs")
    for value in (-1.0, -2.0, -3.0):
        interpreter.set_tensor(0, np.full((1, 4, 5, 3), value, np.float32))
        for _ in range(2):
            interpreter.invoke()
            assert (interpreter.get_tensor(1) == -value).all()
        (result,) = runner(
            **{next(iter(runner.get_input_details())): np.full((1, 4, 5, 3), value * 5, np.float32)}
        ).values()
        assert (result == -value * 5).all()
    delegate.close()


def test_failed_frames_leave_no_text_behind() -> None:
    """LiteRT keeps all that was ever reported to it, and shows it in each later error."""
    interpreter, delegate = null_pair(chain("ABS"))
    taken = NullResource("taken", 240)
    for tensor in (0, 1):
        delegate.bind_buffer_to_tensor(taken, tensor)
    lengths = set[int]()
    for _ in range(20):
        with pytest.raises(fb.BindingError, match="is bound to tensor 1") as caught:
            interpreter.invoke()
        lengths.add(len(str(caught.value.__cause__)))
    assert len(lengths) == 1 and max(lengths) < 1000
    delegate.bind_buffer_to_tensor(NullResource("another", 240), 1)
    interpreter.invoke()
    assert delegate.engine.main.native is not None and not any(
        g._report_error for g in delegate.engine.main.native._graphs.values()
    )
    delegate.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("callback", ["_invoke_kernel", "_copy_from"])
def test_an_interrupt_before_a_callbacks_first_instruction_is_not_lost(callback: str) -> None:
    """ctypes prints the exception and goes on, and LiteRT takes the callback for done."""
    interpreter, delegate = null_pair(chain("ABS", "EXP"))
    interpreter.set_allow_buffer_handle_output(False)
    interpreter.invoke()

    def interrupt(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == callback:
            sys.settrace(None)
            raise KeyboardInterrupt

    tracing = sys.gettrace()
    sys.settrace(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            interpreter.invoke()
    finally:
        sys.settrace(tracing)
    interpreter.invoke()
    delegate.close()


def test_an_input_that_nobody_sets_is_no_interrupt() -> None:
    """LiteRT refuses to run a model that reads a tensor which is no input and which nothing computes."""
    tensors = [T("x", (1, 4)), T("nobody's", (1, 4)), T("y", (1, 4))]
    interpreter, delegate = null_pair(build(G(tensors, [Op("ADD", [0, 1], [2])], [0], [2])))
    with pytest.raises((fb.ModelError, RuntimeError), match="Input tensor 1 lacks data"):
        interpreter.invoke()
    delegate.close()


def test_a_failed_frame_interrupts_no_later_one() -> None:
    interpreter, delegate = null_pair(chain("ABS"))
    interpreter.set_allow_buffer_handle_output(False)
    interpreter.set_tensor(0, X)
    allowed = ("input tensor 0 'x' from the CPU",)
    with fb.transfer_guard("disallow", exempt=allowed), pytest.raises(fb.TransferError, match="output tensor"):
        interpreter.invoke()
    interpreter.set_allow_buffer_handle_output(True)
    interpreter.invoke()
    interpreter.set_allow_buffer_handle_output(False)
    interpreter.invoke()
    delegate.close()


def test_tensors_have_names_where_they_are_bound() -> None:
    interpreter, delegate = null_pair(TWO_INPUTS)
    delegate.bind_buffer_to_tensor(NullResource("mine", 64), "b")
    assert (
        delegate.is_bound("b")
        and delegate.is_bound(1)
        and delegate.is_bound(np.int64(1))
        and not delegate.is_bound("a")
    )
    interpreter.invoke()
    delegate.unbind("b")
    assert not delegate.is_bound(1)
    interpreter.ensure_tensor_data_is_readable("sum")
    assert delegate.is_readable(2)
    with pytest.raises(
        fb.BindingError, match=r"inputs are 0 'a', 1 'b', its outputs 2 'sum'; none of them has the name 'c'"
    ):
        delegate.bind_buffer_to_tensor(NullResource("mine", 64), "c")
    with pytest.raises(fb.BindingError, match="None is neither the number nor the name of a tensor"):
        delegate.unbind(None)  # pyright: ignore[reportArgumentType]
    delegate.close()
