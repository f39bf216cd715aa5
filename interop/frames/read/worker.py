"""The thread that decodes the frames of a source, from its start to its end."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any, Protocol

from ...errors import SourceError
from ..frame import Frame
from .dropping_queue import FrameQueue
from .frame_reader import FrameReader, Read, View
from .video_files import AvReader


@dataclass(frozen=True)
class Waits:
    """Times to wait for a camera or a stream, in seconds."""

    first_frame: float = 10.0
    """Seconds to wait for the first frame."""
    silence: float = 1.0
    """Seconds without a frame, after which the last one is given again."""
    held: float = 0.1
    """Seconds between two frames while the last one is given again and again."""
    lost: float = 60.0
    """Seconds without a frame, after which the camera is given up."""
    retry: float = 0.5
    """Seconds between two attempts to open the camera again."""
    end: float = 12.0
    """Seconds to wait for the worker to end: OpenCV waits up to 10 seconds for a frame of a camera."""


class Feed(Protocol):
    """The owner's side of the queue. It makes frames of what the worker has decoded, in a slot of the ring."""

    def take(self, slot: int, *, mirror: bool) -> Frame:
        """The frame in a slot, without its times."""
        ...

    def release(self) -> None:
        """Free what the frames are in, when the worker has ended."""
        ...


class Worker:
    """A reader, the thread that decodes its frames once ``start`` is called, and the queue of these frames."""

    def __init__(self, reader: FrameReader, *, loop: bool) -> None:
        self._reader, self._loop = reader, loop
        self.queue: FrameQueue[Any] = FrameQueue(drop=reader.live)
        self._thread: threading.Thread | None = None

    def start(self, read: Read[Any], *, every: int, retry: float, ready: threading.Event | None) -> None:
        """Decode by ``read``, and hand over each frame of ``every``. See ``decode``."""
        skip = self._reader.skip if isinstance(self._reader, AvReader) else None
        self._thread = threading.Thread(
            target=decode, args=(self._reader, self.queue, self._loop, retry),
            kwargs={"read": read, "every": every, "skip": skip}, name=f"framebind {self._reader.name}", daemon=True,
        )  # fmt: skip
        self.queue.ready = ready
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended, and the reader is closed. Raises SourceError if it hangs."""
        assert self._thread is not None, "it was started"
        self._thread.join(seconds)
        if self._thread.is_alive():
            raise SourceError(
                f"{self._reader.name} does not answer: its driver hangs in a read that cannot be interrupted"
            )


def decode(
    reader: FrameReader,
    queue: FrameQueue[View],
    loop: bool,
    retry: float,
    *,
    read: Read[View],
    every: int = 1,
    skip: Read[View] | None = None,
) -> None:
    """Decode until the source ends, fails or is stopped; the worker thread's function.

    ``read`` reads a frame into a slot. A camera that is gone is opened again each ``retry`` seconds. Each frame of
    ``every`` is handed over; ``skip`` leaves out those between, which are read if it is None.
    """
    between: list[Read[View]] = []
    with queue.work.measured():
        try:
            while (place := queue.fill()) is not None:
                slot, view = place
                if not all(_read(each, reader, queue, loop, retry, view) for each in (*between, read)):
                    break
                between = [skip or read] * (every - 1)
                captured = reader.captured
                queue.filled(slot, time.perf_counter() if captured is None else captured, reader.time)
            queue.end(None)
        except Exception as error:
            queue.end(error)
        except BaseException as error:  # SystemExit, for instance: it ends this thread, and its owner must not wait
            queue.end(SourceError(f"{reader.name} gives no more frames: its reader ended with {error!r}"))
            raise
        finally:
            reader.close()


def _read(read: Read[View], reader: FrameReader, queue: FrameQueue[View], loop: bool, retry: float, view: View) -> bool:
    """Read the next frame by ``read``: from the start again if ``loop``; of a camera that is gone, once it is back."""
    while not read(view):
        if reader.live:
            if queue.wait_stopped(retry if reader.retry is None else reader.retry):
                return False
            queue.reconnects += reader.reopen()
        elif not (loop and reader.reopen()):
            return False
    return True
