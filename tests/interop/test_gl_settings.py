"""Each setting of a host that would spoil framebind's work: the work is right, and the setting is as it was."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.interop.frames.read.upload import UploadRing
from framebind.interop.frames.write.readback import ReadbackRing
from framebind.interop.gl import egl
from framebind.interop.gl.khronos import EGL, GL
from framebind.interop.gl.settings import SETTINGS, Setting, settings_of
from support.environment import is_wanted
from support.gl_calls import StateReader, differences
from support.tiny_models import chain

SHAPE = (1, 8, 8, 4)
NUMBERS = np.linspace(-5, 5, 256, dtype=np.float32).reshape(8, 8, 4)
TEXELS = np.arange(256, dtype=np.uint8).reshape(8, 8, 4)
ODD: dict[str, Any] = {
    "glClipControl": (GL.UPPER_LEFT, GL.ZERO_TO_ONE),
    "GL_CLAMP_FRAGMENT_COLOR": 1,
    "GL_CLAMP_READ_COLOR": 1,
    "GL_MAP_COLOR": 1.0,
    "glWindowRectanglesEXT": (GL.INCLUSIVE_EXT, (0, 0, 1, 1)),
}
"""Values that a host may have set, by the name of the setting. Capabilities are on, and numbers are 0.5."""


@pytest.fixture(params=["gl", "compatibility", "gles"])
def host(request: pytest.FixtureRequest) -> Iterator[fb.GlContext]:
    """A context that another library made, as framebind sees it."""
    if not is_wanted("gles" if request.param == "gles" else "gl"):
        pytest.skip("FRAMEBIND_DEVICES leaves it out")
    made = egl.create(request.param == "gles", None)
    if request.param == "compatibility":
        made = _with_fixed_functions(made)
    made.make_current()
    context = fb.GlContext.current()
    yield context
    assert context.gl.clear_errors() == [] and not context.parts_kept
    context.close()
    made.release()
    made.destroy()


def _with_fixed_functions(like: egl.EglContext) -> egl.EglContext:
    """A context of the compatibility profile on the same display."""
    profile = EGL.CONTEXT_OPENGL_PROFILE_MASK, EGL.CONTEXT_OPENGL_COMPATIBILITY_PROFILE_BIT
    values = (EGL.CONTEXT_MAJOR_VERSION, 4, EGL.CONTEXT_MINOR_VERSION, 3, *profile, EGL.NONE)
    handle = like.egl.eglCreateContext(like.display, None, None, (ctypes.c_int * len(values))(*values))
    like.destroy()
    if not handle:
        pytest.skip("the driver has no compatibility profile")
    return egl.EglContext(like.egl, like.display, handle, None)


@pytest.fixture
def check(host: fb.GlContext) -> Callable[[], None]:
    """A function that does each kind of work and checks its results, with objects that are made before."""
    interpreter, delegate = fb.Interpreter(model_content=chain("NEG", shape=SHAPE)), fb.GpuDelegate("opengl")
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    numbers, result = fb.GlTexture.from_array(NUMBERS), fb.GlTexture(8, 8, "rgba32f")
    picture, drawn, copied = fb.GlTexture.from_array(TEXELS), fb.GlTexture(8, 8, "rgba32f"), fb.GlTexture(8, 8)
    program = fb.FragmentProgram("uniform sampler2D picture; void main() { color = texture(picture, uv); }")
    overlay, covered = fb.video.Overlay(), fb.GlTexture(8, 8)
    frames, copies = UploadRing(host, 8, 8), ReadbackRing(host, 8, 8)
    delegate.bind_buffer_to_tensor(numbers, interpreter.inputs()[0])
    delegate.bind_buffer_to_tensor(result, interpreter.outputs()[0])

    def run() -> None:
        interpreter.invoke()
        assert np.array_equal(result.read(), -NUMBERS), "computed"
        numbers.write(NUMBERS)
        assert np.array_equal(numbers.read(), NUMBERS), "numbers uploaded and read"
        picture.write(TEXELS)
        assert np.array_equal(picture.read(), TEXELS), "pixels uploaded and read"
        copied.copy_from(picture)
        assert np.array_equal(copied.read(), TEXELS), "copied"
        program.draw(drawn, {"picture": numbers})
        assert np.allclose(drawn.read(), NUMBERS, atol=1e-5), "drawn"
        covered.write(np.zeros((8, 8, 4), np.uint8))
        overlay.fill(0, 0, 8, 4, (255, 255, 255))
        overlay.draw(covered)
        assert covered.read()[1:3, 2:6, 0].min() > 250 and covered.read()[5:].max() == 0, "an overlay"
        frames.view(0)[...] = TEXELS[:, :, 2::-1]
        assert np.array_equal(frames.to_texture(0).read()[..., :3], TEXELS[..., :3]), "a frame uploaded"
        frames.wait(0)
        copies.push(picture)
        taken = copies.take(wait=True)
        assert taken is not None and np.array_equal(taken[1], TEXELS), "a frame read"
        copies.give_back(taken[0])

    return run


def test_each_setting_of_the_context(host: fb.GlContext, check: Callable[[], None]) -> None:
    found = {setting.name: setting for work in SETTINGS for setting in settings_of(host, work)}
    for name, setting in found.items():
        try:
            with_odd_value(host, setting, check)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


def test_a_context_has_the_settings_of_its_kind(host: fb.GlContext) -> None:
    names = {setting.name for work in SETTINGS for setting in settings_of(host, work)}
    fixed = {"GL_ALPHA_TEST", "GL_POLYGON_STIPPLE", "GL_RED_SCALE", "GL_MAP_COLOR", "GL_CLAMP_FRAGMENT_COLOR"}
    is_compatible = not host.is_es and bool(host.gl.integer(GL.CONTEXT_PROFILE_MASK) & 2)
    assert names & fixed == (fixed if is_compatible else set())
    assert "transform feedback" in names and ("GL_CLAMP_READ_COLOR" in names) is not host.is_es


def with_odd_value(host: fb.GlContext, setting: Setting, check: Callable[[], None]) -> None:
    gl, reader = host.gl, StateReader(host)
    end = run_feedback(host) if setting.name == "transform feedback" else lambda: None
    value = ODD.get(setting.name, 0.5 if isinstance(setting.needed, float) else not setting.needed)
    if setting.name == "GL_ALPHA_TEST":
        gl.glAlphaFunc(GL.NEVER, 0.0)
    if setting.name == "GL_POLYGON_STIPPLE":
        gl.glPolygonStipple((ctypes.c_ubyte * 128)())
    if setting.name != "transform feedback":
        setting.set(gl, value)
    assert setting.get(gl) == value != setting.needed and gl.clear_errors() == []
    before = reader.read()
    check()
    assert gl.clear_errors() == [] and setting.get(gl) == value
    assert differences(before, reader.read()) == {}
    end()
    if setting.name != "transform feedback":
        setting.set(gl, setting.needed)
    assert gl.clear_errors() == []


def run_feedback(host: fb.GlContext) -> Callable[[], None]:
    """Let transform feedback run; returns the function that ends it."""
    gl, name, vertex_array = host.gl, ctypes.c_uint(), ctypes.c_uint()
    head = "#version 310 es\nprecision highp float;\n" if host.is_es else "#version 430\n"
    program = gl.glCreateProgram()
    for kind, text in (
        (GL.VERTEX_SHADER, "out vec4 kept; void main() { kept = vec4(1.0); gl_Position = vec4(0.0); }"),
        (GL.FRAGMENT_SHADER, "out vec4 color; void main() { color = vec4(1.0); }"),
    ):
        shader, source = gl.glCreateShader(kind), ctypes.c_char_p((head + text).encode())
        gl.glShaderSource(shader, 1, ctypes.byref(source), None)
        gl.glCompileShader(shader)
        gl.glAttachShader(program, shader)
    gl.glTransformFeedbackVaryings(program, 1, ctypes.byref(ctypes.c_char_p(b"kept")), GL.INTERLEAVED_ATTRIBS)
    gl.glLinkProgram(program)
    gl.glGenBuffers(1, ctypes.byref(name))
    gl.glBindBufferBase(GL.TRANSFORM_FEEDBACK_BUFFER, 0, name)
    gl.glBufferData(GL.TRANSFORM_FEEDBACK_BUFFER, 4096, None, GL.STREAM_DRAW)
    gl.glGenVertexArrays(1, ctypes.byref(vertex_array))
    gl.glBindVertexArray(vertex_array)
    gl.glUseProgram(program)
    gl.glBeginTransformFeedback(GL.POINTS)

    def end() -> None:
        gl.glEndTransformFeedback()
        gl.glUseProgram(0)

    return end
