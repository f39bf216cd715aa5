"""Contexts that are destroyed, devices that are lost, processes that are forked: one DeviceError, and no hang."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import numpy as np
import pytest

import framebind as fb
from framebind.interop.device import Device
from support.tiny_models import chain

SHAPE = (1, 4, 5, 3)


def running(backend: str) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """A model that has run once."""
    interpreter = fb.Interpreter(model_content=chain("ABS", shape=SHAPE))
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opencl" if backend == "opencl" else "opengl"))
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, -np.ones(SHAPE, np.float32))
    interpreter.invoke()
    return interpreter, delegate


# Forks ----------------------------------------------------------------------------------------------------------------


def in_child(action: Callable[[], str]) -> str:
    """What an action returns in a forked process, which is killed if it hangs."""
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
        said += [error_of(action) for action in (fb.GlContext.headless, fb.ClContext, fb.GlContext.current)]
        delegate.close()
        return "\n".join(said)

    lines = in_child(use_all).splitlines()
    assert len(lines) == 6 and all("was forked from one that has a GPU context" in line for line in lines), lines
    interpreter.invoke()  # the parent goes on
    fence.wait()
    assert (interpreter.get_tensor(1) == 1).all()
    delegate.close()
