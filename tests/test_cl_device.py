"""What only the OpenCL device does: choosing it, the user's own objects, command buffers, events, freeing in any order."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest
from tiny_models import G, Op, T, build

import framebind as fb
from device_steps import SHAPE, bound, chain, content, convert, random, texels
from framebind.interop import cl_context as cl_context_module
from framebind.interop.cl import ClDevice
from framebind.interop.cl_command_buffer import CommandBuffers
from framebind.interop.cl_context import all_devices, why_unusable
from framebind.interop.cl_objects import IMAGE_FORMATS
from framebind.interop.devices import open_device
from framebind.interop.gl import GlDevice
from framebind.interop.null import NullDevice
from framebind.kernels.layout import Dense, Sliced

READ_WRITE = cl.mem_flags.READ_WRITE
TENSOR = (1, 4, 5, 3)
X = np.linspace(-1, 1, 60, dtype=np.float32).reshape(TENSOR)
EXP = build(G([T("x", TENSOR), T("y", TENSOR)], [Op("EXP", [0], [1])], [0], [1]))


@pytest.fixture
def device(cl_context: fb.ClContext) -> ClDevice:
    return ClDevice(cl_context)


def on_cl(backend: str = "opencl") -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """An interpreter of EXP in the current ClContext, which leaves its output on the GPU."""
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend))  # type: ignore[arg-type]
    interpreter = fb.Interpreter(model_content=EXP)
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.set_allow_buffer_handle_output(True)
    interpreter.allocate_tensors()
    return interpreter, delegate


def buffer_of(context: fb.ClContext, array: np.ndarray, flags: int = READ_WRITE) -> cl.Buffer:
    return cl.Buffer(context.context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.ascontiguousarray(array))


def values(context: fb.ClContext, memory: Any) -> np.ndarray:
    out = np.empty(TENSOR, np.float32)
    cl.enqueue_copy(context.queue, out, memory, is_blocking=True)
    return out


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, atol=2e-6, rtol=2e-6)


# Choosing a device ----------------------------------------------------------------------------------------------------


def test_a_device_is_found_by_name_type_number_and_itself(cl_context: fb.ClContext) -> None:
    chosen = cl_context.device
    platform = "portable computing" if "Portable" in chosen.platform.name else chosen.platform.name
    for wanted in (chosen, chosen.name.upper(), platform, all_devices().index(chosen)):
        with fb.ClContext(wanted) as context:
            assert context.device == chosen
    with fb.ClContext("cpu") as context:
        assert context.software and context.device.type & cl.device_type.CPU


def test_an_unknown_device_is_refused_with_the_known_ones(cl_context: fb.ClContext) -> None:
    with pytest.raises(fb.DeviceError, match="no OpenCL device 'abacus': there are 0 '"):
        fb.ClContext("abacus")
    for number in (len(all_devices()), -1):
        with pytest.raises(fb.DeviceError, match=f"no OpenCL device {number}"):
            fb.ClContext(number)


def test_a_device_that_cannot_build_one_line_does_not_count(
    cl_context: fb.ClContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def on_a_broken_driver(context: cl.Context, text: str, name: str) -> cl.Program:
        return real(context, text + " nonsense", name) if context.devices[0] == broken else real(context, text, name)

    broken, real = all_devices()[0], cl_context_module.build
    monkeypatch.setattr(cl_context_module, "build", on_a_broken_driver)
    why_unusable.cache_clear()
    try:
        with pytest.raises(fb.DeviceError, match=r"no OpenCL device works; install .* cannot build a kernel"):
            fb.ClContext(broken)
        if len(all_devices()) > 1:
            with fb.ClContext() as context:
                assert context.device != broken
    finally:
        why_unusable.cache_clear()


def test_a_queue_and_a_context_of_the_users_own_are_taken(cl_context: fb.ClContext) -> None:
    queue = cl.CommandQueue(cl_context.context)
    with fb.ClContext(queue=queue) as context:
        assert context.queue == queue and context.context == cl_context.context
        interpreter, delegate = on_cl()
        source, target = (buffer_of(context, array) for array in (X, np.zeros_like(X)))
        delegate.bind_buffer_to_tensor(source, 0)
        delegate.bind_buffer_to_tensor(target, 1)
        interpreter.invoke()
        close(values(context, target), np.exp(X))
        delegate.close()
    queue.finish()  # it is the user's and still works
    with fb.ClContext(context=cl_context.context) as context:
        assert context.context == cl_context.context and context.queue != queue
    with pytest.raises(fb.DeviceError, match="give ClContext the queue alone"):
        fb.ClContext("cpu", queue=queue)
    disorderly = cl.CommandQueue(
        cl_context.context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    )
    with pytest.raises(fb.DeviceError, match="runs out of order"):
        fb.ClContext(queue=disorderly)


def test_the_last_context_made_is_current_until_it_is_closed(cl_context: fb.ClContext) -> None:
    assert fb.ClContext.current() is cl_context
    with fb.ClContext(cl_context.device) as inner:
        assert fb.ClContext.current() is inner
        cl_context.make_current()
        assert fb.ClContext.current() is cl_context
        inner.make_current()
    assert fb.ClContext.current() is cl_context
    cl_context.release()
    assert not fb.ClContext.is_current()
    with pytest.raises(fb.DeviceError, match="no ClContext is current"):
        fb.ClContext.current()
    with pytest.raises(fb.DeviceError, match="is closed"):
        inner.make_current()


# The user's own objects -----------------------------------------------------------------------------------------------


def kinds(context: fb.ClContext, array: np.ndarray) -> dict[str, Any]:
    """The same content as every object that can be bound."""
    raw = buffer_of(context, array)
    return {
        "buffer": buffer_of(context, array),
        "array": cl.array.to_device(context.queue, array),
        "cl_mem": fb.ClBuffer.from_int_ptr(raw.int_ptr, array.nbytes),
        "sub-buffer": buffer_of(context, np.concatenate([np.zeros(1024, np.float32), array.ravel()]))[4096:],
        "image": cl.image_from_array(context.context, np.dstack([array[0], np.ones((4, 5, 1), np.float32)]), 4),
    }


def content_of(context: fb.ClContext, native: Any) -> np.ndarray:
    if isinstance(native, cl.Image):
        out = np.empty((4, 5, 4), np.float32)
        cl.enqueue_copy(context.queue, out, native, origin=(0, 0), region=(5, 4), is_blocking=True)
        return out[None, :, :, :3]
    if isinstance(native, cl.array.Array):
        return native.get()
    return values(context, native.memory if isinstance(native, fb.ClBuffer) else native)


@pytest.mark.parametrize("kind", ["buffer", "array", "cl_mem", "sub-buffer", "image"])
def test_every_kind_of_object_is_read_and_written(cl_context: fb.ClContext, kind: str) -> None:
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


@pytest.mark.parametrize("format", IMAGE_FORMATS)
def test_images_are_known_by_their_format(device: ClDevice, format: str) -> None:
    order, kind, dtype = IMAGE_FORMATS[format]
    image = cl.create_image(device.context.context, READ_WRITE, cl.ImageFormat(order, kind), (7, 3))
    for resource in (device.borrow(image), device.borrow(fb.ClImage.from_int_ptr(image.int_ptr))):
        assert (resource.format, resource.size, resource.nbytes) == (format, (7, 3), 0)
        picture = texels(format, 3, 7)
        assert picture.dtype == dtype
        device.write(resource, picture, "test")
        out = np.empty_like(picture)
        device.read(resource, out, "test")
        assert np.array_equal(out, picture)
    assert fb.transfers.bytes == 4 * picture.nbytes


def test_what_cannot_be_bound_is_refused_and_the_interpreter_stays_usable(cl_context: fb.ClContext) -> None:
    context, queue = cl_context.context, cl_context.queue
    interpreter, delegate = on_cl()
    wide = cl.create_image(context, READ_WRITE, cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT), (6, 4))
    other = cl.create_image(
        context, READ_WRITE, cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNSIGNED_INT8), (5, 4)
    )
    released = fb.ClBuffer.from_int_ptr(buffer_of(cl_context, X).int_ptr)
    released.release()
    transposed = cl.array.to_device(queue, np.asfortranarray(X))
    shifted = cl.array.to_device(queue, np.zeros(61, np.float32))[1:]
    wrong: list[tuple[Any, str]] = [
        (buffer_of(cl_context, X[:, 1:]), r"of 180 bytes: a buffer holds float32.*240 bytes"),
        (buffer_of(cl_context, np.zeros((4, 5, 4), np.float32)), "without padding"),
        (cl.array.to_device(queue, X.astype(np.float64)), "values are float32"),
        (transposed, "not C-contiguous"),
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
        fb.ClBuffer.from_int_ptr(0)
    with pytest.raises(fb.BindingError, match="has 384 bytes, not 4"):
        fb.ClBuffer.from_int_ptr(wide.int_ptr if False else buffer_of(cl_context, np.zeros(96, np.float32)).int_ptr, 4)
    with pytest.raises(fb.BindingError, match="of type IMAGE2D, and BUFFER is needed"):
        fb.ClBuffer.from_int_ptr(wide.int_ptr)
    delegate.close()
