"""The newest frame of a camera: one thread writes, another one reads, and neither waits for the other."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .camera import FrameLayout


class TakenFrame(NamedTuple):
    """A frame: its number from 1, its bytes as ``FrameLayout.shape``, and the time at which it was captured."""

    number: int
    pixels: npt.NDArray[np.uint8]
    captured: float


class NewestFrame:
    """Three frames of memory: one that is written, the newest, and one that is read. Frames that nobody read in time
    are overwritten.
    """

    def __init__(self, layout: FrameLayout) -> None:
        self._changed = threading.Condition()
        self._memory = [np.zeros(layout.shape, np.uint8) for _ in range(3)]
        self._captured = [0.0] * 3
        self._newest = self._reading = 0
        self._number, self._is_closed = 0, False

    @contextlib.contextmanager
    def write(self, captured: float) -> Iterator[npt.NDArray[np.uint8]]:
        """Give memory for a frame, which is the newest from the end of the block on."""
        with self._changed:
            index = next(i for i in range(3) if i not in (self._newest, self._reading))
        yield self._memory[index]
        with self._changed:
            self._newest, self._captured[index] = index, captured
            self._number += 1
            self._changed.notify_all()

    def read(self, after: int, seconds: float) -> TakenFrame | None:
        """The newest frame, if it is behind number ``after``, unchanged until the next call. One thread reads.

        Waits for so many seconds at most; None if there is no newer one by then, or after ``close``.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._number > after or self._is_closed, seconds)
            if self._number <= after or self._is_closed:
                return None
            self._reading = self._newest
            return TakenFrame(self._number, self._memory[self._reading], self._captured[self._reading])

    def close(self) -> None:
        """End all waits."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
