"""What is written over the picture in a window: the figures of the last frames, and the keys."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

import framebind as fb

from .report import copied_bytes

KEYS = "space pause   s screenshot   r record   c copying mode   h figures   f full screen   m mirror   q quit"
STAGES = ("upload", "inference", "draw", "record", "show")
_REFRESH = 0.25
"""Seconds between two changes of the text: figures that change with every frame cannot be read."""
_LINE = 15
"""Height of a line in screen units; less where the window is small."""
_READABLE = 9.0
"""Pixels that a line needs to be read."""
_GAP = "   "
"""Between the parts of a line."""


class Figures:
    """Averages over the frames since the text was last written."""

    def __init__(self, timer: fb.GlTimer) -> None:
        self.clock = "GPU ms" if timer.has_gpu else "CPU ms (this driver has no GPU timers)"
        self.text: list[str] = []
        self._latency: float | None = None
        """Milliseconds from capture to the end of drawing; None where nothing is live."""
        self._captured: deque[float | None] = deque([None] * timer.depth)
        self._stages: Counter[str] = Counter()
        self._frames = self._timed = 0
        self._since, self._bytes = time.perf_counter(), copied_bytes()

    def add(self, stages: Sequence[fb.StageTime], captured: float | None) -> None:
        """Take in a frame that was captured then (by time.perf_counter; None where nothing is live).

        ``stages`` are those of ``timer.depth`` frames ago.
        """
        self._captured.append(captured)
        then = self._captured.popleft()
        for stage in stages:
            start, end = stage.gpu or stage.cpu
            self._stages[stage.name] += end - start
        if stages:
            self._timed += 1
            if then is not None:
                self._latency = (stages[-1].gpu or stages[-1].cpu)[1] / 1e6 - then * 1e3
        self._frames += 1
        if time.perf_counter() - self._since >= _REFRESH:
            self._write()

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
        if self._latency is not None:
            self.text.append(f"capture to screen: {self._latency:.0f} ms")
        self._stages.clear()
        self._frames = self._timed = 0
        self._since, self._bytes = now, copied


def draw_hud(
    overlay: fb.Overlay, size: tuple[int, int], right: float, scale: float, top: Sequence[str], bottom: Sequence[str]
) -> None:
    """Lines at the top left and at the bottom left of a window of ``size`` pixels, on dark ground, up to ``right``."""
    height = max(min(_LINE * scale, size[1] / 24), _READABLE)
    for texts, at_top in ((top, True), (bottom, False)):
        lines = [line for text in texts if text for line in _fit(overlay, text, height, right - height)]
        if lines:
            width, tall = max(line.width for line in lines) + height, height * (len(lines) + 0.5)
            y = 0.0 if at_top else size[1] - tall
            overlay.fill(0, y, width, tall, (0.0, 0.0, 0.0, 0.45))
            for number, line in enumerate(lines):
                overlay.text(line.text, height / 2, y + height * (number + 0.25), height=line.height)


class _Line(NamedTuple):
    text: str
    height: float
    width: float


def _fit(overlay: fb.Overlay, text: str, height: float, width: float) -> list[_Line]:
    """The text made to fit; parted in two where it could not be read else, but in tiny windows."""

    def fitted(part: str) -> _Line:
        natural = overlay.text_width(part, height)
        shrunk = min(1.0, width / natural)
        return _Line(part, height * shrunk, natural * shrunk)

    line = fitted(text)
    if line.height >= _READABLE or height == _READABLE or _GAP not in text:
        return [line]
    gaps = [at for at in range(len(text)) if text.startswith(_GAP, at)]
    middle = min(gaps, key=lambda at: abs(at - len(text) / 2))
    return [fitted(text[:middle]), fitted(text[middle:].strip())]


def room_beside(column: float, picture: tuple[int, int], window: tuple[int, int]) -> float:
    """Where a column at the right edge of a picture begins in a window that shows it as large as fits.

    Sizes are (width, height) in pixels, ``column`` is in those of the picture. Where there is none, or where it takes
    more than half of the window, it is the window's own edge.
    """
    scale = min(window[0] / picture[0], window[1] / picture[1])
    begins = window[0] / 2 + (picture[0] / 2 - column) * scale
    return begins if column and begins >= window[0] / 2 else float(window[0])
