"""A bound frame on CUDA: the calls of the driver and the Python functions that it takes."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.interop.cuda import api
from support.recording_driver import CONTEXT, RecordingDriver
from support.tiny_models import chain

Frame = Callable[[], None]
COUNTED = ("/framebind/interop/", "/framebind/delegate/", "/ai_edge_litert/")
MOST_FUNCTIONS = 23
"""They all run from cold caches while the GPU waits, or while somebody waits for the frame: there were 81, then 61."""


@pytest.fixture
def frame(recorder: RecordingDriver) -> Iterator[Frame]:
    """Binds the next picture of a ring, runs, and waits for a fence."""
    with fb.cuda.CudaContext():
        delegate = fb.GpuDelegate("cuda")
        interpreter = fb.Interpreter(model_content=chain("EXP", "SOFTMAX"), experimental_delegates=[delegate])
        interpreter.allocate_tensors()
        interpreter.set_allow_buffer_handle_output(True)
        output = fb.cuda.CudaArray.from_array(np.zeros((1, 4, 5, 3), np.float32))
        delegate.bind_buffer_to_tensor(output, interpreter.outputs()[0])
        ring = itertools.cycle([fb.cuda.CudaImage.from_array(np.zeros((4, 5, 4), np.uint8)) for _ in range(2)])
        tensor = interpreter.inputs()[0]

        def one_frame() -> None:
            delegate.bind_buffer_to_tensor(next(ring), tensor)
            interpreter.invoke()
            delegate.fence().wait()

        for _ in range(2):
            one_frame()
        yield one_frame
        delegate.close()


def test_a_frame_calls_the_driver_no_more_than_it_must(frame: Frame, recorder: RecordingDriver) -> None:
    recorder.calls.clear()
    frame()
    assert recorder.names() == ["cuGraphLaunch", "cuEventRecord", "cuEventSynchronize"]


@pytest.mark.parametrize(("version", "stream"), [(12090, None), (13000, 2)])
def test_calls_enter_the_context_if_their_handles_do_not_say_which_it_is(
    recorder: RecordingDriver, version: int, stream: int | None
) -> None:
    """Older drivers were not tried, and the default stream is that of the current context."""
    recorder.version = version
    with fb.cuda.CudaContext(stream=stream) as context:
        recorder.calls.clear()
        assert context.by_handles(api.driver().cuStreamSynchronize)(context.stream) == 0
        assert recorder.names() == [
            "cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuStreamSynchronize", "cuCtxPopCurrent_v2",
        ]  # fmt: skip
        recorder.calls.clear()
        recorder.current.append(CONTEXT)  # as PyTorch leaves it
        context.by_handles(api.driver().cuStreamSynchronize)(context.stream)
        assert recorder.names() == ["cuCtxGetCurrent", "cuStreamSynchronize"]


def test_a_frame_gives_up_python_s_lock_only_where_the_driver_may_wait(frame: Frame, recorder: RecordingDriver) -> None:
    """Each time another thread may take it: four threads with twelve such calls each were slower than two."""
    recorder.calls.clear()
    recorder.unlocked.clear()
    frame()
    assert recorder.unlocked == ["cuGraphLaunch", "cuEventRecord", "cuEventSynchronize"]


def test_a_frame_takes_few_python_functions(frame: Frame) -> None:
    names: list[str] = []

    def note(called: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and any(folder in called.f_code.co_filename for folder in COUNTED):
            names.append(called.f_code.co_name)

    sys.setprofile(note)
    try:
        frame()
    finally:
        sys.setprofile(None)
    assert len(names) <= MOST_FUNCTIONS, names


def test_objects_with_one_compatibility_key_replace_each_other_unchecked(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        whole = fb.cuda.CudaArray.from_array(np.zeros(64, np.float32))

        def part(offset: int, shape: tuple[int, ...] = (2, 2), **given: Any) -> fb.cuda.CudaArray:
            described: dict[str, Any] = {"device": 0, "keep": whole, **given}
            return fb.cuda.CudaArray(whole.pointer + offset, shape, np.float32, **described)

        first = part(0)
        assert first.compatibility_key == part(16).compatibility_key
        for other in (part(4), part(0, (4,)), part(0, read_only=True), part(0, strides=(16, 4))):
            assert other.compatibility_key != first.compatibility_key
        assert part(0, keep=None).compatibility_key is None, "each run asks whether it was freed"
