"""Laps: stretches of frames in one mode, bound or copying, and the totals of each mode."""

from __future__ import annotations

import time
from collections.abc import Sequence

import framebind as fb

from .figures import Figures
from .network import Network
from .report import Report, copied_bytes


class Laps:
    """Counts the frames of each mode, and keeps the figures of the last lap to compare with those of this one.

    A lap ends when the mode changes. ``figures`` are those of the lap that runs, ``compared`` is a line about the one
    before it, which was in the other mode.
    """

    def __init__(self, networks: Sequence[Network], timer: fb.GlTimer) -> None:
        self.compared = ""
        self._networks, self._timer = networks, timer
        self.restart()

    @property
    def copying(self) -> bool:
        """Whether the copying mode is on; see Network."""
        return any(network.copying for network in self._networks)

    @copying.setter
    def copying(self, copying: bool) -> None:
        for network in self._networks:
            network.copying = copying

    def restart(self) -> None:
        """Forget all frames so far and begin a lap."""
        self._bound, self._copying = Report(), Report()
        self._begin()

    def count_frame(self) -> None:
        """Count one frame of the mode that is on; called before it is drawn."""
        self._frames += 1

    def switch_mode(self) -> None:
        """End the lap and begin one in the other mode. The GPU must have finished the frames."""
        self._end()
        if self.figures.text:
            frames, _, copied, *_ = self.figures.text
            mode = "copying mode" if self.copying else "without copies"
            self.compared = f"({mode}: {frames}, {copied.partition(' (')[0]})"
        self.copying = not self.copying
        self._begin()

    def finish(self, *, dropped: int) -> Report:
        """End the last lap: the report of the run. ``dropped`` counts the frames that the source dropped."""
        self._end()
        report = self._bound if self._bound.frames else self._copying
        report.dropped = dropped
        report.copying = self._copying if self._bound.frames and self._copying.frames else None
        return report

    def _begin(self) -> None:
        self._frames, self._began, self._bytes = 0, time.perf_counter(), copied_bytes()
        self.figures = Figures(self._timer)

    def _end(self) -> None:
        copied = {name: count - self._bytes[name] for name, count in copied_bytes().items()}
        report = self._copying if self.copying else self._bound
        report.add(self._frames, time.perf_counter() - self._began, copied)
