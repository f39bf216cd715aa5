"""The thread that encodes a video beside the thread that draws it, so that neither waits for the other's work."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar

from ..decode.thread_times import WorkTime

Frame = TypeVar("Frame")
_Taken = TypeVar("_Taken", contravariant=True)


class WrittenFile(Protocol[_Taken]):
    """A video file that takes frames: RGBA, or what it makes frames of."""

    def write(self, frame: _Taken, at: float | None = None, /) -> None: ...
    def finish(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Picture(Generic[Frame]):
    slot: int
    """The slot of the ring that holds the frame."""
    frame: Frame
    repeats: int
    time: float | None


class Writer(Generic[Frame]):
    """A thread that writes frames to a file in their order, and completes it.

    The frames are those of a ring: ``put`` lends one, and ``written`` gives its slot back. So the ring bounds the
    number of frames that wait. After an error it writes no more, and raises the error from ``put`` and ``close``.
    """

    def __init__(self, file: WrittenFile[Frame], name: str) -> None:
        self._state = _State(file)
        self._thread = threading.Thread(target=self._state.run, name=f"framebind writes {name}", daemon=True)
        self._thread.start()
        self._ended = False

    def put(self, slot: int, frame: Frame, repeats: int, time: float | None) -> None:
        """Lend a frame, which is written ``repeats`` times. Raises the error of an earlier one."""
        self._state.raise_error()
        self._state.pictures.put(_Picture(slot, frame, repeats, time))

    @property
    def work(self) -> WorkTime:
        """The thread's time."""
        return self._state.work

    def written(self) -> int:
        """Wait for the next frame that need not be kept any longer. Returns its slot."""
        return self._state.written.get()

    @property
    def has_written(self) -> bool:
        """Whether ``written`` would not wait."""
        return not self._state.written.empty()

    def end(self) -> None:
        """Take no more frames: the file is completed when all are written. May be called more than once."""
        if not self._ended:
            self._ended = True
            self._state.pictures.put(None)

    def close(self) -> None:
        """Wait until the file is complete. Raises the error of the first frame that failed, or that of the file."""
        self.end()
        if self._thread is not threading.current_thread():  # which may collect a sink that nobody closed
            self._thread.join()
        self._state.raise_error()

    def collected(self) -> None:
        """Complete the file of a sink that nobody closed. Raises an error that was not raised before."""
        if not self._state.is_raised:
            self.close()


class _State(Generic[Frame]):
    """The part of a writer that its thread holds, so that a writer that nobody holds can be collected."""

    def __init__(self, file: WrittenFile[Frame]) -> None:
        self._file = file
        self.pictures: SimpleQueue[_Picture[Frame] | None] = SimpleQueue()
        self.written: SimpleQueue[int] = SimpleQueue()
        self.error: BaseException | None = None
        self.is_raised = False
        self.work = WorkTime()

    def run(self) -> None:
        """Write until None comes, then complete the file."""
        with self.work.measured():
            while (picture := self._next()) is not None:
                try:
                    for _ in range(picture.repeats if self.error is None else 0):
                        self._file.write(picture.frame, picture.time)
                except BaseException as error:  # the owner raises it
                    self.error = error
                finally:
                    self.written.put(picture.slot)
            try:
                self._file.finish()
            except BaseException as error:
                self.error = self.error or error

    def _next(self) -> _Picture[Frame] | None:
        with self.work.waiting():
            return self.pictures.get()

    def raise_error(self) -> None:
        if self.error is not None:
            self.is_raised = True
            raise self.error
