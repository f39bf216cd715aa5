"""The watching of streams: one thread with a GL context takes the newest frame of each, and runs the task on it."""

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

from ..player.signals import raise_if_signalled
from ..player.task import Scene
from ..processing.rows import make_rows
from ..processing.session import COPIES
from ..processing.tasks import model_of, prepare
from ..processing.work import Work
from .networks import Networks
from .pictures import WEB_PICTURE, Pictures, Shrinker
from .stream import Stream

_IDLE = 0.25
"""Seconds to wait for a frame before other things are seen to."""


class Watcher:
    """Streams, the networks that they share, and the file of their rows. Use it on the thread of its GL context."""

    def __init__(self, context: fb.GlContext, work: Work, addresses: Sequence[str], options: fb.StreamOptions) -> None:
        self._context, self._work = context, work
        self._ready, self._timer = threading.Event(), fb.GlTimer()
        self.networks = Networks(work.flags, self._timer)
        self.streams = [Stream(number, each, options, self._ready) for number, each in enumerate(addresses)]
        self.pictures = [Pictures() for _ in addresses]
        self._overlay = fb.Overlay()
        self._shrinkers: dict[tuple[int, int], Shrinker] = {}

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
        mode: Literal["allow", "disallow"] = "disallow" if stream.latencies.count else "allow"
        with fb.transfer_guard(mode, exempt=(*COPIES, WEB_PICTURE)):
            frame = stream.take(self._context)
            if frame is None or stream.source is None:
                return False
            if stream.task is None or stream.picture is None:
                stream.picture = fb.GlTexture(*stream.source.size, "rgba8", label=f"the picture of {stream.name}")
                lane = self.networks.lane(model_of(self._work))
                stream.task = prepare(self._work, Scene(lane, stream.picture, self.networks.lane))
            stream.task.draw(frame)
            found = stream.task.results() if stream.task.results else []
            if stream.task.results is None:
                self._context.finish()  # the picture is the result
            done = time.perf_counter()
            stream.latencies.add(done, done - stream.arrived)
            if lines is not None:
                _write(lines, stream, found, done - stream.arrived)
            self._show(stream, stream.picture)
            self._timer.end()
        return True

    def _show(self, stream: Stream, picture: fb.GlTexture) -> None:
        """Read the picture back for those who look at it."""
        pictures = self.pictures[stream.number]
        if not pictures.are_wanted() or stream.task is None:
            return
        if stream.task.overlay is not None:
            stream.task.overlay(self._overlay)
            self._overlay.draw(picture)
        if picture.size not in self._shrinkers:
            self._shrinkers[picture.size] = Shrinker(picture.size)
        pictures.put(self._shrinkers[picture.size].read(picture))

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
