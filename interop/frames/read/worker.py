"""The thread that decodes the frames of a source, from its start to its end."""

from __future__ import annotations

import threading
from typing import Any, Protocol

from ...errors import SourceError
from ..frame import Frame
from .files import AvReader
from .handover import Handover, Read, decode
from .readers import FrameReader


class Feed(Protocol):
    """The owner's side of the handover: makes frames of what the worker has decoded, in a slot of the ring."""

    def take(self, slot: int, *, mirror: bool) -> Frame:
        """The frame in a slot, without its times."""
        ...

    def release(self) -> None:
        """Free what the frames are in, when the worker has ended."""
        ...


class Worker:
    """A reader, the thread that decodes its frames once ``start`` is called, and the handover of these frames."""

    def __init__(self, reader: FrameReader, *, loop: bool) -> None:
        self._reader, self._loop = reader, loop
        self.handover: Handover[Any] = Handover(drop=reader.live)
        self._thread: threading.Thread | None = None

    def start(self, read: Read[Any], *, every: int, retry: float, ready: threading.Event | None) -> None:
        """Decode by ``read``, and hand over each frame of ``every``. See ``handover.decode``."""
        skip = self._reader.skip if isinstance(self._reader, AvReader) else None
        self._thread = threading.Thread(
            target=decode, args=(self._reader, self.handover, self._loop, retry),
            kwargs={"read": read, "every": every, "skip": skip}, name=f"framebind {self._reader.name}", daemon=True,
        )  # fmt: skip
        self.handover.ready = ready
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended, and the reader is closed. Raises SourceError if it hangs."""
        assert self._thread is not None, "it was started"
        self._thread.join(seconds)
        if self._thread.is_alive():
            raise SourceError(
                f"{self._reader.name} does not answer: its driver hangs in a read that cannot be interrupted"
            )
