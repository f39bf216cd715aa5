"""CUDA's current context: what it was, it is again, wherever an exception of a signal handler comes."""

from __future__ import annotations

import pytest

import framebind as fb
from framebind.interop.cuda import api
from support.interrupts import interrupted_everywhere
from support.recording_driver import CONTEXT, RecordingDriver

OTHER = CONTEXT + 1


@pytest.mark.parametrize("before", [[], [OTHER], [CONTEXT], [CONTEXT, OTHER]])
@pytest.mark.parametrize("way", ["block", "call"])
def test_an_interrupted_use_leaves_the_context_that_was_current(
    recorder: RecordingDriver, way: str, before: list[int]
) -> None:
    with fb.cuda.CudaContext() as context:
        recorder.current[:] = before

        def use() -> None:
            if way == "call":
                context.call(api.driver().cuStreamSynchronize, context.stream)
                return
            with context.entered():
                assert recorder.current[-1] == CONTEXT

        def recovered() -> None:
            assert recorder.current == before

        assert interrupted_everywhere(use, recovered) > 3
        recorder.current.clear()
