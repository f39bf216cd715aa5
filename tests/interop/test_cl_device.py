"""Abilities of the OpenCL device alone: choosing it, objects of the user's own, command buffers, events, freeing."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import framebind as fb
from framebind.interop.cl import build as cl_build
from framebind.interop.cl.compute.command_buffer import CommandBuffers
from framebind.interop.cl.compute.device import ClDevice
from framebind.interop.cl.context import all_devices, why_unusable
from framebind.interop.cl.objects import IMAGE_FORMATS
from framebind.interop.device import Step
from framebind.interop.discovery.devices import open_device
from framebind.interop.gl.compute.device import GlDevice
from framebind.interop.null.device import NullDevice
from framebind.kernels.views import Dense, Sliced
from support.device_steps import SHAPE, bound, chain, content, convert, copy_source, random, step, texels, whole
from support.tiny_models import G, Op, T, build

READ_WRITE = cl.mem_flags.READ_WRITE
TENSOR = (1, 4, 5, 3)
X = np.linspace(-1, 1, 60, dtype=np.float32).reshape(TENSOR)
EXP = build(G([T("x", TENSOR), T("y", TENSOR)], [Op("EXP", [0], [1])], [0], [1]))


@pytest.fixture
def device(cl_context: fb.cl.ClContext) -> ClDevice:
    return ClDevice(cl_context)


def on_cl(backend: str = "opencl") -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """An interpreter of EXP in the current ClContext, which leaves its output on the GPU."""
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend))  # type: ignore[arg-type]
    interpreter = fb.Interpreter(model_content=EXP)
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.set_allow_buffer_handle_output(True)
    interpreter.allocate_tensors()
    return interpreter, delegate


def buffer_of(context: fb.cl.ClContext, array: np.ndarray, flags: int = READ_WRITE) -> cl.Buffer:
    return cl.Buffer(context.context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.ascontiguousarray(array))


def values(context: fb.cl.ClContext, memory: Any) -> np.ndarray:
    out = np.empty(TENSOR, np.float32)
    cl.enqueue_copy(context.queue, out, memory, is_blocking=True)
    return out


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, atol=2e-6, rtol=2e-6)


# Choosing a device ----------------------------------------------------------------------------------------------------


def test_a_device_is_found_by_name_type_number_and_itself(cl_context: fb.cl.ClContext) -> None:
    chosen = cl_context.device
    platform = "portable computing" if "Portable" in chosen.platform.name else chosen.platform.name
    for wanted in (chosen, chosen.name.upper(), platform, all_devices().index(chosen)):
        with fb.cl.ClContext(wanted) as context:
            assert context.device == chosen
    with fb.cl.ClContext("cpu") as context:
        assert context.software and context.device.type & cl.device_type.CPU


def test_an_unknown_device_is_refused_with_the_known_ones(cl_context: fb.cl.ClContext) -> None:
    with pytest.raises(fb.DeviceError, match="no OpenCL device 'abacus': there are 0 '"):
        fb.cl.ClContext("abacus")
    for number in (len(all_devices()), -1):
        with pytest.raises(fb.DeviceError, match=f"no OpenCL device {number}"):
            fb.cl.ClContext(number)


def test_a_device_that_cannot_build_one_line_does_not_count(
    cl_context: fb.cl.ClContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def on_a_broken_driver(program: cl.Program, context: cl.Context, text: str) -> None:
        real(program, context, text + " nonsense" if context.devices[0] == broken else text)

    broken, real = all_devices()[0], cl.Program.__init__
    monkeypatch.setattr(cl.Program, "__init__", on_a_broken_driver)
    why_unusable.cache_clear()
    try:
        with pytest.raises(fb.DeviceError, match=r"no OpenCL device works; install .* cannot build a kernel"):
            fb.cl.ClContext(broken)
        if len(all_devices()) > 1:
            with fb.cl.ClContext() as context:
                assert context.device != broken
    finally:
        why_unusable.cache_clear()


def test_a_queue_and_a_context_of_the_users_own_are_taken(cl_context: fb.cl.ClContext) -> None:
    queue = cl.CommandQueue(cl_context.context)
    with fb.cl.ClContext(queue=queue) as context:
        assert context.queue == queue and context.context == cl_context.context
        interpreter, delegate = on_cl()
        source, target = (buffer_of(context, array) for array in (X, np.zeros_like(X)))
        delegate.bind_buffer_to_tensor(source, 0)
        delegate.bind_buffer_to_tensor(target, 1)
        interpreter.invoke()
        close(values(context, target), np.exp(X))
        delegate.close()
    queue.finish()  # it is the user's and still works
    with fb.cl.ClContext(context=cl_context.context) as context:
        assert context.context == cl_context.context and context.queue != queue
    with pytest.raises(fb.DeviceError, match="give ClContext the queue alone"):
        fb.cl.ClContext("cpu", queue=queue)
    disorderly = cl.CommandQueue(
        cl_context.context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    )
    with pytest.raises(fb.DeviceError, match="runs out of order"):
        fb.cl.ClContext(queue=disorderly)


def test_the_last_context_made_is_current_until_it_is_closed(cl_context: fb.cl.ClContext) -> None:
    assert fb.cl.ClContext.current() is cl_context
    with fb.cl.ClContext(cl_context.device) as inner:
        assert fb.cl.ClContext.current() is inner
        cl_context.make_current()
        assert fb.cl.ClContext.current() is cl_context
        inner.make_current()
    assert fb.cl.ClContext.current() is cl_context
    cl_context.release()
    assert not fb.cl.ClContext.is_current()
    with pytest.raises(fb.DeviceError, match="no ClContext is current"):
        fb.cl.ClContext.current()
    with pytest.raises(fb.DeviceError, match="is closed"):
        inner.make_current()


# The user's own objects -----------------------------------------------------------------------------------------------


def kinds(context: fb.cl.ClContext, array: np.ndarray) -> dict[str, Any]:
    """Objects of each kind that can be bound, with the same content."""
    raw = buffer_of(context, array)
    return {
        "buffer": buffer_of(context, array),
        "array": cl.array.to_device(context.queue, array),
        "cl_mem": fb.cl.ClBuffer.from_int_ptr(raw.int_ptr, array.nbytes),
        "sub-buffer": buffer_of(context, np.concatenate([np.zeros(1024, np.float32), array.ravel()]))[4096:],
        "image": image_of(context, np.dstack([array[0], np.ones((4, 5, 1), np.float32)])),
    }


def image_of(context: fb.cl.ClContext, picture: np.ndarray) -> cl.Image:
    """A float image with the content of ``picture`` (height, width, 4)."""
    form = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
    size = (picture.shape[1], picture.shape[0])
    image = cl.create_image(context.context, READ_WRITE, form, size)
    cl.enqueue_copy(context.queue, image, picture, origin=(0, 0), region=size, is_blocking=True)
    return image


def content_of(context: fb.cl.ClContext, native: Any) -> np.ndarray:
    if isinstance(native, cl.Image):
        out = np.empty((4, 5, 4), np.float32)
        cl.enqueue_copy(context.queue, out, native, origin=(0, 0), region=(5, 4), is_blocking=True)
        return out[None, :, :, :3]
    if isinstance(native, cl.array.Array):
        return native.get()
    return values(context, native.memory if isinstance(native, fb.cl.ClBuffer) else native)


@pytest.mark.parametrize("kind", ["buffer", "array", "cl_mem", "sub-buffer", "image"])
def test_every_kind_of_object_is_read_and_written(cl_context: fb.cl.ClContext, kind: str) -> None:
    interpreter, delegate = on_cl()
    source, target = (kinds(cl_context, array)[kind] for array in (X, np.zeros_like(X)))
    delegate.bind_buffer_to_tensor(source, 0)
    delegate.bind_buffer_to_tensor(target, 1)
    fb.transfers.reset()
    with fb.transfer_guard("disallow"):
        interpreter.invoke()
    assert fb.transfers.calls == 0
    close(content_of(cl_context, target), np.exp(X))
    interpreter.ensure_tensor_data_is_readable(1)
    close(interpreter.get_tensor(1), np.exp(X))
    delegate.close()


@pytest.mark.parametrize("kind", ["buffer", "array", "cl_mem", "image"])
def test_one_object_cannot_be_input_and_output(cl_context: fb.cl.ClContext, kind: str) -> None:
    interpreter, delegate = on_cl()
    native, other = (kinds(cl_context, array)[kind] for array in (X, np.zeros_like(X)))
    delegate.bind_buffer_to_tensor(native, 0)
    delegate.bind_buffer_to_tensor(native, 1)
    with pytest.raises(fb.BindingError, match=r"is bound to tensor 1 'y' .* and to tensor 0: bind another"):
        interpreter.invoke()
    close(content_of(cl_context, native), X)
    delegate.bind_buffer_to_tensor(other, 1)
    interpreter.invoke()
    close(content_of(cl_context, other), np.exp(X))
    delegate.close()


def test_two_parts_of_one_buffer_are_two_objects(cl_context: fb.cl.ClContext) -> None:
    interpreter, delegate = on_cl()
    whole = buffer_of(cl_context, np.concatenate([X.ravel(), np.zeros(1024, np.float32)]))
    source, target = whole[: X.nbytes], whole[2048 : 2048 + X.nbytes]
    delegate.bind_buffer_to_tensor(source, 0)
    delegate.bind_buffer_to_tensor(target, 1)
    interpreter.invoke()
    close(values(cl_context, target), np.exp(X))
    delegate.close()


@pytest.mark.parametrize("format", IMAGE_FORMATS)
def test_images_are_known_by_their_format(device: ClDevice, format: str) -> None:
    order, kind, dtype = IMAGE_FORMATS[format]
    context, image_format = device.context.context, cl.ImageFormat(order, kind)
    if image_format not in cl.get_supported_image_formats(context, READ_WRITE, cl.mem_object_type.IMAGE2D):
        pytest.skip(f"{device.traits.name} has no images of two channels")
    image = cl.create_image(context, READ_WRITE, image_format, (7, 3))
    if format == "r16f" and context.devices[0].platform.name == "Portable Computing Language":
        with pytest.raises(fb.BindingError, match="PoCL reads images of one half per pixel wrongly"):
            device.borrow(image)
        return
    for resource in (device.borrow(image), device.borrow(fb.cl.ClImage.from_int_ptr(image.int_ptr))):
        assert (resource.format, resource.size, resource.nbytes) == (format, (7, 3), 0)
        picture = texels(format, 3, 7)
        assert picture.dtype == dtype
        device.write(resource, picture, "test")
        out = np.empty_like(picture)
        device.read(resource, out, "test")
        assert np.array_equal(out, picture)
    assert fb.transfers.bytes == 4 * picture.nbytes


UMAT = """
import cv2
cv2.ocl.setUseOpenCL(True)
doubled = cv2.multiply(cv2.UMat(np.ones((4, 5, 3), np.float32)), 2.0)
print(cv2.ocl.useOpenCL() and doubled.isContinuous() and doubled.offset == 0)
if cv2.ocl.useOpenCL():
    fb.cl.ClContext(queue=cl.CommandQueue.from_int_ptr(cv2.UMat.queue()))
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend='opencl'))
    interpreter = fb.Interpreter(model_content={model!r})
    interpreter.modify_graph_with_delegate(delegate)
    delegate.bind_buffer_to_tensor(fb.cl.ClBuffer.from_int_ptr(doubled.handle(cv2.ACCESS_READ)), 0)
    interpreter.invoke()
    assert np.allclose(interpreter.get_tensor(1), np.exp(2.0))
"""


def test_an_opencv_umat_is_bound_by_its_cl_mem(cl_context: fb.cl.ClContext) -> None:
    ran = in_a_process(UMAT.format(model=EXP), OPENCV_OPENCL_DEVICE=f":{'CPU' if cl_context.software else 'GPU'}:")
    if ran.stdout.split() == ["False"]:
        pytest.skip("OpenCV finds no OpenCL device that it takes")
    assert (ran.returncode, ran.stdout.split()) == (0, ["True"]), ran.stderr[-2000:]


def test_arrays_of_halves_and_of_any_strides_are_bound_in_place(cl_context: fb.cl.ClContext) -> None:
    interpreter, delegate = on_cl()
    delegate.set_allow_buffer_handle_output(True)
    fortran, halves, wide = np.asfortranarray(X), X.astype(np.float16), np.zeros((1, 4, 8, 4), np.float32)
    wide[:, :, :5, :3] = X
    source = cl.array.to_device(cl_context.queue, wide)[:, :, :5, :3]
    given = [source, *(cl.array.to_device(cl_context.queue, x) for x in (fortran, halves, np.asfortranarray(halves)))]
    for array in given:
        target = cl.array.zeros_like(given[1] if array is source else array)
        delegate.bind_buffer_to_tensor(array, 0)
        delegate.bind_buffer_to_tensor(target, 1)
        with fb.transfer_guard("disallow", exempt=("constants of the model",)):
            interpreter.invoke()
        np.testing.assert_allclose(target.get(), np.exp(X), rtol=2e-3 if array.dtype == np.float16 else 1e-5)
    delegate.close()


def test_what_cannot_be_bound_is_refused_and_the_interpreter_stays_usable(cl_context: fb.cl.ClContext) -> None:
    context, queue = cl_context.context, cl_context.queue
    interpreter, delegate = on_cl()
    wide = cl.create_image(context, READ_WRITE, cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT), (6, 4))
    other = cl.create_image(
        context, READ_WRITE, cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNSIGNED_INT8), (5, 4)
    )
    good = buffer_of(cl_context, X)
    released = fb.cl.ClBuffer.from_int_ptr(good.int_ptr)
    released.release()
    transposed = cl.array.to_device(queue, X.transpose(0, 2, 1, 3).copy())
    shifted = cl.array.to_device(queue, np.zeros(61, np.float32))[1:]
    wrong: list[tuple[Any, str]] = [
        (buffer_of(cl_context, X[:, 1:]), r"of 180 bytes: a buffer holds float32.*240 bytes"),
        (buffer_of(cl_context, np.zeros((4, 5, 4), np.float32)), "without padding"),
        (cl.array.to_device(queue, X.astype(np.float64)), "numbers are float64, and a tensor's values are float32 or"),
        (transposed, r"its shape is \(1, 5, 4, 3\)"),
        (shifted, "begins at byte 4"),
        (wide, "this one has 6x4"),
        (other, "UNSIGNED_INT8. cannot be bound"),
        (released, "is released"),
        (7, "ClBuffer.from_int_ptr"),
        ("x", "a str is no OpenCL object"),
        (NullDevice().buffer(240, "null"), "a NullResource is no OpenCL object"),
        (buffer_of(cl_context, X, cl.mem_flags.READ_ONLY), "is READ_ONLY, and kernels must write it"),
    ]
    for native, message in wrong:
        with pytest.raises(fb.BindingError, match=message):
            delegate.bind_buffer_to_tensor(native, 1)
            interpreter.invoke()
        delegate.unbind(1)
        interpreter.set_tensor(0, X)
        interpreter.invoke()
        interpreter.ensure_tensor_data_is_readable(1)
        close(interpreter.get_tensor(1), np.exp(X))
    with pytest.raises(fb.BindingError, match="of 0 is no memory object"):
        fb.cl.ClBuffer.from_int_ptr(0)
    with pytest.raises(fb.BindingError, match="has 240 bytes, not 4"):
        fb.cl.ClBuffer.from_int_ptr(good.int_ptr, 4)
    with pytest.raises(fb.BindingError, match="of type IMAGE2D, and BUFFER is needed"):
        fb.cl.ClBuffer.from_int_ptr(wide.int_ptr)
    delegate.close()


def test_objects_of_another_context_are_refused_with_the_remedy(cl_context: fb.cl.ClContext) -> None:
    interpreter, delegate = on_cl()
    foreign = cl.Context([cl_context.device])
    with pytest.raises(fb.BindingError, match=r"another OpenCL context .*with fb.cl.ClContext\(queue="):
        delegate.bind_buffer_to_tensor(cl.Buffer(foreign, READ_WRITE, X.nbytes), 0)
    interpreter.set_tensor(0, X)
    interpreter.invoke()
    interpreter.ensure_tensor_data_is_readable(1)
    close(interpreter.get_tensor(1), np.exp(X))
    delegate.close()


def test_a_bound_object_stays_alive_when_its_owner_lets_go(cl_context: fb.cl.ClContext) -> None:
    interpreter, delegate = on_cl()
    source, target, raw = buffer_of(cl_context, X), buffer_of(cl_context, X), buffer_of(cl_context, 2 * X)
    wrapped = fb.cl.ClBuffer.from_int_ptr(raw.int_ptr)
    delegate.bind_buffer_to_tensor(source, 0)
    delegate.bind_buffer_to_tensor(target, 1)
    source.release()
    del source
    gc.collect()
    interpreter.invoke()
    close(values(cl_context, target), np.exp(X))
    delegate.bind_buffer_to_tensor(wrapped, 0)
    raw.release()
    interpreter.invoke()
    close(values(cl_context, target), np.exp(2 * X))
    delegate.close()


def test_what_was_bound_is_not_freed_and_not_held_any_longer(cl_context: fb.cl.ClContext) -> None:
    interpreter, delegate = on_cl()
    source, target = buffer_of(cl_context, X), buffer_of(cl_context, X)
    before = source.reference_count
    for _ in range(3):
        delegate.bind_buffer_to_tensor(source, 0)
        delegate.bind_buffer_to_tensor(target, 1)
        interpreter.invoke()
    assert source.reference_count > before
    delegate.close()
    del interpreter, delegate
    gc.collect()
    cl_context.finish()
    assert source.reference_count == before
    close(values(cl_context, source), X)


# Command lists --------------------------------------------------------------------------------------------------------


def test_what_follows_each_other_without_slots_is_one_command_buffer(device: ClDevice) -> None:
    steps, _ = chain(device, SHAPE)
    recorded = device.record(steps)
    device._command_buffers = None
    plain = device.record(steps)
    # Five kernels and a flush; if the device has the extension, the three in the middle are one call.
    assert plain.calls_per_run == 6
    assert recorded.calls_per_run == (4 if CommandBuffers.on(device.context.queue) else 6)
    assert recorded.barriers == plain.barriers == 0
    for list_ in (recorded, plain):
        for seed in (1, 2):
            target = bound(device, list_, random(SHAPE, seed))
            list_.run()
            assert np.array_equal(content(device, target), random(SHAPE, seed))


def test_pocl_has_command_buffers(cl_context: fb.cl.ClContext) -> None:
    has = "cl_khr_command_buffer" in cl_context.device.extensions.split()
    assert (CommandBuffers.on(cl_context.queue) is not None) == has
    assert has or "Portable" not in cl_context.device.platform.name


def test_runs_are_submitted_before_the_ones_before_are_done(device: ClDevice) -> None:
    steps, _ = chain(device, SHAPE)
    list_ = device.record(steps)
    sources = [buffer_of(device.context, random(SHAPE, seed)) for seed in range(20)]
    targets = [device.buffer(Dense(SHAPE).nbytes, f"target {i}") for i in range(20)]
    gate = cl.UserEvent(device.context.context)
    device.wait_for([gate])
    for source, target in zip(sources, targets, strict=True):
        list_.set_slot("in", device.borrow(source))
        list_.set_slot("out", target)
        list_.run()
    assert not device.fence().done
    gate.set_status(cl.command_execution_status.COMPLETE)
    for seed, target in enumerate(targets):
        assert np.array_equal(content(device, target), random(SHAPE, seed))


def test_running_on_what_was_freed_is_an_error_and_no_crash(device: ClDevice) -> None:
    steps, arena = chain(device, SHAPE)
    list_ = device.record(steps)
    bound(device, list_, random(SHAPE))
    list_.run()
    arena.release()
    with pytest.raises(fb.BindingError, match="'arena' is released: record the steps again"):
        list_.run()
    list_.release()
    list_.release()
    with pytest.raises(fb.BindingError, match="this command list is released"):
        list_.run()


def test_a_thousand_runs_leak_nothing(device: ClDevice) -> None:
    steps, _ = chain(device, SHAPE)
    list_ = device.record(steps)
    target = bound(device, list_, random(SHAPE))
    list_.run()
    content(device, target)
    gc.collect()
    held = device.context.context.reference_count, device.context.queue.reference_count
    fb.transfers.reset()
    for _ in range(1000):
        list_.run()
    assert fb.transfers.calls == 0
    # It waits for all of them. rusticl lets go of the last event a moment later: one reference, where a leak has 1000.
    assert np.array_equal(content(device, target), random(SHAPE))
    now = device.context.context.reference_count, device.context.queue.reference_count
    assert all(after - before <= 1 for after, before in zip(now, held, strict=True)), (now, held)


def test_lists_kernels_and_buffers_are_freed(device: ClDevice) -> None:
    def once() -> None:
        steps, _ = chain(device, SHAPE)
        list_ = device.record(steps)
        target = bound(device, list_, random(SHAPE))
        list_.run()
        assert np.array_equal(content(device, target), random(SHAPE))

    def held() -> tuple[int, int]:
        device.finish()
        gc.collect()
        return device.context.context.reference_count, device.context.queue.reference_count

    once()
    time.sleep(0.1)
    before = held()
    for _ in range(50):
        once()
    for _ in range(100):  # a thread of the driver lets go of commands a moment after they are finished
        if held() == before:
            break
        time.sleep(0.01)
    assert held() == before


@pytest.mark.parametrize("nbytes", [0, 65])
def test_a_buffer_is_no_larger_than_its_memory(cl_context: fb.cl.ClContext, nbytes: int) -> None:
    memory = cl.Buffer(cl_context.context, cl.mem_flags.READ_WRITE, 64)
    with pytest.raises(fb.BindingError, match=f"rows of {nbytes} bytes cannot be made of memory of 64 bytes"):
        fb.cl.ClBuffer(memory, nbytes, "rows")


def test_a_closed_context_says_so(cl_context: fb.cl.ClContext) -> None:
    with fb.cl.ClContext(cl_context.device) as context:
        device = ClDevice(context)
        steps, _ = chain(device, SHAPE)
        list_ = device.record(steps)
        bound(device, list_, random(SHAPE))
        list_.run()
    for attempt in (list_.run, device.finish, device.fence, lambda: device.buffer(16, "b")):
        with pytest.raises(fb.DeviceError, match="is closed: make a new ClContext"):
            attempt()


def test_kernels_of_another_device_are_refused(device: ClDevice) -> None:
    steps, _ = chain(device, SHAPE)
    with fb.cl.ClContext(device.context.device) as context:
        with pytest.raises(fb.BindingError, match="compiled for another device"):
            ClDevice(context).record(steps)


def test_kernels_are_compiled_once_per_context(cl_context: fb.cl.ClContext) -> None:
    """In a context of its own: a device that another test left open would keep its kernels."""
    with fb.cl.ClContext(cl_context.device) as context:
        first, second = open_device("opencl"), open_device("opencl")
        assert first is second and isinstance(first, ClDevice) and first.context is context
        steps, _ = chain(first, SHAPE)
        assert second.kernel(steps[0].kernel.source) is steps[0].kernel
        first.close()
        assert second.kernel(steps[0].kernel.source) is steps[0].kernel
        second.close()
        third = open_device("opencl")
        assert third is not first
        third.close()


def test_steps_are_compiled_together(device: ClDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels of a list that are not built yet are one text; a kernel that is in two lists is compiled once."""
    texts: list[str] = []
    make: Callable[..., None] = cl.Program.__init__

    def counting(program: cl.Program, context: cl.Context, *rest: Any) -> None:
        texts.extend(rest if len(rest) == 1 else ())
        make(program, context, *rest)

    monkeypatch.setattr(cl.Program, "__init__", counting)
    a, b = (device.buffer(2048, name) for name in "ab")

    def step_with(expression: str, view: Any) -> Step:
        return step(device, copy_source(device, view, Sliced(SHAPE), epilogue=((expression, ""),)), whole(a), whole(b))

    steps = [step_with("v + F4(77.0f)", view) for view in (Dense(SHAPE), Sliced(SHAPE), Sliced(SHAPE, "f16"))]
    device.record(steps[:2], "separate")
    assert [text.count("__kernel ") for text in texts] == [2]
    device.record([*steps, *steps], "separate")
    assert [text.count("__kernel ") for text in texts] == [2, 1]
    with pytest.raises(fb.KernelError, match=r"kernel 'copy'.*does not compile"):
        device.record([step_with("v + F4(78.0f)", Sliced(SHAPE)), step_with("nonsense(v)", Dense(SHAPE))], "separate")
    assert "nonsense(" in texts[-1] and texts[-1].count("__kernel ") == 1, "the one that does not compile alone"
    device.record(steps, "separate")
    many = [step_with(f"v + F4({80 + number}.0f)", Sliced(SHAPE)) for number in range(9)]
    device.compile([*many, *many], "separate")
    order = [texts[-1].index(f"v + F4({80 + number}.0f)".replace("v ", "store_v ")) for number in range(9)]
    assert order == sorted(order), "the same text in each process, which the driver's own cache then serves"


def test_build_failures_leave_no_file_and_no_warning(
    device: ClDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(cl.Error):
        cl_build.build(device.context.context, "__kernel void f() { nonsense; }", "f")
    x = random(SHAPE)
    convert(device, Dense(SHAPE), Sliced(SHAPE), x)
    assert not list(tmp_path.glob("*.cl")) and not recwarn.list


# Events ---------------------------------------------------------------------------------------------------------------


def test_invoke_waits_for_events_on_the_gpu_and_returns_one(cl_context: fb.cl.ClContext) -> None:
    interpreter, delegate = on_cl()
    source, target = buffer_of(cl_context, X), buffer_of(cl_context, np.zeros_like(X))
    delegate.bind_buffer_to_tensor(source, 0)
    delegate.bind_buffer_to_tensor(target, 1)
    assert interpreter.invoke() is None
    users = cl.CommandQueue(cl_context.context)
    gate = cl.UserEvent(cl_context.context)
    filled = cl.enqueue_copy(users, source, 3 * X, is_blocking=False, wait_for=[gate])
    users.flush()
    done = interpreter.invoke(wait_for=[filled])
    assert isinstance(done, cl.Event)
    assert done.command_execution_status != cl.command_execution_status.COMPLETE
    after = np.empty_like(X)
    read = cl.enqueue_copy(users, after, target, is_blocking=False, wait_for=[done])
    gate.set_status(cl.command_execution_status.COMPLETE)
    read.wait()
    close(after, np.exp(3 * X))
    assert done.command_execution_status == cl.command_execution_status.COMPLETE
    assert isinstance(interpreter.invoke(wait_for=[]), cl.Event)
    delegate.close()


def test_wrong_events_are_refused(cl_context: fb.cl.ClContext) -> None:
    interpreter, delegate = on_cl()
    interpreter.set_tensor(0, X)
    with pytest.raises(fb.BindingError, match="pyopencl events, and was given a str"):
        interpreter.invoke(wait_for=["now"])
    foreign = cl.UserEvent(cl.Context([cl_context.device]))
    with pytest.raises(fb.BindingError, match="cannot wait for these events"):
        interpreter.invoke(wait_for=[foreign])
    foreign.set_status(cl.command_execution_status.COMPLETE)  # NVIDIA's driver would wait for it when it is freed
    interpreter.invoke(wait_for=[])
    delegate.close()
    with pytest.raises(fb.DelegateError):
        interpreter.invoke(wait_for=[])
    with pytest.raises(fb.DelegateError, match="no GpuDelegate"):
        fb.Interpreter(model_content=EXP).invoke(wait_for=[])


def test_opengl_has_no_events(context: fb.GlContext) -> None:
    interpreter, delegate = on_cl("opengl")
    interpreter.set_tensor(0, X)
    with pytest.raises(fb.BindingError, match="runs on OpenGL, which has no events"):
        interpreter.invoke(wait_for=["event"])
    assert interpreter.invoke(wait_for=[]) is None
    delegate.close()


# Which API ------------------------------------------------------------------------------------------------------------


def runs_on(delegate: fb.GpuDelegate) -> type:
    return type(delegate.engine.device)


def test_auto_takes_the_api_whose_context_is_current(cl_context: fb.cl.ClContext, context: fb.GlContext) -> None:
    _, on_opencl = on_cl("auto")
    assert runs_on(on_opencl) is ClDevice
    cl_context.release()
    _, on_opengl = on_cl("auto")
    assert runs_on(on_opengl) is GlDevice
    on_opencl.close()
    on_opengl.close()


def test_auto_follows_the_first_object_that_is_bound(cl_context: fb.cl.ClContext, context: fb.GlContext) -> None:
    interpreter, delegate = on_cl("auto")
    delegate.bind_buffer_to_tensor(fb.GlBuffer(X.nbytes, X), 0)
    assert runs_on(delegate) is GlDevice
    interpreter.invoke()
    interpreter.ensure_tensor_data_is_readable(1)
    close(interpreter.get_tensor(1), np.exp(X))
    with pytest.raises(fb.BindingError, match=r"no GL object that framebind knows.*backend 'opencl'"):
        delegate.bind_buffer_to_tensor(buffer_of(cl_context, X), 1)
    delegate.close()
    cl_context.release()
    interpreter, delegate = on_cl("auto")
    assert runs_on(delegate) is GlDevice
    cl_context.make_current()
    source = buffer_of(cl_context, X)
    delegate.bind_buffer_to_tensor(source, 0)
    assert runs_on(delegate) is ClDevice
    interpreter.invoke()
    interpreter.ensure_tensor_data_is_readable(1)
    close(interpreter.get_tensor(1), np.exp(X))
    delegate.close()


@pytest.mark.parametrize("backend", ["opencl", "opengl"])
def test_a_backend_that_was_asked_for_is_never_left(
    cl_context: fb.cl.ClContext, context: fb.GlContext, backend: str
) -> None:
    _, delegate = on_cl(backend)
    if backend == "opengl":
        with pytest.raises(fb.BindingError, match=r"no GL object that framebind knows.*backend 'opencl'"):
            delegate.bind_buffer_to_tensor(buffer_of(cl_context, X), 0)
    else:
        delegate.bind_buffer_to_tensor(fb.GlBuffer(X.nbytes), 0)  # shared: test_share.py
    assert runs_on(delegate) is (ClDevice if backend == "opencl" else GlDevice)
    delegate.close()


def in_a_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    prelude = "import gc, logging, itertools\nimport numpy as np, pyopencl as cl\nimport framebind as fb\n"
    prelude += "logging.basicConfig(level=logging.INFO, format='LOG %(levelname)s %(message)s')\n"
    prelude += "from framebind.interop.discovery.devices import open_device\n"
    return subprocess.run(
        [sys.executable, "-c", prelude + code], env=os.environ | environment, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


WITHOUT_CUDA = """
import ctypes
class Library(ctypes.CDLL):
    def __init__(self, name, *given, **named):
        if str(name).startswith('libcuda.so'):
            raise OSError(name)
        super().__init__(name, *given, **named)
ctypes.CDLL = Library
"""
"""Hides CUDA from framebind; CUDA_VISIBLE_DEVICES would hide the GPU from NVIDIA's OpenCL and OpenGL, too."""
NO_OPENCL, NO_OPENGL = {"OCL_ICD_VENDORS": "/nonexistent"}, {"__EGL_VENDOR_LIBRARY_FILENAMES": "/nonexistent.json"}


def log_lines(ran: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in ran.stderr.splitlines() if line.startswith("LOG") and "backend auto" in line]


@pytest.mark.parametrize("missing,taken", [(NO_OPENCL, "opengl"), (NO_OPENGL, "opencl")], ids=["no CL", "no GL"])
def test_auto_falls_back_with_one_line_saying_why(
    cl_context: fb.cl.ClContext, context: fb.GlContext, missing: dict[str, str], taken: str
) -> None:
    ran = in_a_process(WITHOUT_CUDA + "print(open_device('auto').traits.api)", **missing)
    assert ran.stdout.split() == [taken], ran.stderr
    first_choice = taken == "opencl" and not cl_context.software
    assert len(log_lines(ran)) == (0 if first_choice else 1), ran.stderr
    assert all(f"backend auto: {taken}" in line for line in log_lines(ran))
    other = "opengl" if taken == "opencl" else "opencl"
    ran = in_a_process(f"open_device('{other}')", **missing)
    assert ran.returncode == 1 and "DeviceError" in ran.stderr and "LOG" not in ran.stderr


def test_auto_says_so_where_neither_works() -> None:
    ran = in_a_process(WITHOUT_CUDA + "open_device('auto')", **NO_OPENCL, **NO_OPENGL)
    assert "DeviceError: neither OpenGL nor OpenCL works here" in ran.stderr


# The end --------------------------------------------------------------------------------------------------------------

FREED = """
model = {model!r}
x = np.ones({shape}, np.float32)
for order in [*itertools.permutations(range(6))][::{stride}]:
    context = fb.cl.ClContext({name!r})
    own = cl.CommandQueue(context.context)
    context = fb.cl.ClContext(queue=own)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend='opencl'))
    interpreter = fb.Interpreter(model_content=model)
    interpreter.modify_graph_with_delegate(delegate)
    source = cl.Buffer(context.context, 1 | 32, hostbuf=x)
    target = cl.Buffer(context.context, 1, x.nbytes)
    delegate.bind_buffer_to_tensor(source, 0)
    delegate.bind_buffer_to_tensor(target, 1)
    event = interpreter.invoke(wait_for=[])
    things = [context, own, delegate, interpreter, (source, target), event]
    del context, own, delegate, interpreter, source, target, event
    for i in order:
        if i == 0:
            things[i].close()
        elif i == 4:
            [memory.release() for memory in things[i]]
        things[i] = None
print('alive')
kept = fb.cl.ClContext({name!r})
last = cl.Buffer(kept.context, 1, 64), kept.queue, open_device('opencl').buffer(64, 'last')
"""


def test_objects_freed_in_any_order_do_not_crash(cl_context: fb.cl.ClContext) -> None:
    ran = in_a_process(FREED.format(model=EXP, shape=TENSOR, stride=31, name=cl_context.device.name))
    assert (ran.returncode, ran.stdout.split()) == (0, ["alive"]), ran.stderr[-2000:]
