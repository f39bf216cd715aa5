"""Retries of jobs, and of parts of videos, whose worker died: here or on a Ray cluster, a limited number of times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import framebind as fb

from .jobs import Finished, Job

MAX_ATTEMPTS = 3
"""Attempts at a job, after which it counts as one that no worker survives."""


class Retries:
    """The jobs that were lost with their workers, and how many times each."""

    def __init__(self) -> None:
        self._lost: Counter[Job] = Counter()

    def has_lost(self, jobs: Iterable[Job]) -> bool:
        """True if one of the jobs was lost before. It may be what ended its worker, so it gets one for itself."""
        return any(self._lost[job] for job in jobs)

    def failed(self, job: Job, why: str) -> Finished | None:
        """Note that the worker of a job died, ``why`` in words. Returns None if the job is done again, else its end."""
        self._lost[job] += 1
        if self._lost[job] < MAX_ATTEMPTS:
            return None
        source = fb.video.masked_address(job.source)
        return Finished(job, {"error": f"WorkerDied: {why}, {MAX_ATTEMPTS} times, and {source} is given up"})
