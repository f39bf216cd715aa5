"""Time that a thread worked and waited beside the thread that owns the GL context."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class WorkTime:
    """Time of a thread that decodes or encodes, in seconds. It is complete when the source or sink is closed.

    Attributes
    ----------
    busy : float
        Time in which it worked, by the clock: also for the codec's own threads.
    waited : float
        Time in which it had nothing to do, or no room for what it did.
    cpu : float
        CPU time of the thread itself. The codec's own threads are not in it.

    Examples
    --------
    >>> work = fb.video.WorkTime(busy=1.5, waited=0.5)
    >>> print(f"busy for {work.busy / (work.busy + work.waited):.0%} of the time")
    busy for 75% of the time
    """

    busy: float = 0.0
    waited: float = 0.0
    cpu: float = 0.0

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time of the block as time that was waited."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.waited += time.perf_counter() - began

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Count the time of the block, the whole work of its thread; what is ``waiting`` in it is not busy."""
        began, cpu = time.perf_counter(), time.thread_time()
        try:
            yield
        finally:
            self.busy = time.perf_counter() - began - self.waited
            self.cpu = time.thread_time() - cpu
