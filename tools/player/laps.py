"""Laps: stretches of frames in one mode (see Network), and the totals of each mode."""

from __future__ import annotations

import time
from collections.abc import Sequence

import framebind as fb

from ...video.copies import copied_bytes
from ...video.network import Mode, Network
from .figures import Figures
from .report import Report


class Laps:
    """Counts the frames of each mode, and keeps the figures of the last lap to compare with those of this one.

    A lap ends when the mode changes. ``figures`` are those of the current lap, ``compared`` is a line about the
    previous one, which was in another mode. The first of ``networks`` is the demo's model; there may be none.
    """

    def __init__(self, networks: Sequence[Network], timer: fb.GlTimer) -> None:
        self.compared = ""
        self._mode: Mode = "gpu"
        self._networks, self._timer = networks, timer
        self.restart()

    @property
    def mode(self) -> Mode:
        """The mode of all networks."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._mode = mode
        for network in self._networks:
            network.mode = mode

    def restart(self) -> None:
        """Forget all frames so far and begin a lap."""
        self._reports: dict[Mode, Report] = {}
        self._begin()

    def count_frame(self) -> None:
        """Count one frame of the current mode; called before it is drawn."""
        self._frames += 1

    def leave_out(self, seconds: float) -> None:
        """Leave out seconds that just passed, in which no frame was wanted."""
        self._began += seconds
        self.figures.leave_out(seconds)

    def switch_mode(self, mode: Mode) -> None:
        """End the lap and begin one in another mode. The GPU must have finished the frames."""
        self._end()
        if self.figures.text:
            self.compared = f"Before: {self.figures.text[0]}"
        self.mode = mode
        self._begin()

    def finish(self, *, dropped: int) -> Report:
        """End the last lap: the report of the run. ``dropped`` counts the frames that the source dropped."""
        self._end()
        reports: dict[Mode, Report] = {mode: report for mode, report in self._reports.items() if report.frames}
        report = reports.pop("gpu", None) or next(iter(reports.values()), Report())
        report.dropped = dropped
        others: dict[Mode, Report] = {mode: other for mode, other in reports.items() if other is not report}
        report.others = others
        return report

    def _begin(self) -> None:
        self._frames, self._began, self._bytes = 0, time.perf_counter(), copied_bytes()
        clock = "gpu" if self.mode == "gpu" else "cpu"
        self.figures = Figures(self._timer, runs_on=self._runs_on, clock=clock)

    def _runs_on(self) -> str:
        return self._networks[0].runs_on if self._networks else ""

    def _end(self) -> None:
        copied = {name: count - self._bytes[name] for name, count in copied_bytes().items()}
        report = self._reports.setdefault(self.mode, Report())
        report.add(self._frames, time.perf_counter() - self._began, copied)
