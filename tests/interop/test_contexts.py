"""Contexts of OpenGL, OpenCL and CUDA are current, released and closed in the same way."""

from __future__ import annotations

from typing import Any

import pytest

import framebind as fb
from support.recording_driver import RecordingDriver


def check_contexts(kind: Any, first: Any, second: Any) -> None:
    """Two new contexts of a kind, of which the second is current."""
    assert kind.is_current() and kind.current() is second
    with first.made_current():
        assert kind.current() is first
        with second.made_current(), first.made_current():
            assert kind.current() is first
        assert kind.current() is first
    assert kind.current() is second
    with pytest.raises(ZeroDivisionError), first.made_current():
        _ = 1 / 0
    assert kind.current() is second
    with second as entered:
        assert entered is second
    assert kind.current() is first, "the one before it"
    assert second.closed and repr(second).endswith(", closed>") and not repr(first).endswith(", closed>")
    assert repr(first).startswith(f"<{kind.__name__}: ")
    for use in (second.check, second.make_current, second.finish, second.made_current().__enter__):
        with pytest.raises(fb.DeviceError, match=f"is closed: make a new {kind.__name__}, and the objects and prog"):
            use()
    second.close()
    stopped: list[str] = []
    first.closing.append(lambda: stopped.append("once"))
    first.close()
    first.close()
    assert stopped == ["once"] and first.closed


def test_gl(context: fb.GlContext) -> None:
    first = fb.GlContext.headless(es=context.is_es)
    check_contexts(fb.GlContext, first, fb.GlContext.headless(es=context.is_es))
    assert fb.GlContext.current() is context


def test_cl(cl_context: fb.cl.ClContext) -> None:
    first = fb.cl.ClContext(cl_context.device)
    check_contexts(fb.cl.ClContext, first, fb.cl.ClContext(cl_context.device))
    assert fb.cl.ClContext.current() is cl_context


def test_cuda(recorder: RecordingDriver) -> None:
    first = fb.cuda.CudaContext()
    check_contexts(fb.cuda.CudaContext, first, fb.cuda.CudaContext())
    assert not fb.cuda.CudaContext.is_current()
    with pytest.raises(fb.DeviceError, match="no CudaContext is current on this thread: make one"):
        fb.cuda.CudaContext.current()


def test_a_context_that_was_current_before_stays_in_its_place(recorder: RecordingDriver) -> None:
    first, second = fb.cuda.CudaContext(), fb.cuda.CudaContext()
    with first.made_current():
        pass
    second.close()
    assert fb.cuda.CudaContext.current() is first
