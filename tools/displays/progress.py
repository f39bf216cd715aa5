"""Progress on a terminal: one bar for all inputs with an estimate, and one for each that is under way."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

import framebind as fb

from ...video.workers import jobs
from ...video.workers.jobs import Event, Finished, Job, Lost
from ..common.console import make_console, plain


@contextlib.contextmanager
def progress_bars(what: str, total: int) -> Iterator[Bars]:
    """Show bars on stderr until the block ends. ``what`` names the inputs: "videos"."""
    columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=make_console(stderr=True)) as progress:
        yield Bars(progress, what, total)


class Bars:
    """The bars by job. The one for all counts shares of inputs, so that it moves from the first frame on."""

    def __init__(self, progress: Progress, what: str, total: int) -> None:
        self._progress, self._what, self._total, self._finished = progress, what, total, 0
        self._all = progress.add_task(f"{what}: 0 of {total}", total=total)
        self._shares: dict[Job, float] = {}
        self._bars: dict[Job, TaskID] = {}

    def note(self, line: str) -> None:
        """Print a line above the bars. Printed in another way, it is overwritten by the bars."""
        self._progress.console.print(plain(line), soft_wrap=True)

    def show(self, event: Event) -> None:
        """Move the bars."""
        job = event.job
        if isinstance(event, jobs.Progress):
            self._shares[job] = event.share
            if job not in self._bars:
                self._bars[job] = self._progress.add_task(
                    plain(Path(fb.video.masked_address(job.source)).name).plain, total=1.0
                )
            self._progress.update(self._bars[job], completed=event.share)
        elif isinstance(event, Finished | Lost):
            self._shares.pop(job, None)
            if job in self._bars:
                self._progress.remove_task(self._bars.pop(job))
            self._finished += isinstance(event, Finished)
        done = self._finished + sum(self._shares.values())
        description = f"{self._what}: {self._finished} of {self._total}"
        self._progress.update(self._all, completed=done, description=description)
