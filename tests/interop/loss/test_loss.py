"""Contexts that are destroyed, devices that are lost, processes that are forked: one DeviceError, and no hang."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import framebind as fb
from framebind.interop.cl.api import loader
from framebind.interop.device import Device
from framebind.interop.discovery.devices import open_device
from framebind.interop.frames.read.frame_reader import Pixels
from framebind.interop.frames.read.source import Source
from framebind.interop.frames.read.yuv_to_rgb import layout_of
from framebind.interop.gl import context as contexts
from framebind.interop.gl import egl
from framebind.interop.gl.api import GlApi
from framebind.interop.gl.khronos import GL
from support.environment import is_wanted
from support.recording_driver import RecordingDriver
from support.tiny_models import chain
from support.video.textures import textures

SHAPE = (1, 4, 5, 3)


def running(backend: str) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """A model that has run once."""
    interpreter = fb.Interpreter(model_content=chain("ABS", shape=SHAPE))
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl" if backend == "opengl es" else backend))  # pyright: ignore[reportArgumentType]
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, -np.ones(SHAPE, np.float32))
    interpreter.invoke()
    return interpreter, delegate


# Forks ----------------------------------------------------------------------------------------------------------------


def in_child(action: Callable[[], str]) -> str:
    """The result of an action in a forked process, which is killed if it hangs."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            os.write(write, action().encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        text = said.read()
    assert os.waitpid(child, 0)[1] == 0, f"the child hung or crashed after: {text}"
    return text


def error_of(action: Callable[[], object]) -> str:
    """The DeviceError that an action raises."""
    with pytest.raises(fb.DeviceError) as caught:
        action()
    return str(caught.value)


def test_a_forked_process_says_so_and_waits_for_nothing(gpu: Device) -> None:
    """Drivers' threads do not exist in it: a call would wait for them without end."""
    interpreter, delegate = running(gpu.traits.api)
    fence = delegate.fence()

    def use_all() -> str:
        said = [error_of(action) for action in (interpreter.invoke, fence.wait, delegate.fence)]
        said += [error_of(action) for action in (fb.GlContext.headless, fb.cl.ClContext, fb.GlContext.current)]
        delegate.close()
        return "\n".join(said)

    lines = in_child(use_all).splitlines()
    assert len(lines) == 6 and all("was forked from one that has used a GPU" in line for line in lines), lines
    interpreter.invoke()  # the parent goes on
    fence.wait()
    assert (interpreter.get_tensor(1) == 1).all()
    delegate.close()


def test_a_forked_process_frees_nothing_of_opencl(cl_context: fb.cl.ClContext) -> None:
    """NVIDIA's driver would free the parent's memory, under kernels that run."""
    buffer, queue = fb.cl.ClBuffer.from_array(np.zeros(4, np.float32)), cl.CommandQueue(cl_context.context)
    fence: Any = open_device("opencl").fence()
    fence.wait()  # the driver holds no reference any more
    kinds: tuple[Any, ...] = cl.MemoryObject, cl.CommandQueue, cl.Event
    places = buffer.int_ptr, queue.int_ptr, fence._event.value

    def release_all() -> str:
        nonlocal queue, fence
        buffer.release()
        del queue, fence
        gc.collect()
        pairs = zip(kinds, places, strict=True)
        return " ".join(str(kind.from_int_ptr(place).reference_count) for kind, place in pairs)

    assert in_child(release_all) == "2 2 2"  # one is that of the wrapper that tells the number


def test_a_process_that_is_forked_after_the_last_context_says_so() -> None:
    """Only the driver is left of the context, and its threads do not exist in the child."""
    text = (
        "import os, framebind as fb\n"
        "with fb.GlContext.headless():\n"
        "    fb.GlBuffer(16).read()\n"
        "if os.fork():\n"
        "    raise SystemExit(os.wait()[1])\n"
        "try:\n"
        "    fb.GlContext.headless()\n"
        "except fb.DeviceError as error:\n"
        "    os._exit('was forked from one that has used a GPU' not in str(error))\n"
        "os._exit(2)\n"
    )
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)


def test_a_forked_process_makes_no_call_of_cuda(recorder: RecordingDriver) -> None:
    context = fb.cuda.CudaContext()
    interpreter, delegate = running("cuda")
    array, fence = fb.cuda.CudaArray.from_array(np.zeros(4, np.float32)), delegate.fence()
    delegate.fence().wait()  # its event is kept for the next one

    def use_all() -> str:
        nonlocal array, fence
        recorder.calls.clear()
        uses = (interpreter.invoke, fence.wait, delegate.fence, context.finish, context.check, fb.cuda.CudaContext)
        said = [error_of(use) for use in uses]
        context.close()
        delegate.close()
        del array, fence
        gc.collect()
        return "\n".join([*said, *recorder.names()])

    lines = in_child(use_all).splitlines()
    assert len(lines) == 6 and all("was forked from one that has used a GPU" in line for line in lines), lines
    delegate.close()


# Contexts -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def host() -> Iterator[egl.EglContext]:
    """A context of another library's, current here."""
    if not is_wanted("gl"):
        pytest.skip("FRAMEBIND_DEVICES leaves out gl")
    made = egl.create(False, None)
    made.make_current()
    yield made
    made.release()
    made.destroy()


def test_a_context_that_its_maker_destroyed_is_one_error_and_all_can_be_closed(host: egl.EglContext) -> None:
    context = fb.GlContext.current()
    interpreter, delegate = running("opengl")
    buffer, texture, fence = fb.GlBuffer(64), fb.GlTexture(4, 4), delegate.fence()
    host.release()
    host.destroy()
    for action in (interpreter.invoke, fence.wait, buffer.read, texture.read, delegate.profile, context.finish):
        assert "is not current on this thread" in error_of(action)
    for close in (delegate.close, buffer.release, texture.release, context.close, delegate.close, context.close):
        close()
    assert "is closed" in error_of(context.finish)


@pytest.mark.parametrize("is_numbered", [False, True])
def test_a_new_context_under_the_handle_of_a_destroyed_one_is_another(
    host: egl.EglContext, monkeypatch: pytest.MonkeyPatch, is_numbered: bool
) -> None:
    """The new context's objects have the same names. Drivers give handles away again, and this test each time."""
    old = fb.GlContext.current()
    interpreter, delegate = running("opengl")
    host.release()
    host.destroy()
    again = egl.create(False, None)
    again.make_current()
    assert again.handle is not None
    monkeypatch.setattr(old, "_handle", again.handle)
    monkeypatch.setitem(contexts._contexts, ("EGL", again.handle), old)
    if is_numbered:  # its maker has made an object of the same number, too
        monkeypatch.setattr(old, "_mark", old.gl.glCreateProgram())
    assert "was destroyed by the library that made it" in error_of(interpreter.invoke)
    monkeypatch.setattr(old, "closed", False)
    new = fb.GlContext.current()
    assert new is not old and old.closed
    other, another = running("opengl")
    assert (other.get_tensor(1) == 1).all()
    for close in (delegate.close, another.close, new.close, old.close):
        close()
    again.release()
    again.destroy()


def test_a_delegate_in_its_own_context_runs_whichever_context_is_current() -> None:
    """Nobody knows of that context, so nobody can make it current again."""
    if not is_wanted("gl"):
        pytest.skip("FRAMEBIND_DEVICES leaves out gl")
    with fb.GlContext.headless() as before:
        before.release()
        interpreter, delegate = running("opengl")
        made = egl.create(False, None)
        made.make_current()  # the host's own context, made later
        host = fb.GlContext.current()
        interpreter.set_tensor(0, np.full(SHAPE, -3, np.float32))
        interpreter.invoke()
        assert (interpreter.get_tensor(1) == 3).all()
        interpreter.set_allow_buffer_handle_output(True)
        interpreter.invoke()
        interpreter.ensure_tensor_data_is_readable(1)
        delegate.fence().wait()
        assert len(delegate.profile()) == 1 and delegate.statistics().dispatches == 1
        host.check()  # it is current as before
        texture = fb.GlTexture(5, 4, "rgba32f")
        with pytest.raises(fb.DeviceError, match="is not current on this thread"):
            delegate.bind_buffer_to_tensor(texture, 0)
        delegate.close()
        host.check()
        assert texture.read().shape == (4, 5, 4)
        host.close()
        made.release()
        made.destroy()
        before.make_current()


# Devices --------------------------------------------------------------------------------------------------------------


def test_a_lost_gl_context_is_one_error_and_all_can_be_closed() -> None:
    if not is_wanted("gl"):
        pytest.skip("FRAMEBIND_DEVICES leaves out gl")
    context = fb.GlContext.headless()
    interpreter, delegate = running("opengl")
    fence, buffer, texture = delegate.fence(), fb.GlBuffer(64), fb.GlTexture(4, 4)
    texture.read()
    context.gl = LostGl(context.gl)
    assert "the GPU was reset or the context lost" in error_of(fence.wait)
    for action in (interpreter.invoke, buffer.read, texture.read, lambda: fb.GlBuffer(16), lambda: fb.GlTexture(4, 4)):
        assert "is lost: the GPU was reset. Make a new context" in error_of(action)
    for close in (delegate.close, buffer.release, context.close):
        close()


class LostGl(GlApi):
    """A context after a reset, as GL_KHR_robustness defines it: commands do nothing, and waits end."""

    def __init__(self, alive: GlApi) -> None:
        super().__init__(alive._find)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        values = {"glGetError": 0x0507, "glClientWaitSync": 0x911D, "glMapBufferRange": None}
        values["glGetGraphicsResetStatus"] = GL.INNOCENT_CONTEXT_RESET

        def call(*arguments: Any) -> Any:
            return values.get(name, 0)

        return call


def test_a_lost_opencl_device_is_one_error_and_all_can_be_closed(
    cl_context: fb.cl.ClContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fb.cl.ClContext(queue=cl.CommandQueue(cl_context.context)) as context:
        interpreter, delegate = running("opencl")
        fence = delegate.fence()

        def lost(*arguments: object, **options: object) -> None:
            raise cl.LogicError("clEnqueueCopyBuffer failed: INVALID_COMMAND_QUEUE")

        for name in ("enqueue_copy", "enqueue_marker", "enqueue_fill_buffer", "enqueue_barrier"):
            monkeypatch.setattr(cl, name, lost)
        library = loader()
        for name in ("clFlush", "clEnqueueMarkerWithWaitList", "clWaitForEvents", "clEnqueueNDRangeKernel"):
            monkeypatch.setattr(library, name, lambda *_: cl.status_code.INVALID_COMMAND_QUEUE)
        for program in delegate.engine.programs:
            commands: Any = program.record()
            monkeypatch.setattr(commands._recording, "calls", [(library.clEnqueueNDRangeKernel, ())])
        for action in (interpreter.invoke, fence.wait, delegate.event, context.finish, lambda: running("opencl")):
            assert "INVALID_COMMAND_QUEUE" in error_of(action)
        delegate.close()
    assert context.closed and "is closed" in error_of(context.finish)


# Readers --------------------------------------------------------------------------------------------------------------


class Vanishing:
    """A reader whose thread is ended by something that is no Exception."""

    name, size, fps, length, live, captured, time = "a reader", (4, 4), None, None, False, None, None
    damaged, status, retry = 0, "", None

    def __init__(self) -> None:
        self.closed, self.layout = False, layout_of("bgr", 4, 4)

    def read(self, view: Pixels) -> bool:
        raise SystemExit("the reader's process ended")

    def reopen(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_reader_that_vanishes_ends_the_frames_with_an_error(context: fb.GlContext) -> None:
    reader = Vanishing()
    with pytest.raises(fb.SourceError, match="a reader gives no more frames: its reader ended with SystemExit"):
        next(textures(Source(reader), context))
    assert reader.closed
