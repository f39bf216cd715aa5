"""A host program's GL state is after each call of the library as it was before."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
import pytest

import framebind as fb
from framebind.interop.cl.sharing.channel import Channel
from framebind.interop.cl.sharing.host_copies import Copies
from framebind.interop.cl.sharing.host_memory import HostMemory
from framebind.interop.cl.sharing.sharing import share
from framebind.interop.device import Dispatches
from framebind.interop.discovery.devices import open_device
from framebind.interop.frames.read.upload import UploadRing
from framebind.interop.frames.write.readback import ReadbackRing
from framebind.interop.gl import egl
from framebind.interop.gl.khronos import GL
from support import tiny_models
from support.environment import is_wanted
from support.gl_calls import GuardedApi, StateReader, differences, set_everything

SHAPE = (1, 8, 8, 3)


@pytest.fixture(params=[False, True], ids=["gl", "gles"])
def host(request: pytest.FixtureRequest) -> Iterator[fb.GlContext]:
    """A context that another library made, as framebind sees it. The library changes state in blocks only."""
    if not is_wanted("gles" if request.param else "gl"):
        pytest.skip("FRAMEBIND_DEVICES leaves it out")
    made = egl.create(request.param, None)
    made.make_current()
    context = fb.GlContext.current()
    assert context.is_foreign
    yield context
    assert context.gl.clear_errors() == [] and not context.parts_kept
    context.close()
    made.release()
    made.destroy()


Unchanged = Callable[[str], None]


def odd_state(context: fb.GlContext) -> tuple[list[object], Unchanged]:
    """Set everything that the library touches; the function returned fails if anything is another by now.

    From then on a call that changes state outside a block that puts it back fails as well.
    """
    objects = set_everything(context)
    reader, plain = StateReader(context), context.gl
    before = reader.read()
    context.gl = GuardedApi(context)

    def unchanged(after: str) -> None:
        guarded, context.gl = context.gl, plain
        assert differences(before, reader.read()) == {}, after
        context.gl = guarded

    return objects, unchanged


def expected(x: float) -> float:
    """The model's result for x: LOGISTIC(EXP(x))."""
    return float(1 / (1 + np.exp(-np.exp(x))))


def foreign_texture(context: fb.GlContext, format: str, size: int = 8) -> fb.GlTexture:
    """A texture of the host's own, without a mipmap, as framebind wraps it."""
    gl, name = context.gl, ctypes.c_uint()
    gl.glGenTextures(1, ctypes.byref(name))
    before = gl.integer(GL.TEXTURE_BINDING_2D)
    gl.glBindTexture(GL.TEXTURE_2D, name)
    gl.glTexStorage2D(GL.TEXTURE_2D, 1, {"rgba8": GL.RGBA8, "rgba32f": GL.RGBA32F}[format], size, size)
    gl.glBindTexture(GL.TEXTURE_2D, before)
    return fb.GlTexture.from_id(name.value)


def foreign_buffer(context: fb.GlContext, nbytes: int) -> fb.GlBuffer:
    """A buffer of the host's own, as framebind wraps it."""
    gl, name = context.gl, ctypes.c_uint()
    gl.glGenBuffers(1, ctypes.byref(name))
    before = gl.integer(GL.COPY_WRITE_BUFFER_BINDING)
    gl.glBindBuffer(GL.COPY_WRITE_BUFFER, name)
    gl.glBufferData(GL.COPY_WRITE_BUFFER, nbytes, None, GL.DYNAMIC_COPY)
    gl.glBindBuffer(GL.COPY_WRITE_BUFFER, before)
    return fb.GlBuffer.from_id(name.value)


@pytest.mark.parametrize("dispatches", ["separate", "one"])
def test_a_models_whole_life_leaves_the_hosts_state_alone(host: fb.GlContext, dispatches: Dispatches) -> None:
    device = open_device("opengl")
    device.dispatches = dispatches
    _life(host, "opengl")
    device.close()


@pytest.mark.parametrize("strategy", [HostMemory, Copies])
def test_a_model_on_opencl_leaves_the_state_of_the_host_of_its_objects_alone(
    host: fb.GlContext, strategy: type[Channel]
) -> None:
    if not is_wanted("cl:pocl"):
        pytest.skip("FRAMEBIND_DEVICES leaves out cl:pocl")
    with fb.cl.ClContext("pocl", copies_allowed=True):
        _life(host, "opencl", strategy)


def _life(host: fb.GlContext, backend: Literal["opengl", "opencl"], strategy: type[Channel] | None = None) -> None:
    """A model's whole life; on OpenCL, the host's objects are shared by the ``strategy``."""
    picture, other = foreign_texture(host, "rgba8"), fb.GlTexture.from_array(np.full((8, 8, 4), 64, np.uint8))
    result, values = foreign_buffer(host, 8 * 8 * 3 * 4), fb.GlBuffer(8 * 8 * 3 * 4)
    written, mine = foreign_texture(host, "rgba32f"), fb.GlTexture(8, 8, "rgba32f")
    objects, unchanged = odd_state(host)

    channel = share(host, fb.cl.ClContext.current(), (strategy,)) if strategy is not None else None
    unchanged("sharing")
    interpreter = fb.Interpreter(model_content=tiny_models.chain("EXP", "LOGISTIC", shape=SHAPE))
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend))
    source, target = interpreter.inputs()[0], interpreter.outputs()[0]
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    unchanged("loading")
    interpreter.set_tensor(source, np.zeros(SHAPE, np.float32))
    interpreter.invoke()
    unchanged("an invoke that stages its tensors")
    assert np.allclose(interpreter.get_tensor(target), expected(0.0), atol=1e-6)

    interpreter.set_allow_buffer_handle_output(True)
    for first, last in ((picture, written), (other, mine), (values, result), (result, values), (picture, result)):
        delegate.bind_buffer_to_tensor(first, source)
        delegate.bind_buffer_to_tensor(last, target)
        unchanged(f"binding {first.label} and {last.label}")
        interpreter.invoke()
        interpreter.invoke()
        unchanged(f"invokes with {first.label} and {last.label}")
    delegate.unbind(source)
    interpreter.set_tensor(source, np.ones(SHAPE, np.float32))
    interpreter.invoke()
    unchanged("an invoke after unbinding")
    interpreter.ensure_tensor_data_is_readable(target)
    unchanged("reading")
    assert np.allclose(interpreter.get_tensor(target), expected(1.0), atol=1e-6)
    delegate.fence().wait()
    delegate.profile()
    unchanged("a fence and a profile")
    assert strategy is None or type(channel) is strategy is type(share(host, fb.cl.ClContext.current()))
    delegate.close()
    unchanged("closing")
    del objects


def test_objects_leave_the_hosts_state_alone(host: fb.GlContext) -> None:
    theirs, buffer = foreign_texture(host, "rgba32f"), foreign_buffer(host, 64)
    objects, unchanged = odd_state(host)
    texels = np.arange(8 * 8 * 4, dtype=np.float32).reshape(8, 8, 4)
    texture = fb.GlTexture(8, 8, "rgba32f", texels)
    unchanged("making a texture with content")
    assert np.array_equal(texture.read(), texels)
    theirs.write(texels)
    assert np.array_equal(theirs.read(), texels)
    unchanged("writing and reading textures")
    for each in (fb.GlBuffer(64, np.arange(4, dtype=np.float32)), buffer):
        each.write(np.arange(16, dtype=np.float32))
        assert np.array_equal(each.read(), np.arange(16))
        unchanged(f"writing and reading {each.label}")
    for each in (theirs, buffer, texture):
        each.check()
    fb.GlTexture.from_id(theirs.id)
    fb.GlBuffer.from_id(buffer.id)
    unchanged("checks and wrapping")
    if is_wanted("cl:pocl"):
        with fb.cl.ClContext("pocl") as cl:
            fb.cl.sharing_report(host, cl)
    unchanged("asking how memory is shared")
    del objects


def test_drawing_and_frames_leave_the_hosts_state_alone_and_do_not_depend_on_it(host: fb.GlContext) -> None:
    objects, unchanged = odd_state(host)
    picture = fb.GlTexture.from_array(np.full((8, 8, 4), 55, np.uint8))
    numbers, target = fb.GlBuffer(16, np.full(4, 0.25, np.float32)), fb.GlTexture(8, 8)
    program = fb.FragmentProgram(
        "uniform sampler2D picture; uniform float scale;\n"
        "layout(std430, binding = 2) readonly buffer numbers { float values[]; };\n"
        "void main() { color = vec4(texture(picture, uv).rg * scale, values[1], 1.0); }"
    )
    program.draw(target, {"picture": picture}, {"numbers": numbers}, {"scale": 2.0})
    unchanged("a draw")
    assert np.abs(target.read().astype(int) - [110, 110, 64, 255]).max() <= 1
    copy = fb.GlTexture(8, 8)
    copy.copy_from(target)
    unchanged("a copy")
    assert (copy.read() == target.read()).all()
    overlay = fb.video.Overlay()
    overlay.fill(0, 0, 8, 8, (1.0, 0.0, 0.0))
    overlay.draw(target)
    unchanged("an overlay")
    assert np.abs(target.read()[2:6, 2:6].astype(int) - [255, 0, 0, 255]).max() <= 1
    frames, copies = UploadRing(host, 8, 8), ReadbackRing(host, 8, 8)
    frames.view(0)[...] = [3, 2, 1]
    uploaded = frames.to_texture(0)
    unchanged("a frame's upload")
    assert (uploaded.read() == [1, 2, 3, 255]).all()
    copies.push(uploaded)
    copied = copies.take(wait=True)
    assert copied is not None and (copied[1] == [1, 2, 3, 255]).all()
    copies.give_back(copied[0])
    frames.wait(0)
    frames.release()
    copies.release()
    unchanged("a frame's readback")
    del objects
