"""One stream that is watched: opened on a thread of its own, and tried again, until it ends or is given up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import framebind as fb

from .figures import Latencies, Snapshot
from .views import View, Viewer

State = Literal["opening", "live", "ended", "failed"]
_PAUSE = 5.0
"""Seconds between two attempts to open a stream that has never been there."""


_OPENING = 12.0
"""Seconds to wait for an attempt to end."""


def name_of(address: str) -> str:
    """A stream's name for people, rows and the page: of an address without what may be secret, and without query."""
    if address.isdecimal():
        return f"camera {address}"
    if "://" not in address:
        return Path(address).name
    return fb.video.masked_address(address).partition("#")[0].partition("?")[0].replace("://***@", "://")


def names_of(addresses: Sequence[str]) -> list[str]:
    """The names of streams; those that only a folder or a query tells apart get numbers."""
    names = list(map(name_of, addresses))
    return [
        f"{name} ({before + 1})" if (before := names[:number].count(name)) else name
        for number, name in enumerate(names)
    ]


class Stream:
    """A camera, a stream's address or a file, with its source once it is open, its view and its figures.

    A file is played at its own rate.
    """

    def __init__(
        self,
        number: int,
        address: str,
        options: fb.video.StreamOptions,
        viewer: Viewer,
        ready: threading.Event,
        *,
        name: str,
    ) -> None:
        self.number, self._address, self._options, self._viewer = number, address, options, viewer
        self._ready = ready
        self.name, self.status = name, ""
        self.state: State = "opening"
        self.source: fb.video.Source | None = None
        self._frames: Iterator[fb.Frame | None] | None = None
        self.view: View | None = None
        """The pictures for the page; made when the first frame is there."""
        self.latencies = Latencies()
        self.arrived = 0.0
        """Time at which the packet of the last frame came, by time.perf_counter; of a file's, at which it was taken."""
        self._last: float | None = None
        """Time of day at which the last frame was taken."""
        self._due = 0.0
        self._counts = 0, 0, 0
        """Frames that were dropped, packets that were damaged, and reconnections of the sources before."""
        self._stopped = threading.Event()
        self._opener = self._start_opening()

    def _start_opening(self) -> threading.Thread:
        self.state = "opening"
        opener = threading.Thread(target=self._open, name=f"opens {self.name}", daemon=True)
        opener.start()
        return opener

    def _open(self) -> None:
        """Open the source; the opening thread's function."""
        began = time.perf_counter()
        while not self._stopped.is_set():
            try:
                source = self._viewer.open(self._address, self._options)
            except (fb.FramebindError, ValueError) as error:
                self.status = str(error)
                limit, passed = self._options.seconds, time.perf_counter() - began
                was_there = "://" in self._address or self.latencies.count
                if not was_there or (limit is not None and passed >= limit):
                    self.state = "failed"
                    break
                self._stopped.wait(_PAUSE)
                continue
            source.ready = self._ready
            self.source, self.status = source, ""
            break
        self._ready.set()

    def take(self) -> fb.Frame | None:
        """The newest frame, None if there is no new one, or that of a file is not due."""
        source, now = self.source, time.perf_counter()
        if source is None or self.state in ("ended", "failed") or now < self._due:
            return None
        try:
            self._frames = self._frames or self._viewer.frames(source)
            frame = next(self._frames, None)
        except fb.SourceError as error:
            self.status = str(error)
            if source.live and self._options.seconds is None:
                self._begin_anew(source)
            else:
                self.state = "failed"
            return None
        self.status = source.status
        if source.ended:
            self.state = "ended"
        if frame is not None:
            self.state, self._last = "live", time.time()
            self.arrived = source.captured if source.live else now
            if not source.live and source.fps:
                # A second late is late: the clock of a file begins anew.
                self._due = max(self._due, now - 1) + 1 / source.fps
        return frame

    def _begin_anew(self, source: fb.video.Source) -> None:
        """Open a camera again that gave no frame for a long time, or came back with frames of another size."""
        source.close()
        self._counts = self._all_counts()
        self.source = self.view = self._frames = None
        self._opener = self._start_opening()

    def _all_counts(self) -> tuple[int, int, int]:
        source, (dropped, damaged, reconnects) = self.source, self._counts
        if source is None:
            return dropped, damaged, reconnects
        return dropped + source.dropped, damaged + source.damaged, reconnects + source.reconnects

    @property
    def wait(self) -> float:
        """Seconds until a frame of a file is due; 0 for others."""
        return max(self._due - time.perf_counter(), 0.0)

    @property
    def is_over(self) -> bool:
        """True if no more frames come."""
        return self.state in ("ended", "failed")

    @property
    def is_lost(self) -> bool:
        """True if no frames come now: it is not open, has ended or failed, or waits for its server."""
        return self.state != "live" or bool(self.status)

    def end_soon(self) -> None:
        """Let its threads end, without waiting for them."""
        self._stopped.set()
        if self.source is not None:
            self.source.end_soon()

    def stop(self) -> None:
        """Wait until its threads have ended. Raises SourceError for one that hangs."""
        self.end_soon()
        self._opener.join(_OPENING)
        if self.source is not None:
            self.source.close()

    def snapshot(self) -> Snapshot:
        """The stream's figures now."""
        source = self.source
        state = "waiting" if self.state == "live" and self.is_lost else self.state
        return Snapshot(
            self.name, state, self.status, source.size if source else None,
            source.decoder if source else "", self.latencies.count, round(self.latencies.rate(), 1),
            self.latencies.quantile(0.5), self.latencies.quantile(0.95), *self._all_counts(),
            since=self._last if self.is_lost else None,
        )  # fmt: skip
