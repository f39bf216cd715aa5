"""Counts that do not grow: GL objects, memory and Python objects over many frames, and over many interpreters."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

import framebind as fb
from support import traced_pipeline
from support.environment import photograph_path
from support.soak import MIB, objects, resident

FindModel = Callable[[str], Path]
ROOMS = ("delegate", "interop", "kernels")
SMALLEST_OBJECT = object().__sizeof__()
on_gl = pytest.mark.parametrize("context", ["gl"], indirect=True)


def python_objects() -> int:
    """Containers that Python's garbage collector knows of."""
    gc.collect()
    return len(gc.get_objects())


@on_gl
def test_a_thousand_frames_take_no_more_than_two_hundred(context: fb.GlContext, model_path: FindModel) -> None:
    pipeline = traced_pipeline.make_pipeline(model_path("face_detection_front"))
    frames = traced_pipeline.camera(context, photograph_path(), 1000)
    for frame in islice(frames, 200):
        pipeline.draw(frame)
    before, memory = objects(context), resident()
    drawn = 200
    for frame in frames:
        pipeline.draw(frame)
        drawn += 1
        if drawn % 100 == 0:
            assert objects(context) == before, f"after {drawn} frames"
            # 2.6 KiB a frame: less than any texture or buffer of the pipeline.
            assert resident() - memory < 2 * MIB, f"after {drawn} frames"
    assert drawn == 1000
    pipeline.delegate.close()


def test_frames_leave_no_python_objects(context: fb.GlContext, model_path: FindModel) -> None:
    pipeline = traced_pipeline.make_pipeline(model_path("face_detection_front"))
    frames, measured = traced_pipeline.camera(context, photograph_path(), 120), 100
    for frame in islice(frames, 10):
        pipeline.draw(frame)
    tracemalloc.start(8)
    try:
        for frame in islice(frames, 10):
            pipeline.draw(frame)
        before = allocated()
        for frame in islice(frames, measured):
            pipeline.draw(frame)
        changes = allocated().compare_to(before, "lineno")
    finally:
        tracemalloc.stop()
    # The last frame's objects replace those of the one before; some floats and tuples differ in size.
    growth = sum(change.size_diff for change in changes)
    assert growth < measured * SMALLEST_OBJECT, changes[:5]
    pipeline.delegate.close()


def allocated() -> tracemalloc.Snapshot:
    """Memory that calls of framebind's allocated and did not free."""
    gc.collect()
    root = Path(fb.__file__).parent
    ours = [tracemalloc.Filter(True, str(root / room / "*"), all_frames=True) for room in ROOMS]
    return tracemalloc.take_snapshot().filter_traces(ours)


def test_thirty_interpreters_leave_nothing(context: fb.GlContext, model_path: FindModel) -> None:
    path = model_path("face_detection_front")

    def cycle() -> None:
        pipeline = traced_pipeline.make_pipeline(path)
        for frame in traced_pipeline.camera(context, photograph_path(), 2):
            pipeline.draw(frame)
        pipeline.delegate.close()

    for _ in range(10):  # the context's own samplers and programs are made, and the C library's memory settles
        cycle()
    before, memory, tracked = objects(context), resident(), python_objects()
    for _ in range(30):
        cycle()
    assert objects(context) == before
    assert python_objects() - tracked < 30, "less than one Python object an interpreter"
    assert resident() - memory < 30 * path.stat().st_size, "an interpreter that stays keeps its model, at least"
