"""The thread on which a model runs: docs/from-litert.md says which one may."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import framebind as fb
from support.tiny_models import chain

X = np.linspace(-1, 1, 60, dtype=np.float32).reshape(1, 4, 5, 3)


def run_on_another_thread(interpreter: fb.Interpreter) -> BaseException | None:
    """The error of a run there, or None if its result is right."""
    found: list[BaseException] = []

    def run() -> None:
        try:
            interpreter.set_tensor(0, X)
            interpreter.invoke()
            np.testing.assert_allclose(interpreter.get_tensor(1), np.exp(X), rtol=1e-5)
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0] if found else None


def applied(backend: fb.Backend) -> fb.Interpreter:
    interpreter = fb.Interpreter(model_content=chain("EXP"), experimental_delegates=[fb.GpuDelegate(backend)])
    interpreter.allocate_tensors()
    return interpreter


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_in_the_delegate_s_own_gl_context_it_runs_on_any_thread(context: fb.GlContext) -> None:
    context.release()
    try:
        interpreter = applied("opengl")
        assert run_on_another_thread(interpreter) is None
        interpreter.invoke()
    finally:
        context.make_current()


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_in_a_context_that_was_current_it_runs_on_its_thread(context: fb.GlContext) -> None:
    interpreter = applied("opengl")
    error = run_on_another_thread(interpreter)
    assert isinstance(error, fb.DeviceError) and "call from that thread" in str(error)
    interpreter.invoke()


def test_on_opencl_it_runs_on_any_thread(cl_context: fb.cl.ClContext) -> None:
    interpreter = applied("opencl")
    assert run_on_another_thread(interpreter) is None
    interpreter.invoke()
