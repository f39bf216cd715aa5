"""A thread that works on a video's frames beside the thread that makes them, so that neither waits for the other."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, TypeVar

from ..decode.thread_times import WorkTime

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class _Given(Generic[Item]):
    slot: int
    """The slot that the frame takes."""
    item: Item
    repeats: int
    time: float | None


class Writer(Generic[Item]):
    """A thread that calls ``write(frame, time)`` for frames in their order, and at the end ``finish()``.

    The frames take slots: ``put`` lends one, and ``written`` gives its slot back. So slots bound the number of frames
    that wait. After an error it writes no more, and raises the error from ``put`` and ``close``.
    """

    def __init__(self, write: Callable[[Item, float | None], None], finish: Callable[[], None], name: str) -> None:
        self._state = _State(write, finish)
        self._thread = threading.Thread(target=self._state.run, name=f"framebind writes {name}", daemon=True)
        self._thread.start()
        self._ended = False

    def put(self, slot: int, item: Item, repeats: int, time: float | None) -> None:
        """Lend a frame, which is written ``repeats`` times. Raises the error of an earlier one."""
        self._state.raise_error()
        self._state.given.put(_Given(slot, item, repeats, time))

    @property
    def work(self) -> WorkTime:
        """The thread's time."""
        return self._state.work

    def written(self) -> int:
        """Wait for the next frame that need not be kept any longer. Returns its slot."""
        return self._state.written.get()

    @property
    def has_written(self) -> bool:
        """Whether a slot is back already, so that ``written`` does not wait."""
        return not self._state.written.empty()

    def end(self) -> None:
        """Take no more frames: ``finish`` is called when all are written. May be called more than once."""
        if not self._ended:
            self._ended = True
            self._state.given.put(None)

    def close(self) -> None:
        """Wait until all is written. Raises the error of the first frame that failed, or that of ``finish``."""
        self.end()
        if self._thread is not threading.current_thread():  # which may collect a video that nobody closed
            self._thread.join()
        self._state.raise_error()

    def collected(self) -> None:
        """Complete the file of a video that nobody closed. Raises an error that was not raised before."""
        if not self._state.is_raised:
            self.close()


class _State(Generic[Item]):
    """The part of a writer that its thread holds, so that a writer that nobody holds can be collected."""

    def __init__(self, write: Callable[[Item, float | None], None], finish: Callable[[], None]) -> None:
        self._write, self._finish = write, finish
        self.given: SimpleQueue[_Given[Item] | None] = SimpleQueue()
        self.written: SimpleQueue[int] = SimpleQueue()
        self.error: BaseException | None = None
        self.is_raised = False
        self.work = WorkTime()

    def run(self) -> None:
        """Write until None comes, then finish."""
        with self.work.measured():
            while (given := self._next()) is not None:
                try:
                    for _ in range(given.repeats if self.error is None else 0):
                        self._write(given.item, given.time)
                except BaseException as error:  # the owner raises it
                    self.error = error
                finally:
                    self.written.put(given.slot)
                    del given  # nor is the frame kept while this waits for the next one
            try:
                self._finish()
            except BaseException as error:
                self.error = self.error or error

    def _next(self) -> _Given[Item] | None:
        with self.work.waiting():
            return self.given.get()

    def raise_error(self) -> None:
        if self.error is not None:
            self.is_raised = True
            raise self.error


class Slots:
    """The slots that bound the number of frames that wait for a writer."""

    def __init__(self, count: int, writer: Writer[Item]) -> None:
        self._free, self._writer = deque(range(count)), writer
        self.waited = 0.0
        """Seconds that ``take`` waited for the writer."""

    def take(self) -> int:
        """The number of a free slot. Waits if there is none."""
        while self._writer.has_written:
            self._free.append(self._writer.written())
        if not self._free:
            began = time.perf_counter()
            self._free.append(self._writer.written())
            self.waited += time.perf_counter() - began
        return self._free.popleft()
