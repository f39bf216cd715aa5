"""Outputs that are fed back to inputs: the values are those of a loop that copies them, and nothing is copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter as LiteRt

import framebind as fb
from framebind.interop.device import Device
from framebind.video.tflite_writer import G, Op, T
from support.gl_calls import counted_calls
from support.model_runs import backend_of
from support.recording_driver import RecordingDriver
from support.recurrent import FEEDBACK, Array, frames, recurrent, reference
from support.tiny_models import build, channels_first

FRAMES = frames(10)


def on(
    backend: Any, content: bytes, feedback: Any = FEEDBACK, **options: Any
) -> tuple[fb.Interpreter, fb.GpuDelegate, dict[str, int]]:
    """An interpreter with feedback, whose outputs stay on the GPU, its delegate, and its inputs and outputs by name."""
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend, **options), feedback=feedback)
    interpreter = fb.Interpreter(model_content=content, experimental_delegates=[delegate])
    interpreter.set_allow_buffer_handle_output(True)
    interpreter.allocate_tensors()
    details: list[dict[str, Any]] = [*interpreter.get_input_details(), *interpreter.get_output_details()]
    return interpreter, delegate, {each["name"]: each["index"] for each in details}


def details_of(interpreter: Any) -> list[dict[str, Any]]:
    """The inputs of an interpreter."""
    return interpreter.get_input_details()


def run(interpreter: fb.Interpreter, names: dict[str, int], picture: Array, read: Sequence[str]) -> dict[str, Array]:
    interpreter.set_tensor(names["x"], picture)
    interpreter.invoke()
    for name in read:
        interpreter.ensure_tensor_data_is_readable(names[name])
    return {name: interpreter.get_tensor(names[name]) for name in read}


def assert_equal(found: dict[str, Array], expected: dict[str, Array], tolerance: float = 1e-6) -> None:
    for name, values in found.items():
        np.testing.assert_allclose(values, expected[name], rtol=0, atol=tolerance, err_msg=name)


@pytest.fixture(scope="module")
def expected() -> list[dict[str, Array]]:
    return reference(recurrent(), FRAMES)


def test_ten_frames_are_those_of_a_loop_on_the_cpu(gpu: Device, expected: list[dict[str, Array]]) -> None:
    """Frames stay equal after a reset, and if states are read between two frames."""
    interpreter, delegate, names = on(backend_of(gpu), recurrent())
    assert len(delegate.partitions()) == 1
    with delegate:
        run(interpreter, names, FRAMES[5], ())
        delegate.reset_feedback()
        fb.transfers.reset()
        for number, picture in enumerate(FRAMES):
            read = ("y", "r1o", "r2o") if number in (3, 9) else ("y",)
            assert_equal(run(interpreter, names, picture, read), expected[number])
        assert fb.transfers.calls == 10 + 10 + 4, str(fb.transfers)
        delegate.reset_feedback()
        assert_equal(run(interpreter, names, FRAMES[0], ("y", "r1o", "r2o")), expected[0])


def test_a_model_in_two_partitions_and_with_other_options(gpu: Device) -> None:
    content = recurrent(on_cpu="between", signature="serve")
    expected = reference(content, FRAMES[:3])
    interpreter, delegate, names = on(backend_of(gpu), content, {names_of(content)["r1o"]: "r1i", "r2o": "r2i"})
    assert len(delegate.partitions()) == 2
    with delegate:
        for picture, values in zip(FRAMES, expected, strict=False):
            assert_equal(run(interpreter, names, picture, ("y", "r1o", "r2o")), values)


def names_of(content: bytes) -> dict[str, int]:
    interpreter: Any = LiteRt(model_content=content)
    return {
        each["name"]: each["index"] for each in (*interpreter.get_input_details(), *interpreter.get_output_details())
    }


def test_halves_batches_and_channels_first(context: fb.GlContext) -> None:
    content, pictures = recurrent(), frames(3, batch=2)
    expected = reference(content, pictures)
    for twin, options, tolerance in (
        (content, {"is_precision_loss_allowed": True}, 2e-3), (channels_first(content), {}, 1e-6),
    ):  # fmt: skip
        is_first = twin is not content
        interpreter, delegate, names = on("opengl", twin, **options)
        with delegate:
            for name, shape in {each["name"]: each["shape"] for each in details_of(interpreter)}.items():
                interpreter.resize_tensor_input(names[name], [2, *shape[1:]])
            interpreter.allocate_tensors()
            for picture, values in zip(pictures, expected, strict=True):
                given = np.ascontiguousarray(picture.transpose(0, 3, 1, 2)) if is_first else picture
                found = run(interpreter, names, given, ("y", "r1o", "r2o"))
                turned = {name: each.transpose(0, 2, 3, 1) if is_first else each for name, each in found.items()}
                assert_equal(turned, values, tolerance)


@pytest.mark.parametrize(
    "shape, dtype", [((5,), "float32"), ((3, 6), "float32"), ((2, 3, 4, 5, 3), "float32"), ((3, 6), "int8")]
)
def test_states_of_any_rank_and_of_integers(context: fb.GlContext, shape: tuple[int, ...], dtype: str) -> None:
    """The sum of all frames, of whole numbers: it is exact."""
    scales: dict[str, Any] = {} if dtype == "float32" else {"scales": [0.5], "zero_points": [0]}
    tensors = [T(name, shape, dtype=dtype, **scales) for name in ("x", "s", "y")]
    content = build(G(tensors, [Op("ADD", [0, 1], [2], schema.AddOptionsT())], [0, 1], [2]))
    interpreter, delegate, names = on("opengl", content, {"y": "s"})
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    with delegate:
        assert len(delegate.partitions()) == 1
        for number in range(1, 4):
            assert np.array_equal(run(interpreter, names, x, ("y",))["y"], number * x)


def test_resized_inputs_begin_with_zeros_and_both_have_to_be_resized(context: fb.GlContext) -> None:
    content, pictures = recurrent(), frames(2, batch=2)
    interpreter, delegate, names = on("opengl", content)
    with delegate:
        run(interpreter, names, FRAMES[0], ())
        interpreter.resize_tensor_input(names["x"], [2, 6, 10, 3])
        interpreter.resize_tensor_input(names["r2i"], [2, 6, 10, 6])
        with pytest.raises((fb.BindingError, fb.ModelError)):
            interpreter.allocate_tensors()
            interpreter.invoke()
        interpreter.resize_tensor_input(names["r1i"], [2, 6, 10, 8])
        interpreter.allocate_tensors()
        for picture, values in zip(pictures, reference(content, pictures), strict=True):
            assert_equal(run(interpreter, names, picture, ("y",)), values)


def test_a_profile_and_measurements_do_not_move_the_state(
    context: fb.GlContext, expected: list[dict[str, Array]]
) -> None:
    preference = fb.InferencePreference.SUSTAINED_SPEED
    interpreter, delegate, names = on("opengl", recurrent(), inference_preference=preference)
    with delegate:
        for number in range(3):
            assert_equal(run(interpreter, names, FRAMES[number], ("y", "r1o")), expected[number])
            assert delegate.profile()


def test_a_frame_swaps_buffers_and_calls_no_more(context: fb.GlContext) -> None:
    """A run with feedback makes the GL calls of one without."""
    counts = list[Any]()
    for feedback in (FEEDBACK, {}):
        interpreter, delegate, _ = on("opengl", recurrent(), feedback)
        with delegate:
            for _ in range(3):
                interpreter.invoke()
            with counted_calls(context) as calls, fb.transfer_guard("disallow"):
                interpreter.invoke()
                counts.append(dict(calls))
    assert counts[0] == counts[1]


def test_cuda_swaps_the_pointers_of_a_recorded_run(recorder: RecordingDriver) -> None:
    interpreter, delegate, _ = on("cuda", recurrent())
    with fb.cuda.CudaContext(), delegate:
        for _ in range(4):
            interpreter.invoke()
        made = [name for name, _ in recorder.calls if "Alloc" in name or "Memset" in name]
        recorder.calls.clear()
        with fb.transfer_guard("disallow"):
            for _ in range(3):
                interpreter.invoke()
        called = {name for name, _ in recorder.calls}
        assert made and not {name for name in called if "Alloc" in name or "Memcpy" in name or "Instantiate" in name}


def test_states_take_no_step_more() -> None:
    """The rule holds with channels first, as PyTorch has them, too: the state has channels last in memory."""
    steps = list[list[str]]()
    for content in (recurrent(), channels_first(recurrent())):
        interpreter, delegate, _ = on("null", content)
        with delegate:
            interpreter.invoke()
            delegate.reset_feedback()
            interpreter.invoke()
            steps.append([step.kernel for step in delegate.steps()])
    assert steps[0] == steps[1]


def test_other_values_for_a_state_are_refused(context: fb.GlContext) -> None:
    interpreter, delegate, names = on("opengl", recurrent(signature="serve"))
    with delegate:
        with pytest.raises(fb.BindingError, match=r"'r1i'.*an output feeds.*reset_feedback"):
            interpreter.set_tensor(names["r1i"], np.zeros((1, 6, 10, 8), np.float32))
        with fb.GlBuffer(1920) as buffer, pytest.raises(fb.BindingError, match=r"'r1o'.*fed back"):
            delegate.bind_buffer_to_tensor(buffer, "r1o")
        interpreter.invoke()
        with pytest.raises(fb.BindingError, match="ensure_tensor_data_is_readable"):
            interpreter.get_tensor(names["r1o"])
        for read in (interpreter.get_tensor, lambda tensor: interpreter.tensor(tensor)()):
            with pytest.raises(fb.BindingError, match=f"fed back from output {names['r1o']} .* read that output"):
                read(names["r1i"])


def test_a_signatures_runner_leaves_states_out(context: fb.GlContext, expected: list[dict[str, Array]]) -> None:
    interpreter, delegate, _ = on("opengl", recurrent(signature="serve"))
    with delegate:
        runner = interpreter.get_signature_runner("serve")
        for number in range(3):
            found = runner(x=FRAMES[number])
            assert list(found) == ["y"]
            assert_equal(found, expected[number])
        with pytest.raises(fb.BindingError, match="r1i"):
            runner(x=FRAMES[0], r1i=np.zeros((1, 6, 10, 8), np.float32))


def test_litert_itself_runs_a_delegate_with_feedback(context: fb.GlContext, expected: list[dict[str, Array]]) -> None:
    content = recurrent()
    with fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"), model_content=content, feedback=FEEDBACK) as delegate:
        interpreter: Any = LiteRt(model_content=content, experimental_delegates=[delegate])
        interpreter.allocate_tensors()
        names = names_of(content)
        for number in range(3):
            interpreter.set_tensor(names["x"], FRAMES[number])
            interpreter.invoke()
            assert_equal({"y": interpreter.get_tensor(names["y"])}, expected[number])
        del interpreter


@pytest.mark.parametrize(
    "content, feedback, said",
    [
        (recurrent(), {"r9o": "r1i"}, r"output 'r9o', which is none: .*'r1o'"),
        (recurrent(), {"r1o": "r1o"}, r"input 'r1o', which is none"),
        (recurrent(), {"r1o": "r1i", "r2o": "r1i"}, "of its own"),
        (recurrent(on_cpu="input"), FEEDBACK, r"'r2o'.*L2_POOL_2D.*set_tensor"),
        (recurrent(on_cpu="output"), FEEDBACK, r"'r2o'.*L2_POOL_2D.*set_tensor"),
    ],
)
def test_pairs_that_cannot_be_fed_back_are_named(content: bytes, feedback: Any, said: str) -> None:
    with pytest.raises(fb.BindingError, match=said):
        on("null", content, feedback)


def test_types_and_shapes_of_a_pair_are_equal(context: fb.GlContext) -> None:
    with pytest.raises(fb.BindingError, match=r"'r1o'.*'r2i'.*shapes differ"):
        on("null", recurrent(), {"r1o": "r2i"})[0].invoke()
    tensors = [T("x", (1, 2, 2, 4)), T("s", (1, 2, 2, 4), dtype="int32"), T("y", (1, 2, 2, 4))]
    content = build(G(tensors, [Op("ABS", [0], [2])], [0, 1], [2]))
    with pytest.raises(fb.BindingError, match="float32 and the input int32"):
        on("null", content, {"y": "s"})


def test_there_is_something_to_reset() -> None:
    with pytest.raises(fb.DelegateError, match="nothing is fed back"):
        on("null", recurrent(), None)[1].reset_feedback()
