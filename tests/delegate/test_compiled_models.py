"""CompiledModel on the GPU: memory that no run copies, events, the choice of an API, errors that name the tensor."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.hardware_accelerator import HardwareAccelerator

import framebind as fb
from framebind.interop.device import Device
from support.recording_driver import Capsules, RecordingDriver
from support.recurrent import FEEDBACK, frames, recurrent, reference
from support.tiny_models import CPU_ONLY, G, Op, T, build, chain, cpu_only

SHAPE = (1, 4, 6, 3)
X = np.random.default_rng(0).random(SHAPE, np.float32)
MODEL = chain("TANH", "EXP", shape=SHAPE, signature="serve")
WANTED = np.exp(np.tanh(X))
GPU, CPU = HardwareAccelerator.GPU, HardwareAccelerator.CPU
ALLOWED = ("constants of the model",)


def backend_of(device: Device) -> fb.Backend:
    return next(backend for backend in fb.list_backends() if device.traits.api in backend.titles)


def buffer_of(backend: fb.Backend, memory: Any) -> fb.TensorBuffer:
    """A TensorBuffer of an API's buffer."""
    makers = {"gl": fb.TensorBuffer.from_gl_buffer, "cl": fb.TensorBuffer.from_cl, "cuda": fb.TensorBuffer.from_cuda}
    return makers[backend.short](memory)


def picture_of(backend: fb.Backend, memory: Any, **mapping: Any) -> fb.TensorBuffer:
    makers = {"gl": fb.TensorBuffer.from_gl_texture, "cl": fb.TensorBuffer.from_cl, "cuda": fb.TensorBuffer.from_cuda}
    return makers[backend.short](memory, **mapping)


def made(buffer: fb.TensorBuffer) -> np.ndarray:
    return buffer.read(X.size, np.float32).reshape(SHAPE)


def near(values: np.ndarray, wanted: np.ndarray) -> bool:
    return bool(np.allclose(values, wanted, rtol=1e-5, atol=1e-5))


def test_buffers_that_the_model_makes_are_copied_when_they_are_read_and_written(gpu: Device) -> None:
    backend = backend_of(gpu)
    with fb.CompiledModel.from_buffer(MODEL, GPU, backend=backend.name) as model:
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        assert model.is_fully_accelerated() and not np.any(made(inputs[0]))
        inputs[0].write(X)
        model.run_by_index(0, inputs, outputs)
        fb.transfers.reset()
        with fb.transfer_guard("disallow"):
            model.run_by_index(0, inputs, outputs)
            model.run_by_name("serve", {"x": inputs[0]}, {"t2": outputs[0]})
        assert fb.transfers.bytes == 0
        assert near(made(outputs[0]), WANTED)
        inputs[0].write(X[:, 1:])
        copies = {key: (count.calls, count.bytes) for key, count in fb.transfers.by_reason.items()}
        assert copies == {
            ("download", "TensorBuffer.read of tensor 2 't2'"): (1, X.nbytes),
            ("upload", "TensorBuffer.write to tensor 0 'x'"): (1, X.nbytes * 3 // 4),
        }
        outputs[0].destroy()
        with pytest.raises(fb.BindingError, match="tensor 2 't2': TensorBuffer has been destroyed"):
            model.run_by_index(0, inputs, outputs)
        model.run_by_index(0, inputs, model.create_output_buffers(0))


def test_a_program_s_own_buffers_and_pictures_cost_no_byte(gpu: Device) -> None:
    backend = backend_of(gpu)
    texels = np.random.default_rng(1).integers(0, 256, (*SHAPE[1:3], 4), np.uint8)
    source, target = backend.new_buffer(X), backend.new_buffer(np.zeros_like(X))
    frame = picture_of(backend, backend.new_texture(texels), mean=0.5, std=0.25, order="bgr")
    with fb.CompiledModel.from_buffer(MODEL, GPU, backend=backend.name) as model:
        result = buffer_of(backend, target)
        for given, values in (
            (buffer_of(backend, source), X),
            (frame, (texels[None, ..., 2::-1] / 255 - 0.5) / 0.25),
            (buffer_of(backend, source), X),
        ):
            fb.transfers.reset()
            with fb.transfer_guard("disallow", exempt=ALLOWED):
                model.run_by_index(0, [given], [result])
            assert {reason for _, reason in fb.transfers.by_reason} <= set(ALLOWED)
            assert near(made(result), np.exp(np.tanh(values)))
        painted = picture_of(backend, backend.new_texture(np.zeros_like(texels)), std=4)
        with fb.transfer_guard("disallow", exempt=ALLOWED):
            model.run_by_index(0, [buffer_of(backend, source)], [painted])
        assert np.abs(painted.memory.read()[..., :3] / 255 - np.clip(WANTED[0] * 4, 0, 1)).max() <= 0.5 / 255 + 1e-6
        assert painted.get_tensor_details() == {"dtype": "rgba8", "shape": [4, 6, 4]}
        with pytest.raises(fb.BindingError, match="read it by its own methods"):
            painted.read(4, np.uint8)


def test_an_event_orders_runs_and_is_waited_for(gpu: Device) -> None:
    """The first model's output is the second one's input; nothing waits in between."""
    name = backend_of(gpu).name
    with (
        fb.CompiledModel.from_buffer(MODEL, GPU, backend=name) as first,
        fb.CompiledModel.from_buffer(MODEL, GPU, backend=name) as second,
    ):
        inputs, between, last = (
            first.create_input_buffers(0),
            first.create_output_buffers(0),
            second.create_output_buffers(0),
        )
        inputs[0].write(X)
        second.run_by_index(0, between, last)
        with fb.transfer_guard("disallow", exempt=ALLOWED):
            event = first.run_async(0, inputs, between)
            end = second.run_async("serve", {"x": between[0]}, {"t2": last[0]}, wait_for=event)
            end.wait()
            assert end.done and event.done and event.handle
            second.run_async(0, between, last, wait_for=[event, end]).wait()
        assert near(made(last[0]), np.exp(np.tanh(WANTED)))
        with pytest.raises(fb.BindingError):
            second.run_async(0, between, last, wait_for="an event")
        second.run_by_index(0, between, last)


def test_events_of_opencl_are_pyopencl_s(cl_context: fb.cl.ClContext) -> None:
    import pyopencl

    with fb.CompiledModel.from_buffer(MODEL, GPU, backend="opencl") as model:
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        inputs[0].write(X)
        event = model.run_async(0, inputs, outputs, wait_for=pyopencl.enqueue_marker(cl_context.queue))
        assert isinstance(event.handle, pyopencl.Event)
        result = np.empty_like(X)
        memory = outputs[0].memory
        pyopencl.enqueue_copy(cl_context.queue, result, memory.memory, wait_for=[event.handle])
        assert near(result, WANTED)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_gl_objects_by_name_and_of_moderngl(context: fb.GlContext) -> None:
    image, result = fb.GlBuffer.from_array(X), fb.GlBuffer(X.nbytes)
    texture = fb.GlTexture(6, 4, "rgba32f", np.concatenate([X[0], np.ones((4, 6, 1), np.float32)], axis=2))
    output = fb.TensorBuffer.from_gl_buffer(result.id)
    with fb.CompiledModel.from_buffer(MODEL, GPU) as model:
        for given in (fb.TensorBuffer.from_gl_buffer(image.id), fb.TensorBuffer.from_gl_texture(texture.id)):
            output.write(np.zeros_like(X))
            model.run_by_index(0, [given], [output])
            assert near(made(output), WANTED)
        with pytest.raises(fb.BindingError, match=r"is no texture: give it to TensorBuffer\.from_gl_buffer"):
            fb.TensorBuffer.from_gl_texture(image)
        with pytest.raises(fb.BindingError, match=r"is no buffer: give it to TensorBuffer\.from_gl_texture"):
            fb.TensorBuffer.from_gl_buffer(texture)
        with pytest.raises(TypeError, match="no argument scale: it takes mean, std, order"):
            fb.TensorBuffer.from_gl_texture(texture, scale=2)  # pyright: ignore[reportCallIssue]
        small = fb.TensorBuffer.from_gl_buffer(fb.GlBuffer(16))
        with pytest.raises(fb.BindingError, match=r"tensor 0 'x' .* cannot be bound to GL buffer .* of 16 bytes"):
            model.run_by_index(0, [small], [output])
        image.release()
        with pytest.raises(fb.BindingError, match="released"):
            model.run_by_index(0, [fb.TensorBuffer.from_gl_buffer(image)], [output])
        model.run_by_index(0, [fb.TensorBuffer.from_gl_texture(texture)], [output])


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_model_with_a_context_of_its_own_runs_where_none_is_current(context: fb.GlContext) -> None:
    context.release()
    try:
        with fb.CompiledModel.from_buffer(MODEL, GPU, backend="opengl") as model:
            inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
            inputs[0].write(X)
            model.run_async(0, inputs, outputs).wait()
            assert near(made(outputs[0]), WANTED)
        with pytest.raises(fb.DeviceError, match="closed"):
            outputs[0].read(1, np.float32)
        outputs[0].destroy()
    finally:
        context.make_current()


class Speaking:
    """An array of another library: nothing but the two methods of DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **_: Any) -> Any:
        return self.array.__dlpack__()


@pytest.mark.parametrize("backend", ["", "opengl"])
@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_arrays_of_the_host_are_taken_by_dlpack(context: fb.GlContext, backend: str) -> None:
    given, target = X.copy(), np.zeros_like(X)
    with fb.CompiledModel.from_buffer(MODEL, backend=backend or None) as model:
        source, result = fb.TensorBuffer.from_dlpack(Speaking(given)), fb.TensorBuffer.from_dlpack(target)
        model.run_by_index(0, [source], [result])
        assert near(target, WANTED)
        given[...] = 0
        model.run_by_index(0, [source], [result])
        assert near(target, np.ones_like(X))
        fits_gpu_alone = fb.TensorBuffer.from_dlpack(np.full((4, 6, 3), 51, np.uint8), std=0.5)
        if not backend:
            with pytest.raises(
                fb.BindingError, match=r"tensor 0 'x' is float32 of \(1, 4, 6, 3\), and its buffer is uint8"
            ):
                model.run_by_index(0, [fits_gpu_alone], [result])
            return
        model.run_by_index(0, [fits_gpu_alone], [result])
        assert near(target, np.exp(np.tanh(np.full_like(X, 0.4))))
    with pytest.raises(fb.BindingError, match="a list does not speak DLPack"):
        fb.TensorBuffer.from_dlpack([1.0])


DTYPES = ["int8", "uint8", "int16", "int32", "int64", "bool", "float16", "float32"]


def reshaping(dtype: str) -> bytes:
    """A model that gives its input another shape."""
    tensors = [T("x", (2, 6), None, dtype), T("s", (2,), [3, 4], "int32"), T("y", (3, 4), None, dtype)]
    return build(G(tensors, [Op("RESHAPE", [0, 1], [2], schema.ReshapeOptionsT())], [0], [2]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_tensors_of_every_type_are_read_and_written(context: fb.GlContext, dtype: str) -> None:
    values = (np.arange(12).reshape(2, 6) % 2 if dtype == "bool" else np.arange(12).reshape(2, 6)).astype(dtype)
    with fb.CompiledModel.from_buffer(reshaping(dtype), backend="opengl") as model:
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        assert inputs[0].get_tensor_details() == {"dtype": dtype, "shape": [2, 6]}
        inputs[0].write(values)
        model.run_by_index(0, inputs, outputs)
        assert np.array_equal(outputs[0].read(12, np.dtype(dtype)), values.ravel())
        inputs[0].write(np.ascontiguousarray(values[::-1]).view(np.uint8))  # other types by their bytes
        model.run_by_index(0, inputs, outputs)
        found = outputs[0].read(values.nbytes, np.uint8).view(dtype)
        assert np.array_equal(found, values[::-1].ravel())
        own, other = np.zeros((3, 4), dtype), np.float32 if dtype == "int8" else np.int8
        model.run_by_index(
            0, [fb.TensorBuffer.create_from_host_memory(values)], [fb.TensorBuffer.create_from_host_memory(own)]
        )
        assert np.array_equal(own.ravel(), values.ravel())
        with pytest.raises(fb.BindingError, match=rf"tensor 0 'x' is {dtype} of \(2, 6\), and its buffer is"):
            wrong = fb.TensorBuffer.create_from_host_memory(np.zeros((2, 6), other))
            model.run_by_index(0, [wrong], outputs)
        own.flags.writeable = False
        with pytest.raises(fb.BindingError, match=r"tensor 2 'y' .*read-only"):
            model.run_by_index(0, inputs, [fb.TensorBuffer.create_from_host_memory(own)])


def test_a_mistaken_type_is_an_error_instead_of_its_bits() -> None:
    buffer = fb.CompiledModel.from_buffer(MODEL).create_input_buffers(0)[0]
    with pytest.raises(fb.BindingError, match=r"tensor 0 'x' is float32, and an array of uint8 is not: use astype"):
        buffer.write(np.zeros(SHAPE, np.uint8))
    with pytest.raises(fb.BindingError, match=r"tensor 0 'x' is float32, and an array of float16 is not"):
        buffer.read(72, np.float16)


def test_a_part_on_the_cpu_has_its_memory_on_the_host() -> None:
    """The GPU runs EXP and TANH; the operator before, in between or after takes its values from the host."""
    for names, on_host in (((CPU_ONLY, "EXP"), (True, False)), (("EXP", CPU_ONLY), (False, True))):
        with fb.GlContext.headless(), fb.CompiledModel.from_buffer(chain(*names), backend="opengl") as model:
            inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
            assert (inputs[0].is_on_host, outputs[0].is_on_host) == on_host
            assert not model.is_fully_accelerated()
            x = np.random.default_rng(2).random((1, 4, 5, 3), np.float32)
            inputs[0].write(x)
            model.run_by_index(0, inputs, outputs)
            wanted = np.exp(cpu_only(x)) if names[0] == CPU_ONLY else cpu_only(np.exp(x))
            assert near(outputs[0].read((1, 4, 5, 3), np.float32), wanted)


def test_buffers_change_places_between_runs() -> None:
    """Memory that was bound in the run before is let go of when memory of the host takes its place."""
    with fb.GlContext.headless(), fb.CompiledModel.from_buffer(MODEL, GPU, backend="opengl") as model:
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        inputs[0].write(X)
        model.run_by_index(0, inputs, outputs)
        host, result = np.zeros_like(X), np.zeros_like(X)
        on_host = [fb.TensorBuffer.create_from_host_memory(each) for each in (host, result)]
        fb.transfers.reset()
        model.run_by_index(0, on_host[:1], on_host[1:])
        copies = [("upload", "input tensor 0 'x' from its array"), ("download", "output tensor 2 't2' to its array")]
        assert near(result, np.ones_like(X)) and fb.transfers.bytes == 2 * X.nbytes
        assert [key for key in fb.transfers.by_reason if key[1] not in ALLOWED] == copies
        model.run_by_index(0, inputs, on_host[1:])
        assert near(result, WANTED)
        with pytest.raises(fb.BindingError, match="of 4 bytes"):
            model.run_by_index(0, [fb.TensorBuffer.from_gl_buffer(fb.GlBuffer(4))], outputs)
        model.run_by_index(0, on_host[:1], outputs)
        assert near(made(outputs[0]), np.ones_like(X))
        model.run_by_name("serve", {}, {"t2": outputs[0]})
        assert near(made(outputs[0]), np.ones_like(X))


def test_processors_and_the_choice_of_an_api() -> None:
    part = chain("EXP", CPU_ONLY)
    with pytest.raises(
        fb.DelegateError, match=f"Some ops are not accelerated: 1 operator, the first is 1 {CPU_ONLY}: "
    ):
        fb.CompiledModel.from_buffer(part, GPU, backend="null")
    for given in ({"hardware_accel": GPU | CPU}, {}):
        with fb.CompiledModel.from_buffer(part, **given, backend=fb.GpuDelegateOptions(backend="null")) as model:
            assert not model.is_fully_accelerated()
    with pytest.raises(fb.DelegateError, match="backend is 'cuda', and hardware_accel has no GPU"):
        fb.CompiledModel.from_buffer(part, CPU, backend="cuda")
    with pytest.raises(fb.DelegateError, match="metal"):
        fb.CompiledModel.from_buffer(part, GPU, backend="metal")
    model = fb.CompiledModel.from_buffer(part)
    assert model.run_async(0, model.create_input_buffers(0), model.create_output_buffers(0)).done
    with pytest.raises(fb.DelegateError, match="runs on the CPU: nothing can wait"):
        model.run_async(0, model.create_input_buffers(0), model.create_output_buffers(0), wait_for=[])
    model.close()
    with pytest.raises(fb.DelegateError, match="this CompiledModel is closed"):
        model.run_by_index(0, [], [])
    with pytest.raises(fb.DelegateError, match="this CompiledModel is closed"):
        model.create_input_buffers(0)


def test_memory_of_the_gpu_for_a_model_on_the_cpu_is_refused() -> None:
    with fb.GlContext.headless():
        buffer = fb.TensorBuffer.from_gl_buffer(fb.GlBuffer.from_array(X))
        model = fb.CompiledModel.from_buffer(MODEL)
        with pytest.raises(
            fb.BindingError, match=r"tensor 0 'x' cannot be bound to <GlBuffer .*the model runs on the CPU"
        ):
            model.run_by_index(0, [buffer], model.create_output_buffers(0))
        with pytest.raises(fb.BindingError, match="'serve' runs with TensorBuffers, and was given 1"):
            model.run_by_name("serve", {"x": 1}, {"t2": buffer})  # pyright: ignore[reportArgumentType]


def test_other_subgraphs_take_memory_of_both() -> None:
    def one(name: str, signature: str) -> G:
        return G([T("x", SHAPE), T("y", SHAPE)], [Op(name, [0], [1])], [0], [1], signature=signature)

    with (
        fb.GlContext.headless(),
        fb.CompiledModel.from_buffer(build(one("EXP", "first"), one("TANH", "second")), backend="opengl") as model,
    ):
        inputs, outputs = model.create_input_buffers(1), model.create_output_buffers(1)
        with pytest.raises(
            fb.BindingError, match="signature 'second' has no buffer for its input x, and had none before"
        ):
            model.run_by_name("second", {}, {"y": outputs[0]})
        inputs[0].write(X)
        model.run_by_index(1, inputs, outputs)
        assert near(made(outputs[0]), np.tanh(X)) and not outputs[0].is_on_host
        outputs[0].write(X)
        model.run_by_name("second", {}, {"y": outputs[0]})
        assert near(made(outputs[0]), np.tanh(X))
        model.run_by_name("first", {"x": inputs[0]}, {"y": outputs[0]})
        assert near(made(outputs[0]), np.exp(X))
        texture = fb.GlTexture.from_array(X[0, ..., [0, 1, 2, 2]].transpose(1, 2, 0).copy())
        host = [fb.TensorBuffer.create_from_host_memory(np.zeros(SHAPE, np.float32))]
        for key, function in (("second", np.tanh), ("first", np.exp)) * 2:
            with fb.transfer_guard("disallow"):
                model.run_by_name(key, {"x": fb.TensorBuffer.from_gl_texture(texture)}, {"y": outputs[0]})
            assert near(made(outputs[0]), function(X))
            model.run_by_name(key, {"x": inputs[0]}, {"y": host[0]})
            assert near(made(host[0]), function(X))
        integers = fb.TensorBuffer.from_gl_buffer(fb.GlBuffer(8))
        with pytest.raises(fb.BindingError, match=r"tensor 0 'x' .* cannot be bound to .* of 8 bytes"):
            model.run_by_index(1, [integers], outputs)
        model.resize_input_tensor(0, [2, *SHAPE[1:]], 1, strict=False)
        assert model.get_output_tensor_details("second")["y"]["shape"] == [2, *SHAPE[1:]]


def test_an_output_that_is_an_input_has_its_value(context: fb.GlContext) -> None:
    """Memory that was bound to it as an output took the place of the input's."""
    content = build(G([T("x", SHAPE), T("y", SHAPE)], [Op("NEG", [0], [1])], [0], [1, 0], signature="serve"))
    with fb.CompiledModel.from_buffer(content, backend="opengl") as model:
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        host = fb.TensorBuffer.create_from_host_memory(X)
        inputs[0].write(X)
        for given in (inputs[0], host):
            model.run_by_index(0, [given], outputs)
            assert np.array_equal(made(outputs[0]), -X) and np.array_equal(made(outputs[1]), X)
        with pytest.raises(fb.BindingError, match=r"tensor 0 'x' is an input as well.*: give its output a buffer"):
            model.run_by_index(0, inputs, [outputs[0], fb.TensorBuffer.from_gl_buffer(fb.GlBuffer(X.nbytes))])


def test_states_stay_on_the_gpu() -> None:
    """Names are those of the signature's tensors; states are none of them."""
    content, pictures = recurrent(signature="serve"), frames(3)
    expected = [each["y"] for each in reference(content, pictures)]
    with (
        fb.GlContext.headless(),
        fb.CompiledModel.from_buffer(content, GPU, backend="opengl", feedback=FEEDBACK) as model,
    ):
        assert model.get_signature_list() == {"serve": {"inputs": ["x"], "outputs": ["y"]}}
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        for _ in range(2):
            for number, (picture, values) in enumerate(zip(pictures, expected, strict=True)):
                inputs[0].write(picture)
                with fb.transfer_guard("allow" if number == 0 else "disallow"):
                    model.run_by_name("serve", {"x": inputs[0]}, {"y": outputs[0]})
                assert np.abs(outputs[0].read(values.size, np.float32) - values.ravel()).max() < 1e-5
            model.reset_feedback()
    with pytest.raises(fb.DelegateError, match="feedback is for models on the GPU"):
        fb.CompiledModel.from_buffer(content, feedback=FEEDBACK)
    with fb.CompiledModel.from_buffer(content) as model, pytest.raises(fb.DelegateError, match="nothing is fed back"):
        model.reset_feedback()


def test_a_resize_that_fails_changes_nothing() -> None:
    with fb.CompiledModel.from_buffer(MODEL, backend="null") as model:
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        with pytest.raises(
            fb.BindingError, match=r"tensor 0 'x': New shape .*\[1, 4, 6, 3\] cannot become \[2, 4, 6, 3\]"
        ):
            model.resize_input_tensor(0, [2, 4, 6, 3])
        model.run_by_index(0, inputs, outputs)
        model.resize_input_tensor(0, [2, 4, 6, 3], strict=False)
        assert model.get_output_buffer_requirements(0)["buffer_size"] == 2 * X.nbytes
        with pytest.raises(fb.BindingError, match="tensor 0 'x': New shape is not compatible"):
            model.run_by_index(0, inputs, outputs)
        with pytest.raises(fb.BindingError, match="tensor 2 't2'"):
            model.run_by_index(0, model.create_input_buffers(0), outputs)
        model.run_by_index(0, model.create_input_buffers(0), model.create_output_buffers(0))


# CUDA -----------------------------------------------------------------------------------------------------------------


def test_memory_of_cuda_is_taken_in_place(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext(), fb.CompiledModel.from_buffer(MODEL, GPU, backend="cuda") as model:
        ours, result = fb.cuda.CudaArray.from_array(X), fb.cuda.CudaArray.empty(SHAPE)
        for source in (ours, fb.cuda.CudaImage.from_array(np.zeros((4, 6, 4), np.uint8))):
            with fb.transfer_guard("disallow", exempt=ALLOWED):
                event = model.run_async(0, [fb.TensorBuffer.from_cuda(source)], [fb.TensorBuffer.from_cuda(result)])
                model.run_async(
                    0, [fb.TensorBuffer.from_cuda(ours)], [fb.TensorBuffer.from_dlpack(result)], wait_for=event
                )
            assert ("cuStreamWaitEvent", event.handle) in [
                (name, args[1]) for name, args in recorder.calls if len(args) > 1
            ]
        assert near(made(fb.TensorBuffer.from_cuda(ours)), X)
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        inputs[0].write(X)
        model.run_by_index(0, inputs, outputs)
        assert type(outputs[0].memory) is fb.cuda.CudaArray and near(made(inputs[0]), X)
        with pytest.raises(fb.BindingError, match="a ndarray is no memory of CUDA"):
            fb.TensorBuffer.from_cuda(X)
        memory = (ctypes.c_float * X.size).from_address(ours.pointer)
        foreign = Capsules(np.ctypeslib.as_array(memory).reshape(SHAPE))
        taken = fb.TensorBuffer.from_dlpack(foreign)
        model.run_by_index(0, [taken], outputs)
        asked = len(foreign.asked)
        model.run_by_index(0, [taken], outputs)
        assert len(foreign.asked) > asked, "its library orders its work before each run"
        with pytest.raises(fb.BindingError, match="write it by its own methods: its memory is a support Capsules"):
            taken.write(X)
