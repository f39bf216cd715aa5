"""Seconds of each stage of a video, and of the waits between its threads."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import framebind as fb

WAIT = "wait for the decoder"
ORDER = (WAIT, "decode", "upload", "model", "draw", "read back")
"""Stages in the order of a frame's way."""


class Times:
    """Seconds of one video, by track: the thread that decodes, the thread with the context, the GPU, and the encoder's
    thread.

    The stages of the GPU, and of its thread, come from a ``fb.GlTimer``, some frames late, or from ``stage``.
    """

    def __init__(self) -> None:
        self._began, self._cpu, self._seconds = time.perf_counter(), time.thread_time(), 0.0
        self._thread, self._gpu = defaultdict[str, float](float), defaultdict[str, float](float)
        self._inner = self._for_encoder = 0.0
        self._decoder: fb.video.WorkTime | None = None
        self._encoder: fb.video.WorkTime | None = None
        self._painter: fb.video.WorkTime | None = None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time of the block, without the time of stages inside it."""
        began, before, self._inner = time.perf_counter(), self._inner, 0.0
        try:
            yield
        finally:
            took = time.perf_counter() - began
            self._thread[name] += took - self._inner
            self._inner = before + took

    def add(self, stages: Sequence[fb.StageTime]) -> None:
        """Add the stages of a frame. The upload of a frame is a part of the wait for it."""
        for stage in stages:
            name = "model" if stage.name == "inference" else stage.name
            seconds = (stage.cpu[1] - stage.cpu[0]) / 1e9
            self._thread[name] += seconds
            if name == "upload":
                self._thread[WAIT] -= seconds
            if stage.gpu is not None:
                self._gpu[name] += (stage.gpu[1] - stage.gpu[0]) / 1e9

    def end(self, timer: fb.GlTimer | None = None, reader: fb.video.Source | None = None) -> None:
        """End the thread's part, and add the frames that the timer still has, and the source."""
        if timer is not None:
            timer.context.finish()  # the timer leaves out frames that the GPU still works on
            for _ in range(timer.depth):
                self.add(timer.end())
        self._decoder = None if reader is None else reader.decoding
        self._seconds, self._cpu = time.perf_counter() - self._began, time.thread_time() - self._cpu

    def encoded(self, sink: fb.video.VideoWriter) -> None:
        """Add a video's sink, which is closed."""
        self._encoder, self._for_encoder = sink.encoding, sink.waited

    def painted(self, video: fb.video.VideoWriter) -> None:
        """Add a video with a thread that paints, which is closed."""
        self._encoder, self._for_encoder, self._painter = video.encoding, video.waited, video.painting

    def tracks(self) -> dict[str, dict[str, Any]]:
        """Seconds by track, as values for JSON; "cpu" is the CPU time of the track's own thread.

        All tracks have the seconds of the thread with the context, until it ended: the encoder may go on after it.
        """
        seconds, tracks = self._seconds, dict[str, dict[str, float]]()
        if self._decoder is not None:
            tracks["decoder"] = _worker("decode", self._decoder, seconds)
        thread = tracks["thread"] = {name: self._thread[name] for name in ORDER if name in self._thread}
        if self._for_encoder:
            if "read back" in thread:
                thread["read back"] -= self._for_encoder
            thread["wait for the encoder"] = self._for_encoder
        thread["other"] = seconds - sum(thread.values())
        thread["cpu"] = self._cpu
        if self._gpu:
            tracks["GPU"] = {name: self._gpu[name] for name in ORDER if name in self._gpu}
            tracks["GPU"]["idle"] = seconds - sum(tracks["GPU"].values())
        if self._painter is not None:
            tracks["painter"] = _worker("draw", self._painter, seconds)
        if self._encoder is not None:
            tracks["encoder"] = _worker("encode", self._encoder, seconds)
        return {
            track: {name: round(max(each, 0.0), 4) for name, each in parts.items()} for track, parts in tracks.items()
        }


def _worker(name: str, work: fb.video.WorkTime, seconds: float) -> dict[str, float]:
    return {name: work.busy, "wait": seconds - work.busy, "cpu": work.cpu}
