"""Figures of the last frames, as sentences: frames per second, time of the model, bytes copied, latency."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Literal

import framebind as fb

from ...video.copies import copied_bytes
from .report import describe_copies

STAGES = {"inference": "the model takes", "copy": "copying", "draw": "drawing"}
"""The stages in the text, and their words. The others are in the file that --profile writes."""
_REFRESH_SECONDS = 0.25
"""Time between two changes of the text: figures that change with every frame cannot be read."""


class Figures:
    """Averages over the frames since the text was last written.

    ``runs_on`` says in words where the model runs, "" without one; it is called once, after the first frames.
    ``clock`` is the one whose times are shown: the CPU's for work of the CPU, which the GPU's clock does not see, and
    for a driver without timers.
    """

    def __init__(self, timer: fb.GlTimer, *, runs_on: Callable[[], str], clock: Literal["cpu", "gpu"]) -> None:
        self.text: list[str] = []
        self._runs_on, self._where = runs_on, ""
        self._uses_gpu_clock = clock == "gpu" and timer.has_gpu
        self._latency: float | None = None
        """Milliseconds from capture to the end of drawing; None if the source is not live."""
        self._captured: deque[float | None] = deque([None] * timer.depth)
        self._stages: Counter[str] = Counter()
        self._frames = self._timed = 0
        self._since, self._bytes = time.perf_counter(), copied_bytes()

    def add(self, stages: Sequence[fb.StageTime], captured: float | None) -> None:
        """Count one frame.

        ``stages`` are the times of the frame ``timer.depth`` frames ago. ``captured`` is when this frame was captured,
        by time.perf_counter; None if the source is not live.
        """
        self._captured.append(captured)
        captured_then = self._captured.popleft()
        for stage in stages:
            start, end = (stage.gpu if self._uses_gpu_clock else None) or stage.cpu
            self._stages[stage.name] += end - start
        if stages:
            self._timed += 1
            if captured_then is not None:
                self._latency = (stages[-1].gpu or stages[-1].cpu)[1] / 1e6 - captured_then * 1e3
        self._frames += 1
        if time.perf_counter() - self._since >= _REFRESH_SECONDS:
            self._write()

    def leave_out(self, seconds: float) -> None:
        """Leave out seconds that just passed."""
        self._since += seconds

    def _write(self) -> None:
        now, copied = time.perf_counter(), copied_bytes()
        self._where = self._where or self._runs_on()
        self.text = [
            f"{self._frames / (now - self._since):.1f} frames per second. {self._describe_stages()}",
            describe_copies({name: (copied[name] - self._bytes[name]) // self._frames for name in copied}),
        ]
        if self._latency is not None:
            self.text.append(f"{self._latency:.0f} ms from camera to screen.")
        self._stages.clear()
        self._frames = self._timed = 0
        self._since, self._bytes = now, copied

    def _describe_stages(self) -> str:
        words = [
            f"{word} {milliseconds(self._stages[name] / self._timed / 1e6)}"
            for name, word in STAGES.items()
            if self._stages[name]
        ]
        if not words:
            return f"The model runs {self._where}." if self._where else ""
        first, *others = words
        return f"{first[0].upper()}{', '.join([f'{first[1:]} {self._where}', *others])}."


def milliseconds(value: float) -> str:
    """A time with about three digits: "0.52 ms", "31.2 ms", "312 ms"."""
    return f"{value:.{0 if value >= 100 else 1 if value >= 1 else 2}f} ms"
