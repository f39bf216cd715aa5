"""Threads that share an interpreter wait for each other, and no run is taken for an interrupted one."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import framebind as fb
from support.tiny_models import chain

SHAPE = (1, 8, 8, 4)


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Threads take turns as often as Python can let them."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def together(*actions: Callable[[], object], times: int) -> Counter[str]:
    """Call each action ``times`` times, on a thread of its own; counts the types of what was raised."""
    raised = Counter[str]()

    def repeat(action: Callable[[], object]) -> None:
        for _ in range(times):
            try:
                action()
            except BaseException as error:
                raised[f"{type(error).__name__}: {error}"] += 1

    threads = [threading.Thread(target=repeat, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


@pytest.mark.usefixtures("frequent_switches")
def test_threads_share_an_interpreter_on_opencl(cl_context: fb.cl.ClContext) -> None:
    interpreter = fb.Interpreter(model_content=chain("EXP", "TANH", shape=SHAPE))
    interpreter.modify_graph_with_delegate(delegate := fb.GpuDelegate("opencl"))
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.zeros(SHAPE, np.float32))

    def read() -> None:
        assert np.allclose(interpreter.get_tensor(2), np.tanh(1.0), atol=1e-6)

    interpreter.invoke()
    assert together(interpreter.invoke, interpreter.invoke, interpreter.invoke, read, times=200) == {}
    delegate.close()


@pytest.mark.usefixtures("frequent_switches")
def test_a_thread_may_resize_while_others_run(cl_context: fb.cl.ClContext) -> None:
    interpreter = fb.Interpreter(model_content=chain("EXP", "TANH", shape=SHAPE))
    interpreter.modify_graph_with_delegate(delegate := fb.GpuDelegate("opencl"))
    interpreter.allocate_tensors()
    heights = iter(range(8, 1000))

    def resize() -> None:
        interpreter.resize_tensor_input(0, (1, 8 + next(heights) % 3, 8, 4))
        interpreter.allocate_tensors()

    raised = together(interpreter.invoke, interpreter.invoke, resize, interpreter.get_output_details, times=30)
    ready = "LiteRT cannot run the model"  # a run between resizing and allocating, as with one thread
    assert [error for error in raised if not (error.startswith("ModelError") and ready in error)] == []
    delegate.close()


@pytest.mark.parametrize("delegated", [True, False])
@pytest.mark.usefixtures("frequent_switches")
def test_a_call_waits_for_another_threads_run(delegated: bool) -> None:
    """LiteRT's own interpreter takes a run of another thread for an array that still shows its memory."""
    delegates = [fb.GpuDelegate("null")] if delegated else []
    interpreter = fb.Interpreter(model_content=chain("EXP", "TANH", shape=SHAPE), experimental_delegates=delegates)
    interpreter.allocate_tensors()
    assert together(interpreter.invoke, interpreter.invoke, interpreter.allocate_tensors, times=300) == {}
