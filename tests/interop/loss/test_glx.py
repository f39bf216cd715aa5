"""A program whose window has a context of GLX, and models in a context of their own, which is EGL's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import framebind as fb
from framebind.interop.gl.platform import current_platform
from support.environment import is_wanted
from support.tiny_models import chain

PROGRAM = """
import sys
import glfw
import numpy as np
import framebind as fb
from framebind.interop.gl.platform import current_platform

def model():
    interpreter = fb.Interpreter(model_path=sys.argv[1])
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    return interpreter, delegate

def run(interpreter, value):
    interpreter.set_tensor(0, np.full((1, 4, 5, 3), -value, np.float32))
    interpreter.invoke()
    assert (interpreter.get_tensor(1) == value).all()

def window():
    hints = {glfw.VISIBLE: 0, glfw.CONTEXT_CREATION_API: glfw.NATIVE_CONTEXT_API, glfw.CONTEXT_VERSION_MAJOR: 4,
             glfw.CONTEXT_VERSION_MINOR: 3, glfw.OPENGL_PROFILE: glfw.OPENGL_CORE_PROFILE}
    for hint, value in hints.items():
        glfw.window_hint(hint, value)
    made = glfw.create_window(64, 48, "GLX", None, None)
    glfw.make_context_current(made)
    return made

own, own_delegate = model()
run(own, 1)
assert glfw.init()
first = window()  # with a context of EGL current, the X server's error would end the process here
place = current_platform()
assert place[0].name == "GLX", place
run(own, 2)
assert current_platform() == place
glfw.swap_buffers(first)
there, delegate = model()
assert delegate.engine.device.context is fb.GlContext.current() and not own_delegate.engine.device.context.closed
texture = fb.GlTexture(5, 4, "rgba32f", np.full((4, 5, 4), -3, np.float32))
delegate.bind_buffer_to_tensor(texture, 0)
there.invoke()
assert (there.get_tensor(1) == 3).all()
second = window()
try:
    there.invoke()
except fb.DeviceError as error:
    print(error)
run(own, 4)
glfw.make_context_current(first)
there.invoke()
glfw.destroy_window(first)
try:
    there.invoke()
except fb.DeviceError as error:
    print(error)
delegate.close()
run(own, 5)
own_delegate.close()
glfw.terminate()
print("the end")
"""


def test_a_window_of_glx_and_a_model_in_a_context_of_its_own(display: None, tmp_path: Path) -> None:
    (tmp_path / "abs.tflite").write_bytes(chain("ABS", shape=(1, 4, 5, 3)))
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "abs.tflite")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("is not current on this thread") == 2 and done.stdout.endswith("the end\n")


def test_a_context_of_a_model_s_own_is_current_during_calls_only_and_shared() -> None:
    if not is_wanted("gl"):
        pytest.skip("FRAMEBIND_DEVICES leaves out gl")
    with fb.GlContext.headless() as before:
        before.release()
        assert current_platform() is None
        made = []
        for _ in range(2):
            interpreter = fb.Interpreter(model_content=chain("ABS", shape=(1, 2, 2, 4)))
            delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))
            interpreter.modify_graph_with_delegate(delegate)
            interpreter.allocate_tensors()
            interpreter.set_tensor(0, np.full((1, 2, 2, 4), -1, np.float32))
            interpreter.invoke()
            assert (interpreter.get_tensor(1) == 1).all() and current_platform() is None
            made.append(delegate)
        assert made[0].engine.device is made[1].engine.device
        for delegate in made:
            delegate.close()
        assert current_platform() is None
        before.make_current()
