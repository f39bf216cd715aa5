"""What is written over the picture in a window: the figures of the last frames, and the keys."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence

import framebind as fb

from .report import copied_bytes

KEYS = "space pause   s screenshot   r record   c copying mode   h figures   f full screen   m mirror   q quit"
STAGES = ("upload", "inference", "draw", "record", "show")
_REFRESH = 0.25
"""Seconds between two changes of the text: figures that change with every frame cannot be read."""
_LINE = 15
"""Height of a line in screen units; less where the window is small."""


class Figures:
    """Averages over the frames since the text was last written."""

    def __init__(self, timer: fb.GlTimer) -> None:
        self.clock = "GPU ms" if timer.has_gpu else "CPU ms (this driver has no GPU timers)"
        self.text: list[str] = []
        self.latency: float | None = None
        """Milliseconds from capture to the end of drawing; None where nothing is live."""
        self._captured: deque[float | None] = deque([None] * timer.depth)
        self._stages: Counter[str] = Counter()
        self._frames = self._timed = 0
        self._since, self._bytes = time.perf_counter(), copied_bytes()

    def add(self, stages: Sequence[fb.StageTime], captured: float | None) -> bool:
        """Take in a frame; ``stages`` are those of ``timer.depth`` frames ago. Whether the text is new."""
        self._captured.append(captured)
        then = self._captured.popleft()
        for stage in stages:
            start, end = stage.gpu or stage.cpu
            self._stages[stage.name] += end - start
        if stages:
            self._timed += 1
            if then is not None:
                self.latency = (stages[-1].gpu or stages[-1].cpu)[1] / 1e6 - then * 1e3
        self._frames += 1
        if time.perf_counter() - self._since < _REFRESH:
            return False
        self._write()
        return True

    def _write(self) -> None:
        now, copied = time.perf_counter(), copied_bytes()
        mean = (now - self._since) / self._frames
        stages = (f"{name} {self._stages[name] / self._timed / 1e6:.2f}" for name in STAGES if self._stages[name])
        each = {name: (copied[name] - self._bytes[name]) // self._frames for name in copied}
        parts = ", ".join(f"{count:,} {name}" for name, count in each.items() if count or name == "anything else")
        self.text = [
            f"{1 / mean:.1f} fps   {mean * 1e3:.1f} ms a frame",
            f"{self.clock}: {'   '.join(stages) or 'not known yet'}",
            f"host bytes a frame: {sum(each.values()):,} ({parts})",
        ]
        if self.latency is not None:
            self.text.append(f"capture to screen: {self.latency:.0f} ms")
        self._stages.clear()
        self._frames = self._timed = 0
        self._since, self._bytes = now, copied


def draw_hud(
    overlay: fb.Overlay, size: tuple[int, int], scale: float, top: Sequence[str], bottom: Sequence[str]
) -> None:
    """Lines at the top left and at the bottom left of a window of ``size`` pixels, on dark ground."""
    height = max(min(_LINE * scale, size[1] / 24), 9.0)
    for lines, at_top in ((top, True), (bottom, False)):
        lines = [line for line in lines if line]
        if lines:
            width, tall = max(overlay.text_width(line, height) for line in lines), height * (len(lines) + 0.5)
            shrunk, y = height * min(1.0, (size[0] - height) / width), 0.0 if at_top else size[1] - tall
            overlay.fill(0, y, min(width + height, size[0]), tall, (0.0, 0.0, 0.0, 0.45))
            for number, line in enumerate(lines):
                overlay.text(line, height / 2, y + height * (number + 0.25), height=shrunk)
