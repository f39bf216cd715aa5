"""Stages of frames, timed by the GPU without waiting for it."""

from __future__ import annotations

import gc
import time
from itertools import pairwise

import pytest

import framebind as fb

STAGES = ("upload", "inference", "draw")


def frame(timer: fb.GlTimer, names: tuple[str, ...] = STAGES) -> list[fb.StageTime]:
    texture = fb.GlTexture(64, 64)
    program = fb.FragmentProgram("void main() { color = vec4(uv, 0.0, 1.0); }")
    for name in names:
        timer.mark(name)
        program.draw(texture)
    return timer.end()


def test_stages_come_in_order_some_frames_late(context: fb.GlContext) -> None:
    started = time.perf_counter_ns()
    timer = fb.GlTimer()
    assert [frame(timer) for _ in range(timer.depth)] == [[]] * timer.depth
    context.finish()
    stages = frame(timer)
    assert tuple(stage.name for stage in stages) == STAGES
    now = time.perf_counter_ns()
    for clock in ("cpu", "gpu") if timer.has_gpu else ("cpu",):
        spans = [getattr(stage, clock) for stage in stages]
        assert all(start <= end for start, end in spans), clock
        assert [end for _, end in spans[:-1]] == [start for start, _ in spans[1:]], "each ends where the next begins"
        assert started - 1e8 < spans[0][0] and spans[-1][1] < now + 1e8, "both by perf_counter_ns, within 0.1 s"
    assert context.is_es or timer.has_gpu


def test_the_last_stage_ends_with_its_work_and_not_with_the_next_frame(context: fb.GlContext) -> None:
    timer = fb.GlTimer()
    frame(timer)
    time.sleep(0.3)
    asleep = time.perf_counter_ns()
    for _ in range(timer.depth - 1):
        frame(timer)
    context.finish()
    last = frame(timer)[-1]
    assert (last.gpu or last.cpu)[1] < asleep - 1e8, "the idle time that follows is no part of it"


def test_many_frames_make_no_queries_and_a_frame_of_many_stages_makes_them_once(context: fb.GlContext) -> None:
    gc.collect()
    context.objects.drain()
    before = context.objects.live["query"]
    timer = fb.GlTimer()
    made = context.objects.live["query"]
    for _ in range(20):
        frame(timer, tuple(f"stage {i}" for i in range(16)))
    assert context.objects.live["query"] == made
    many = tuple(f"stage {i}" for i in range(100))
    counts = [(frame(timer, many), context.objects.live["query"])[1] for _ in range(20)]
    assert len(set(counts[timer.depth :])) == 1, "each of the timer's frames has made queries once"
    assert not timer.has_gpu or counts[-1] >= made + (timer.depth + 1) * 84
    context.finish()
    stages = frame(timer)
    assert tuple(stage.name for stage in stages) == many
    assert all(one.cpu[1] == next_one.cpu[0] for one, next_one in pairwise(stages))
    del timer
    gc.collect()
    context.objects.drain()
    assert context.objects.live["query"] == before


@pytest.mark.parametrize("context", ["gles"], indirect=True)
def test_without_timer_queries_there_are_the_times_of_the_cpu(
    context: fb.GlContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "extensions", frozenset())
    timer = fb.GlTimer()
    assert not timer.has_gpu
    stages = [frame(timer) for _ in range(timer.depth + 1)][-1]
    assert [(stage.name, stage.gpu) for stage in stages] == [(name, None) for name in STAGES]
