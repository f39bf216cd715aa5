"""Objects that hold a GPU's memory, a context, a device or a file are not copied or pickled; values are."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind.interop.uncopied import Uncopied
from support.public_names import public_names
from support.recording_driver import RecordingDriver
from support.tiny_models import chain

WAYS: tuple[Callable[[Any], object], ...] = (copy.copy, copy.deepcopy, pickle.dumps)
VALUES = {"video.VideoStage"}
"""Public classes with ``close`` that hold plain values, so that they can be sent to other processes."""
HOLDERS = {"video.Watch"}
"""Public classes of the library ``video``, which imports public names only: what they hold is not copied."""


def check_refused(*values: object) -> None:
    for value in values:
        for way in WAYS:
            with pytest.raises(fb.DeviceError, match=f"^this {type(value).__name__} is not copied or pickled: it"):
                way(value)


def test_what_is_closed_is_not_copied() -> None:
    found = [
        name
        for name, value in public_names().items()
        if inspect.isclass(value) and value is not fb.Sink
        if any(hasattr(value, closing) for closing in ("close", "stop", "release")) and not issubclass(value, Uncopied)
    ]
    assert set(found) == VALUES | HOLDERS


def test_objects_of_gl(context: fb.GlContext, tmp_path: Path) -> None:
    buffer = fb.GlBuffer(16, np.arange(4, dtype=np.float32))
    program = fb.FragmentProgram("void main() {\n  color = vec4(1.0);\n}")
    check_refused(context, buffer, fb.GlTexture(4, 4), fb.GlTimer(), fb.video.Overlay(), program)
    with fb.open_source("synthetic", size=(64, 48)) as source:
        check_refused(source)
    for name in ("a.png", "a.mp4"):
        with fb.video.VideoWriter(tmp_path / name, (64, 48)) as sink:
            check_refused(sink)
            sink.put(fb.GlTexture(64, 48))
    assert buffer.read().tolist() == [0, 1, 2, 3]


def test_objects_of_opencl(cl_context: fb.cl.ClContext) -> None:
    check_refused(cl_context, fb.cl.ClBuffer.from_array(np.zeros(4, np.float32)))
    check_refused(fb.cl.ClImage.from_array(np.zeros((4, 4, 4), np.uint8)))


def test_objects_of_cuda(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext() as context:
        check_refused(context, fb.cuda.CudaArray.from_array(np.zeros(4, np.float32)))
        check_refused(fb.cuda.CudaImage.from_array(np.zeros((4, 4, 4), np.uint8)))


def test_a_delegate_serves_on_after_a_copy_was_asked_for(context: fb.GlContext) -> None:
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))
    content = chain("EXP", "ABS", signature="serve")
    interpreter = fb.Interpreter(model_content=content, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    check_refused(
        delegate, interpreter, interpreter.get_signature_runner(), fb.InterpreterWithCustomOps(model_content=content)
    )
    interpreter.invoke()
    for way in (copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))):
        assert way(fb.GpuDelegateOptions(backend="opengl")) == fb.GpuDelegateOptions(backend="opengl")
    delegate.close()
