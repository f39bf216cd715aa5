"""Figures of the last frames, as lines of text: frame rate, time of each stage, bytes copied, latency."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence

import framebind as fb

from .report import copied_bytes

STAGES = ("upload", "inference", "draw", "record", "show")
_REFRESH_SECONDS = 0.25
"""Time between two changes of the text: figures that change with every frame cannot be read."""


class Figures:
    """Averages over the frames since the text was last written."""

    def __init__(self, timer: fb.GlTimer) -> None:
        self.clock = "GPU ms" if timer.has_gpu else "CPU ms (this driver has no GPU timers)"
        self.text: list[str] = []
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
            start, end = stage.gpu or stage.cpu
            self._stages[stage.name] += end - start
        if stages:
            self._timed += 1
            if captured_then is not None:
                self._latency = (stages[-1].gpu or stages[-1].cpu)[1] / 1e6 - captured_then * 1e3
        self._frames += 1
        if time.perf_counter() - self._since >= _REFRESH_SECONDS:
            self._write()

    def _write(self) -> None:
        now, copied = time.perf_counter(), copied_bytes()
        mean = (now - self._since) / self._frames
        stages = (f"{name} {self._stages[name] / self._timed / 1e6:.2f}" for name in STAGES if self._stages[name])
        per_frame = {name: (copied[name] - self._bytes[name]) // self._frames for name in copied}
        parts = ", ".join(f"{count:,} {name}" for name, count in per_frame.items() if count or name == "anything else")
        self.text = [
            f"{1 / mean:.1f} fps   {mean * 1e3:.1f} ms a frame",
            f"{self.clock}: {'   '.join(stages) or 'not known yet'}",
            f"host bytes a frame: {sum(per_frame.values()):,} ({parts})",
        ]
        if self._latency is not None:
            self.text.append(f"capture to screen: {self._latency:.0f} ms")
        self._stages.clear()
        self._frames = self._timed = 0
        self._since, self._bytes = now, copied
