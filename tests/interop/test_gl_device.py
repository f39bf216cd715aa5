"""GL devices, desktop and ES: calls and uniforms, threads and contexts, deletion."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.interop.device import Operand, Slot
from framebind.interop.discovery.devices import open_device
from framebind.interop.gl.compute.device import GlDevice
from framebind.interop.gl.khronos import GL
from framebind.interop.gl.program import COMPILING
from framebind.kernels.tensor import Shape
from framebind.kernels.views import Dense, Picture, Sliced, picture_parameters
from support.device_steps import SHAPE, Array, bound, chain, content, copy_source, random, step, texels, whole
from support.gl_calls import counted_calls


@pytest.fixture
def gl(context: fb.GlContext) -> GlDevice:
    return GlDevice(context)


def test_a_mutable_texture_without_mipmaps_is_read_all_the_same(gl: GlDevice) -> None:
    api = gl.context.gl
    picture = texels("rgba8", 4, 6)
    texture = fb.GlTexture.from_id(foreign_texture(gl.context, picture))
    shape: Shape = (1, 4, 6, 4)
    buffer = gl.buffer(Dense(shape).nbytes, "out")
    source = copy_source(gl, Picture(shape, "rgba8", "rgba"), Dense(shape))
    parameters = picture_parameters(shape, (6, 4))
    gl.record([step(gl, source, Operand(texture), whole(buffer), src=parameters)]).run()
    out = np.empty(shape, np.float32)
    gl.read(buffer, out, "test")
    assert np.abs(out[0] * 255 - picture).max() < 1e-3
    delete_foreign(gl.context, texture.id)
    assert not api.glIsTexture(texture.id)


def foreign_texture(context: fb.GlContext, picture: Array) -> int:
    """A texture of another library's glTexImage2D: mutable, without mipmaps, with a filter that needs them."""
    import ctypes

    gl, name = context.gl, ctypes.c_uint()
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_uint] * 2, *[ctypes.c_int] * 4, *[ctypes.c_uint] * 2, ctypes.c_void_p)
    tex_image = prototype(gl._find("glTexImage2D"))
    gl.glGenTextures(1, ctypes.byref(name))
    gl.glBindTexture(0x0DE1, name.value)
    tex_image(0x0DE1, 0, 0x1908, picture.shape[1], picture.shape[0], 0, 0x1908, 0x1401, picture.ctypes.data)
    return name.value


def delete_foreign(context: fb.GlContext, name: int) -> None:
    import ctypes

    context.gl.glDeleteTextures(1, ctypes.byref(ctypes.c_uint(name)))


def test_a_texture_that_its_owner_deleted_or_replaced_is_refused_before_the_next_run(gl: GlDevice) -> None:
    name = foreign_texture(gl.context, texels("rgba8", 4, 6))
    shape: Shape = (1, 4, 6, 4)
    buffer = gl.buffer(Dense(shape).nbytes, "out")
    source = copy_source(gl, Picture(shape, "rgba8", "rgba"), Dense(shape))
    list_ = gl.record([step(gl, source, Operand(Slot("frame")), whole(buffer), src=picture_parameters(shape, (6, 4)))])
    list_.set_slot("frame", fb.GlTexture.from_id(name))
    list_.run()
    list_.run()
    delete_foreign(gl.context, name)
    with pytest.raises(fb.BindingError, match=f"texture {name} does not exist.*deleted"):
        list_.run()
    again = foreign_texture(gl.context, texels("rgba8", 5, 7))
    if again == name:  # drivers give a free name away again
        with pytest.raises(fb.BindingError, match="another size or format by now"):
            list_.run()
    delete_foreign(gl.context, again)
    assert gl.context.gl.clear_errors() == []


def test_a_buffer_that_its_owner_shrank_is_refused_before_the_next_run(gl: GlDevice) -> None:
    sliced = Sliced(SHAPE)
    theirs, mine = fb.GlBuffer(sliced.nbytes), gl.buffer(sliced.nbytes, "out")
    list_ = gl.record([step(gl, copy_source(gl, sliced, sliced), Operand(Slot("in"), 0, sliced.nbytes), whole(mine))])
    list_.set_slot("in", fb.GlBuffer.from_id(theirs.id))
    list_.run()
    gl.context.gl.glBindBuffer(0x8F37, theirs.id)
    gl.context.gl.glBufferData(0x8F37, 64, None, 0x88EA)
    for _ in range(2):
        with pytest.raises(fb.BindingError, match="has another size by now"):
            list_.run()
    assert gl.context.gl.clear_errors() == []


def test_asking_whether_a_texture_is_still_there_takes_three_calls_and_one_after_a_rebind(gl: GlDevice) -> None:
    name = foreign_texture(gl.context, texels("rgba8", 4, 6))
    shape: Shape = (1, 4, 6, 4)
    buffer = gl.buffer(Dense(shape).nbytes, "out")
    source = copy_source(gl, Picture(shape, "rgba8", "rgba"), Dense(shape))
    parameters = picture_parameters(shape, (6, 4))
    with counted_calls(gl.context) as calls:
        list_ = gl.record([step(gl, source, Operand(Slot("frame")), whole(buffer), src=parameters)])
        list_.set_slot("frame", fb.GlTexture.from_id(name))
        calls.clear()
        list_.run()
        assert sum(calls.values()) == list_.calls_per_run + 1
        calls.clear()
        list_.run()
        if not gl.context.is_es and gl.context.version >= (4, 5):
            assert sum(calls.values()) == list_.calls_per_run + 3
    list_.set_slot("frame", fb.GlTexture.from_id(name))
    delete_foreign(gl.context, name)
    with pytest.raises(fb.BindingError, match=f"texture {name} does not exist.*deleted"):
        list_.run()
    list_.release()


# Command lists --------------------------------------------------------------------------------------------------------


def test_a_run_issues_each_call_once_and_sets_no_state_twice(gl: GlDevice) -> None:
    steps, _ = chain(gl, SHAPE)
    x = random(SHAPE)
    with counted_calls(gl.context) as calls:
        list_ = gl.record(steps)
        target = bound(gl, list_, x)
        list_.run()
        calls.clear()
        list_.run()
    assert list_.barriers == 4
    # Three programs; the middle one is used with three sets of offsets, the others hold theirs.
    assert dict(calls) == {
        "glUseProgram": 3,
        "glBindBufferBase": 2,
        "glBindBufferRange": 2,
        "glUniform1iv": 3,
        "glDispatchCompute": 5,
        "glMemoryBarrier": 5,
    }
    assert sum(calls.values()) == list_.calls_per_run
    assert np.array_equal(content(gl, target), x)


def test_the_first_list_to_use_a_kernel_leaves_its_offsets_in_the_program(gl: GlDevice) -> None:
    sliced = Sliced(SHAPE)
    source = copy_source(gl, sliced, sliced, memories=("arena", "arena"))
    arena = gl.buffer(8192, "arena")
    places = [Operand(arena, offset, sliced.nbytes) for offset in (0, 1024, 2048)]
    first, second = (gl.record([step(gl, source, places[0], places[i])]) for i in (1, 2))
    # Nothing to set, nothing to put back; the second one does both.
    assert first.calls_per_run == 4 and second.calls_per_run == 6


def test_an_owner_that_is_released_makes_room_for_the_next(gl: GlDevice) -> None:
    steps, _ = chain(gl, SHAPE)
    first = gl.record(steps)
    calls = first.calls_per_run
    first.release()
    assert gl.record(steps).calls_per_run == calls
    with pytest.raises(fb.BindingError, match="released"):
        first.run()


def test_a_ring_of_textures_needs_no_new_object_and_no_compilation(gl: GlDevice) -> None:
    shape: Shape = (1, 4, 6, 3)
    picture = Picture(shape, "rgba8", "rgb")
    source = copy_source(gl, picture, Dense(shape))
    buffer = gl.buffer(Dense(shape).nbytes, "out")
    parameters = picture_parameters(shape, (6, 4))
    frames = [texels("rgba8", 4, 6, seed) for seed in range(3)]
    ring = [fb.GlTexture.from_array(frame) for frame in frames]
    with counted_calls(gl.context) as calls:
        list_ = gl.record([step(gl, source, Operand(Slot("frame")), whole(buffer), src=parameters)])
        list_.set_slot("frame", ring[0])
        list_.run()
        content(gl, buffer, shape)  # a context's first read makes the buffer that all later ones go through
        live = dict(gl.context.objects.live)
        for i in range(9):
            calls.clear()
            list_.set_slot("frame", ring[i % 3])
            list_.run()
            assert sum(calls.values()) == list_.calls_per_run == 8
            assert np.abs(content(gl, buffer, shape)[0] * 255 - frames[i % 3][..., :3]).max() < 1e-3
    assert dict(gl.context.objects.live) == live


def test_a_thousand_runs_leak_nothing(gl: GlDevice) -> None:
    steps, _ = chain(gl, SHAPE)
    list_ = gl.record(steps)
    target = bound(gl, list_, random(SHAPE))
    list_.run()
    live = dict(gl.context.objects.live)
    fb.transfers.reset()
    for _ in range(1000):
        list_.run()
    gl.finish()
    assert dict(gl.context.objects.live) == live
    assert fb.transfers.calls == 0
    assert np.array_equal(content(gl, target), random(SHAPE))


def test_what_is_dropped_is_deleted_on_the_owner_thread(gl: GlDevice) -> None:
    gc.collect()
    gl.context.objects.drain()
    live = dict(gl.context.objects.live)
    things: list[Any] = [gl.buffer(64, "b"), gl.texture(4, 4, "rgba8", "t"), gl.fence()]
    things[1].framebuffer()
    assert dict(gl.context.objects.live) != live
    thread = threading.Thread(target=lambda: (things.clear(), gc.collect()))
    thread.start()
    thread.join()
    gl.context.objects.drain()
    assert {k: v for k, v in gl.context.objects.live.items() if v} == {k: v for k, v in live.items() if v}


# Errors ---------------------------------------------------------------------------------------------------------------


def test_running_needs_the_right_thread_and_context(gl: GlDevice) -> None:
    steps, _ = chain(gl, SHAPE)
    list_ = gl.record(steps)
    bound(gl, list_, random(SHAPE))
    caught: list[str] = []

    def elsewhere() -> None:
        try:
            list_.run()
        except fb.DeviceError as error:
            caught.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(caught) == 1 and "this call came from thread" in caught[0]
    with fb.GlContext.headless():
        with pytest.raises(fb.DeviceError, match="not current on this thread"):
            list_.run()
        with pytest.raises(fb.DeviceError, match="not current"):
            gl.buffer(16, "b")
    list_.run()


def test_a_closed_context_is_told_from_one_that_is_not_current() -> None:
    with fb.GlContext.headless() as context:
        device = GlDevice(context)
        steps, _ = chain(device, SHAPE)
        list_ = device.record(steps)
        target = bound(device, list_, random(SHAPE))
    assert target.released
    with pytest.raises(fb.DeviceError, match="is closed"):
        list_.run()


# Opening --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("es", [False, True], ids=["gl", "gles"])
def test_kernels_are_compiled_once_per_context(es: bool) -> None:
    """The test has a context of its own: a device that another test left open would keep its kernels."""
    with fb.GlContext.headless(es=es) as context:
        first, second = open_device("opengl"), open_device("opengl")
        assert first is second
        source = copy_source(first, Dense(SHAPE), Sliced(SHAPE))  # type: ignore[arg-type]
        buffers = whole(first.buffer(1024, "a")), whole(first.buffer(1024, "b"))
        programs = context.objects.live["program"]  # GL ES has one that clears buffers
        steps = [step(first, source, *buffers)]
        assert first.kernel(source) is second.kernel(source)
        assert context.objects.live["program"] == programs, "it is compiled when it is recorded"
        for device in (first, second):
            device.compile(steps)
            assert context.objects.live["program"] == programs + 1
        first.close()
        second.compile(steps)
        assert context.objects.live["program"] == programs + 1
        del steps
        second.close()
        context.objects.drain()
        assert context.objects.live["program"] == programs
        assert open_device("opengl") is not first


def test_programs_of_two_threads_compile_one_after_the_other() -> None:
    """NVIDIA's compiler crashes if one thread sets the number of its threads while another's programs compile."""
    done = threading.Event()

    def compile_a_kernel() -> None:
        with fb.GlContext.headless() as context:
            device = GlDevice(context)
            buffer = whole(device.buffer(Dense(SHAPE).nbytes, "both"))
            device.compile([step(device, copy_source(device, Dense(SHAPE), Dense(SHAPE)), buffer, buffer)])
        done.set()

    thread = threading.Thread(target=compile_a_kernel)
    with COMPILING:
        thread.start()
        assert not done.wait(0.3)
    assert done.wait(60)
    thread.join()


def test_closing_a_device_in_another_context_leaves_the_objects_of_that_alone() -> None:
    """A program that the driver still links has shaders, whose names are other shaders there."""
    with fb.GlContext.headless() as mine:
        device = GlDevice(mine)
        sliced = Sliced(SHAPE)
        device.kernel(copy_source(device, sliced, sliced)).begin(None)
        with fb.GlContext.headless() as other:
            shaders = [other.gl.glCreateShader(GL.COMPUTE_SHADER) for _ in range(8)]
            device.close()
            assert all(map(other.gl.glIsShader, shaders))


def test_a_device_makes_its_own_context_where_none_is_current() -> None:
    results: list[Any] = []

    def work() -> None:
        assert not fb.GlContext.is_current()
        device = open_device("opengl")
        results.append(fb.GlContext.is_current())
        with device.entered():
            results.append(device.buffer(16, "b").nbytes)
        device.close()
        results.append(fb.GlContext.is_current())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [False, 16, False]


def test_an_unknown_backend_is_refused_with_the_known_ones() -> None:
    with pytest.raises(fb.DeviceError, match=r"'vulkan'.*gl, opengl, cl, opencl, cuda, auto$"):
        open_device("vulkan")
