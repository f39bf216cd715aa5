"""The queue of frames between the decoding thread and the owner of the context. A live source's drops old frames."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic

from ..decode.thread_times import WorkTime
from .frame_reader import View

SLOTS = 3
"""Slots of the ring: one that is decoded into, one that is ready, one that the GPU reads."""
NOTHING_YET = -1
"""The slot number that ``FrameQueue.take`` returns on a timeout."""


class FrameQueue(Generic[View]):
    """The free and the filled slots of the ring, passed between the decoding worker and the owner of the context.

    With ``drop`` (cameras, live streams) the owner gets the newest frame, and the worker takes back the oldest filled
    slot if none is free.
    """

    def __init__(self, drop: bool) -> None:
        self._changed = threading.Condition()
        self._free: deque[int] = deque()
        self._filled: deque[int] = deque()
        self._views: dict[int, View] = {}
        self.captured = [0.0] * SLOTS
        self.times: list[float | None] = [None] * SLOTS
        self._drop, self._stopped, self._ended = drop, False, False
        self._error: Exception | None = None
        self.work = WorkTime()
        """The worker's time."""
        self.dropped = self.reconnects = 0
        self.ready: threading.Event | None = None

    def give(self, slot: int, view: View) -> None:
        """Owner: let the worker write the slot, whose memory is ``view``."""
        with self._changed:
            self._views[slot] = view
            self._free.append(slot)
            self._changed.notify_all()

    def take(self, timeout: float | None) -> int | None:
        """Owner: take the next filled slot; None at the end, NOTHING_YET on a timeout. Raises the worker's error."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._filled or self._ended or self._stopped, timeout):
                return NOTHING_YET
            if self._stopped:
                return None
            if self._filled:
                while self._drop and len(self._filled) > 1:
                    self._free.append(self._filled.popleft())
                    self.dropped += 1
                self._changed.notify_all()
                return self._filled.popleft()
            if self._error is not None:
                raise self._error
            return None

    def fill(self) -> tuple[int, View] | None:
        """Worker: take a slot to write, with its memory; None once stopped."""
        with self._changed:
            with self.work.waiting():
                self._changed.wait_for(lambda: self._free or (self._drop and self._filled) or self._stopped)
            if self._stopped:
                return None
            if self._free:
                slot = self._free.popleft()
            else:
                slot = self._filled.popleft()
                self.dropped += 1
            return slot, self._views[slot]

    def filled(self, slot: int, captured: float, time: float | None) -> None:
        """Worker: hand over a slot with the next frame, taken at ``captured``, and at ``time`` of its file's clock."""
        with self._changed:
            self.captured[slot], self.times[slot] = captured, time
            self._filled.append(slot)
            self._tell()

    def end(self, error: Exception | None) -> None:
        """Worker: say that there are no more frames, because of ``error`` if there is one."""
        with self._changed:
            self._ended, self._error = True, error
            self._tell()

    def _tell(self) -> None:
        """Worker: wake the owner, which waits here or, if it has several sources, at ``ready``."""
        self._changed.notify_all()
        if self.ready is not None:
            self.ready.set()

    def wait_stopped(self, timeout: float) -> bool:
        """Worker: sleep for ``timeout`` seconds, or until stopped. Returns whether it is stopped."""
        with self._changed:
            return self._changed.wait_for(lambda: self._stopped, timeout)

    def stop(self) -> None:
        """Either thread: end the waits of both."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
