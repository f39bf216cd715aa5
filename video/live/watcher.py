"""The watching of streams: one thread with a context takes the newest frame of each, and runs the task on it."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, TextIO

import framebind as fb

from ..copies import WATCHED_COPIES
from ..results.rows import make_rows
from ..session.bound_session import is_bound
from ..signals import raise_if_signalled
from ..work import Work
from .bound import open_bound
from .drawn import open_drawing
from .pictures import Pictures
from .stream import Stream, names_of
from .views import Viewer

_IDLE = 0.25
"""Seconds to wait for a frame before other things are seen to."""


def open_viewer(work: Work) -> contextlib.AbstractContextManager[Viewer]:
    """The viewer of a work: on CUDA if that is meant, or the best here, and the task needs no picture; else OpenGL."""
    return open_bound(work) if is_bound(work) else open_drawing(work)


class Watcher:
    """Streams, what they share, and the file of their rows. Use it on the thread of the viewer."""

    def __init__(self, viewer: Viewer, addresses: Sequence[str], options: fb.StreamOptions) -> None:
        self.viewer, self._ready = viewer, threading.Event()
        self.streams = [
            Stream(number, each, options, viewer, self._ready, name=name)
            for number, (each, name) in enumerate(zip(addresses, names_of(addresses), strict=True))
        ]
        self.pictures = [Pictures() for _ in addresses]

    def run(self, jsonl: Path | None, show: Callable[[], None], every: float = 1.0) -> None:
        """Watch until all streams are over, and call ``show`` every so many seconds.

        Rows go behind what the file has. Raises SourceError, ModelError.
        """
        with contextlib.ExitStack() as stack:
            stack.callback(self._stop)
            lines = stack.enter_context(_open(jsonl)) if jsonl else None
            last = time.perf_counter()
            while not all(stream.is_over for stream in self.streams):
                raise_if_signalled()
                self._ready.clear()
                if not any([self._step(stream, lines) for stream in self.streams]):
                    self._ready.wait(
                        min([stream.wait or _IDLE for stream in self.streams if not stream.is_over] or [0])
                    )
                if time.perf_counter() - last >= every:
                    last = time.perf_counter()
                    show()
                    if lines is not None:
                        lines.flush()

    def figures(self) -> list[dict[str, Any]]:
        """The figures of all streams, for JSON."""
        return [stream.snapshot().as_dict() for stream in self.streams]

    def _step(self, stream: Stream, lines: TextIO | None) -> bool:
        """Take a stream's newest frame, and run the task on it. Returns whether there was one."""
        # The first frame compiles and loads weights.
        is_free = not stream.latencies.count or (stream.source is not None and self.viewer.copies(stream.source))
        mode: Literal["allow", "disallow"] = "allow" if is_free else "disallow"
        with fb.transfer_guard(mode, exempt=WATCHED_COPIES):
            frame = stream.take()
            if frame is None or stream.source is None:
                return False
            if stream.view is None:
                stream.view = self.viewer.view(stream.source, stream.name)
            found = stream.view.find(frame)
            done = time.perf_counter()
            stream.latencies.add(done, done - stream.arrived)
            if lines is not None:
                _write(lines, stream, found, done - stream.arrived)
            if self.pictures[stream.number].are_wanted():
                self.pictures[stream.number].put(stream.view.pixels())
        return True

    def _stop(self) -> None:
        for stream in self.streams:
            stream.end_soon()
        for stream in self.streams:
            try:
                stream.stop()
            except fb.SourceError as error:
                stream.status = str(error)


def _write(lines: TextIO, stream: Stream, found: list[dict[str, Any]], latency: float) -> None:
    """Write the rows of a frame, with the time of day at which it came, and the seconds that its results took."""
    assert stream.source is not None
    at = datetime.fromtimestamp(time.time() - latency, timezone.utc).isoformat("T", "milliseconds")
    for row in make_rows(stream.name, stream.source.time, stream.latencies.count - 1, found):
        lines.write(json.dumps({**row, "at": at, "latency": round(latency, 4)}) + "\n")


def _open(path: Path) -> TextIO:
    try:
        return path.open("a", encoding="utf-8")
    except OSError as error:
        raise fb.SourceError(f"'{path}' cannot be written: {error.strerror}") from error
