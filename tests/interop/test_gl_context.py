"""Contexts: made headless, found current, nested, moved between threads, closed; entry points and their counting."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

import framebind as fb
from framebind.interop.gl import context as gl_context
from framebind.interop.gl import egl
from framebind.interop.gl.khronos import EGL, GL
from framebind.interop.gl.texture import linear_sampler, nearest_sampler
from support.environment import is_wanted


def in_thread(work: Any) -> list[Any]:
    """The result or error of ``work()`` on a thread of its own, which has no current context."""
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(work())
        except Exception as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return result


@pytest.mark.parametrize("es", [False, True])
def test_a_headless_context_says_what_it_is(es: bool) -> None:
    with fb.GlContext.headless(es=es) as context:
        assert context.is_es is es
        assert context.version >= ((3, 1) if es else (4, 3))
        assert context.vendor and context.renderer and context.renderer in str(context)
        assert context.gl.clear_errors() == []
        context.check()
        assert fb.GlContext.current() is context


def test_contexts_nest_and_the_outer_one_comes_back() -> None:
    with fb.GlContext.headless() as outer:
        with fb.GlContext.headless(es=True) as inner:
            assert fb.GlContext.current() is inner
            with pytest.raises(fb.DeviceError, match=r"not current on this thread.*make_current"):
                outer.check()
        assert fb.GlContext.current() is outer
        outer.check()
        with pytest.raises(fb.DeviceError, match="is closed"):
            inner.make_current()


def test_an_environment_for_displays_does_not_break_headless() -> None:
    code = "import framebind as fb\nwith fb.GlContext.headless() as c: print(c.version)"
    for platform in ("x11", "wayland", "surfaceless", "nonsense"):
        environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
        done = subprocess.run(
            [sys.executable, "-c", code], env={**environment, "EGL_PLATFORM": platform}, capture_output=True, text=True
        )
        assert done.returncode == 0 and done.stdout.startswith("("), f"{platform}: {done.stderr}"


def test_without_a_current_context_current_says_how_to_get_one() -> None:
    (error,) = in_thread(fb.GlContext.current)
    assert isinstance(error, fb.DeviceError) and "GlContext.headless()" in str(error)


def test_a_context_moves_to_another_thread_when_released() -> None:
    with fb.GlContext.headless() as context:
        (error,) = in_thread(context.make_current)
        assert isinstance(error, fb.DeviceError) and "another thread" in str(error)
        context.release()

        def elsewhere() -> bool:
            context.make_current()
            context.check()
            context.release()
            return True

        assert in_thread(elsewhere) == [True]
        with pytest.raises(fb.DeviceError, match="this call came from thread"):
            context.check()
        context.make_current()
        context.check()


def foreign_context() -> egl.EglContext:
    """A context that another library made and made current, without GlContext knowing."""
    made = egl.create(False, None)
    made.make_current()
    return made


def test_a_foreign_context_is_borrowed_and_never_destroyed() -> None:
    def work() -> bool:
        foreign = foreign_context()
        with fb.GlContext.current() as context:
            assert fb.GlContext.current() is context
            buffer = fb.GlBuffer(16)
            nearest_sampler(context)
            context.release()
            context.make_current()
        assert context.closed and buffer.released
        assert dict(+context.objects.live) == {"buffer": 1}, "what it made once is deleted, the user's buffer is not"
        again = fb.GlContext.current()
        assert again is not context
        again.check()
        buffer = fb.GlBuffer(16)
        foreign.release()
        with pytest.raises(fb.DeviceError, match="not current"):
            again.check()
        with pytest.raises(fb.DeviceError, match="foreign: make it current with the library that made it"):
            again.make_current()
        foreign.destroy()
        return True

    assert in_thread(work) == [True]


def test_a_foreign_context_is_marked_once() -> None:
    """A mark is a GL object, which would stay there for each GlContext that nobody holds."""

    def work() -> list[int]:
        foreign = foreign_context()
        for _ in range(3):
            fb.GlContext.current()
            gc.collect()
        marks = [name for name in range(1, 100) if fb.GlContext.current().gl.glIsProgram(name)]
        fb.GlContext.current().close()
        foreign.release()
        foreign.destroy()
        return marks

    (marks,) = in_thread(work)
    assert len(marks) == 1


def test_a_dropped_headless_context_is_destroyed() -> None:
    def work() -> weakref.ref[fb.GlContext]:
        first = weakref.ref(fb.GlContext.headless())
        fb.GlContext.headless().close()
        current = first()
        assert current is not None, "while it is current on a thread it lives"
        current.release()
        return first

    (reference,) = in_thread(work)
    gc.collect()
    assert reference() is None


def test_no_such_device_is_named() -> None:
    with pytest.raises(fb.DeviceError, match="no EGL device 99: this machine has"):
        fb.GlContext.headless(device_index=99)


def test_without_an_egl_library_the_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    with pytest.raises(fb.DeviceError, match="apt-get install libegl1 libgl1 libgl1-mesa-dri"):
        fb.GlContext.headless()


def test_without_a_driver_the_displays_tried_are_named() -> None:
    code = "import framebind as fb\ntry: fb.GlContext.headless()\nexcept fb.DeviceError as error: print(error)"
    environment = {**os.environ, "__EGL_VENDOR_LIBRARY_FILENAMES": os.devnull}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "no EGL display gives a context with OpenGL 4.3" in done.stdout and "libgl1-mesa-dri" in done.stdout


@pytest.mark.parametrize(
    "text,version",
    [("4.5 (Core Profile) Mesa 22.3.6", (4, 5)), ("4.6.0 NVIDIA 580.65", (4, 6)), ("OpenGL ES 3.2 Mesa", (3, 2)),
     ("OpenGL ES 3.1 v1.r32p1", (3, 1)), ("", (0, 0))],
)  # fmt: skip
def test_versions_are_read_from_what_drivers_say(text: str, version: tuple[int, int]) -> None:
    assert gl_context._version(text) == version


OLD = """
import framebind as fb
from framebind.interop.gl import egl
from framebind.interop.gl.khronos import EGL
made = egl.create(False, None)
wanted = egl._attributes(EGL.CONTEXT_MAJOR_VERSION, 3, EGL.CONTEXT_MINOR_VERSION, 1)
config = egl._config(made.egl, made.display, EGL.OPENGL_BIT)
made.handle = made.egl.eglCreateContext(made.display, config, None, wanted)
made.make_current()
try: print("accepted", fb.GlContext.current())
except fb.DeviceError as error: print(error)
"""


def test_an_old_context_is_refused_with_what_was_found(context: fb.GlContext) -> None:
    if "Mesa" not in context.gl.version:
        pytest.skip("only Mesa gives a context that is as old as one asks for")
    # Mesa gives its newest compatible version unless told that it has an older one; core contexts stay what they are.
    environment = {**os.environ, "MESA_GL_VERSION_OVERRIDE": "4.2", "MESA_EXTENSION_OVERRIDE": ""}
    code = OLD.replace("egl.create(False, None)", "egl.create(True, None); made.egl.eglBindAPI(EGL.OPENGL_API)")
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "is '4.2" in done.stdout and "needs OpenGL 4.3 or OpenGL ES 3.1" in done.stdout


def test_a_missing_entry_point_names_itself_and_the_version(
    context: fb.GlContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context.gl, "_find", lambda name: 0)
    with pytest.raises(fb.DeviceError, match="no glPointSize"):
        context.gl.glPointSize(1.0)
    with pytest.raises(fb.DeviceError) as caught:
        context.gl.prebound("glPointSize")
    assert context.gl.version in str(caught.value)


def test_every_enumerant_that_the_product_names_is_in_the_raw_modules_of_pyopengl() -> None:
    """They are looked up when they are first used, so that a wrong name would fail late."""
    named = set[tuple[str, str]]()
    for path in (Path(fb.__file__).parent / "interop").rglob("*.py"):
        named |= set(re.findall(r"\b(E?GL)\.([A-Z][A-Z0-9_]*)\b", path.read_text()))
    assert len(named) > 150
    spaces = {"GL": GL, "EGL": EGL}
    assert [f"{space}.{name}" for space, name in sorted(named) if not hasattr(spaces[space], name)] == []


def test_a_name_that_pyopengl_does_not_have_is_an_attribute_error(context: fb.GlContext) -> None:
    with pytest.raises(AttributeError, match="have no GL_NO_SUCH_THING"):
        _ = GL.NO_SUCH_THING
    with pytest.raises(AttributeError, match="have no glNoSuchFunction"):
        context.gl.glNoSuchFunction()


def test_importing_framebind_and_making_a_context_leaves_pyopengl_to_the_user() -> None:
    """Imported, it would load a GL library, choose a platform and fix its flags, all for the whole process."""
    code = (
        "import sys, framebind as fb; context = fb.GlContext.headless(); "
        "print([name for name in sys.modules if name.partition('.')[0] == 'OpenGL'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_entry_points_come_from_the_context_not_from_pyopengl(context: fb.GlContext) -> None:
    context.gl.glFlush()
    address = ctypes.cast(context.gl.glFlush, ctypes.c_void_p).value
    assert address == context._platform.find("glFlush")


def test_helpers_are_made_once(context: fb.GlContext) -> None:
    sampler = nearest_sampler(context)
    live = context.objects.live["sampler"]
    assert nearest_sampler(context) == sampler != linear_sampler(context)
    assert context.objects.live["sampler"] <= live + 1


@pytest.mark.parametrize("es", [False, True])
def test_a_headless_context_is_told_of_a_reset(es: bool) -> None:
    """A context that is not told goes on silently after a reset of the GPU, with garbage in its buffers."""
    if not is_wanted("gles" if es else "gl"):
        pytest.skip("FRAMEBIND_DEVICES leaves it out")
    with fb.GlContext.headless(es=es) as context:
        assert context.gl.integer(GL.RESET_NOTIFICATION_STRATEGY) == GL.LOSE_CONTEXT_ON_RESET


@pytest.mark.parametrize(
    ("number", "name"), [(0x3009, "EGL_BAD_MATCH"), (0x300E, "EGL_CONTEXT_LOST"), (7, "EGL error 0x0007")]
)
def test_errors_of_egl_have_their_names(number: int, name: str) -> None:
    functions = egl.Egl(ctypes.CDLL(None))
    functions.eglGetError = lambda: number
    assert str(functions.failed("creating the context")) == f"creating the context failed with {name}"
