"""A host program's GL state is after bind, invoke and read as it was before."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest

import framebind as fb
from framebind.interop.device import Dispatches
from framebind.interop.discovery.devices import open_device
from framebind.interop.gl import egl
from framebind.interop.gl.api import GlApi
from framebind.interop.gl.texture import linear_sampler
from support import tiny_models

TEXTURE_2D, TEXTURE0, STORAGE_BUFFER, UNIFORM_BUFFER, WRITE_ONLY = 0x0DE1, 0x84C0, 0x90D2, 0x8A11, 0x88B9
RGBA8, R32F = 0x8058, 0x822E
PLAIN = {
    "program": 0x8B8D, "active texture": 0x84E0, "vertex array": 0x85B5, "draw framebuffer": 0x8CA6,
    "read framebuffer": 0x8CAA, "copy read": 0x8F36, "copy write": 0x8F37, "pixel pack": 0x88ED,
    "pixel unpack": 0x88EF, "storage": 0x90D3, "uniform": 0x8A28, "pack alignment": 0x0D05, "pack row length": 0x0D02,
    "unpack alignment": 0x0CF5, "unpack row length": 0x0CF2, "unpack skip rows": 0x0CF3, "array buffer": 0x8894,
    "blend": 0x0BE2, "depth test": 0x0B71, "scissor test": 0x0C11,
}  # fmt: skip
INDEXED = {
    "storage name": 0x90D3, "storage start": 0x90D4, "storage size": 0x90D5, "image name": 0x8F3A,
    "image access": 0x8F3E, "image format": 0x906E, "uniform name": 0x8A28, "uniform start": 0x8A29,
    "uniform size": 0x8A2A,
}  # fmt: skip


@pytest.fixture(params=[False, True], ids=["gl", "gles"])
def host(request: pytest.FixtureRequest) -> Iterator[fb.GlContext]:
    """A context that another library made, as framebind sees it."""
    made = egl.create(request.param, None)
    made.make_current()
    context = fb.GlContext.current()
    assert context.is_foreign
    yield context
    assert context.gl.clear_errors() == []
    context.close()
    made.release()
    made.destroy()


def state(gl: GlApi) -> dict[str, object]:
    """Everything of the context that a host may rely on, by name."""
    found: dict[str, object] = {name: gl.integer(value) for name, value in PLAIN.items()}
    for name, value in INDEXED.items():
        for index in range(4):
            number = ctypes.c_int64()
            gl.glGetInteger64i_v(value, index, ctypes.byref(number))
            found[f"{name} {index}"] = number.value
    viewport = (ctypes.c_int * 4)()
    gl.glGetIntegerv(0x0BA2, viewport)
    found["viewport"] = tuple(viewport)
    active = gl.integer(0x84E0)
    for unit in range(4):
        gl.glActiveTexture(TEXTURE0 + unit)
        found[f"texture {unit}"] = gl.integer(0x8069)
        found[f"sampler {unit}"] = gl.integer(0x8919)
    gl.glActiveTexture(active)
    assert gl.clear_errors() == []
    return found


def set_everything(context: fb.GlContext) -> list[object]:
    """A state in which nothing that a model touches is at its default. Returns what must stay alive."""
    gl = context.gl
    program = fb.FragmentProgram("void main() { color = vec4(1.0); }")
    target = fb.GlTexture(8, 8)
    program.draw(target)  # leaves program, framebuffer, viewport and vertex array of its own
    textures = [fb.GlTexture(4, 4) for _ in range(4)]
    buffers = [fb.GlBuffer(1024) for _ in range(4)]
    for index, (texture, buffer) in enumerate(zip(textures, buffers, strict=True)):
        gl.glActiveTexture(TEXTURE0 + index)
        gl.glBindTexture(TEXTURE_2D, texture.id)
        gl.glBindSampler(index, linear_sampler(context))
        gl.glBindImageTexture(index, texture.id, 0, 0, 0, WRITE_ONLY, RGBA8)
        gl.glBindBufferRange(STORAGE_BUFFER, index, buffer.id, 256, 512)
        gl.glBindBufferRange(UNIFORM_BUFFER, index, buffer.id, 512, 256)
    gl.glBindBufferBase(STORAGE_BUFFER, 1, buffers[0].id)
    for target_name in (0x8F36, 0x8F37, 0x88EB, 0x88EC, STORAGE_BUFFER, UNIFORM_BUFFER):
        gl.glBindBuffer(target_name, buffers[3].id)
    for name, value in ((0x0D05, 8), (0x0D02, 5), (0x0CF5, 2), (0x0CF2, 7), (0x0CF3, 3)):
        gl.glPixelStorei(name, value)
    gl.glEnable(0x0BE2)
    return [program, target, *textures, *buffers]


def expected(x: float) -> float:
    """The model's result for x: LOGISTIC(EXP(x))."""
    return float(1 / (1 + np.exp(-np.exp(x))))


@pytest.mark.parametrize("dispatches", ["separate", "one"])
def test_a_models_whole_life_leaves_the_hosts_state_alone(host: fb.GlContext, dispatches: Dispatches) -> None:
    device = open_device("opengl")
    device.dispatches = dispatches
    picture = fb.GlTexture.from_array(np.full((8, 8, 4), 128, np.uint8))
    other = fb.GlTexture.from_array(np.full((8, 8, 4), 64, np.uint8))
    result = fb.GlBuffer(8 * 8 * 3 * 4)
    written = fb.GlTexture(8, 8, "rgba32f")
    objects = set_everything(host)
    before = state(host.gl)
    assert before["unpack alignment"] == 2 and before["storage size 2"] == 512 and before["image name 3"] != 0

    interpreter = fb.Interpreter(model_content=tiny_models.chain("EXP", "LOGISTIC", shape=(1, 8, 8, 3)))
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    assert state(host.gl) == before, "loading"
    interpreter.set_tensor(0, np.zeros((1, 8, 8, 3), np.float32))
    interpreter.invoke()
    assert state(host.gl) == before, "an invoke that stages its tensors"
    assert np.allclose(interpreter.get_tensor(interpreter.outputs()[0]), expected(0.0), atol=1e-6)

    interpreter.set_allow_buffer_handle_output(True)
    delegate.bind_buffer_to_tensor(result, interpreter.outputs()[0])
    for texture in (picture, other):
        delegate.bind_buffer_to_tensor(texture, interpreter.inputs()[0])
        interpreter.invoke()
        assert state(host.gl) == before, "a bound invoke"
    assert len(delegate.profile()) == len(delegate.engine.programs[0].steps) and state(host.gl) == before, "a profile"
    figures = delegate.statistics()
    assert (figures.dispatches == 1) == (dispatches == "one")
    interpreter.ensure_tensor_data_is_readable(interpreter.outputs()[0])
    assert state(host.gl) == before, "reading"
    assert np.allclose(interpreter.get_tensor(interpreter.outputs()[0]), expected(64 / 255), atol=1e-6)

    delegate.bind_buffer_to_tensor(written, interpreter.outputs()[0])
    interpreter.invoke()
    assert state(host.gl) == before, "an invoke that writes a texture"
    delegate.close()
    assert state(host.gl) == before, "closing"
    device.close()
    del objects
