"""The watching of streams: one thread with a context takes the newest frame of each, and runs the task on it."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, TextIO

import framebind as fb

from ..copies import WATCHED_COPIES
from ..session.road import is_on_cuda
from ..signals import raise_if_signalled
from ..work import Work
from .figures import Snapshot
from .pictures import Pictures
from .planes import open_planes_viewer
from .recording import SPACE, Recorder
from .result import WatchResult
from .stream import Stream, names_of
from .textures import open_textures_viewer
from .views import View, Viewer

_IDLE = 0.25
"""Seconds to wait for a frame before other things are seen to."""


def open_viewer(work: Work) -> contextlib.AbstractContextManager[Viewer]:
    """The viewer of a work: on CUDA if that is meant, or the best here, and the task needs no picture; else OpenGL."""
    return open_planes_viewer(work) if is_on_cuda(work) else open_textures_viewer(work)


class Watcher:
    """Streams, what they share, and the file of their rows. Use it on the thread of the viewer."""

    def __init__(
        self,
        viewer: Viewer,
        addresses: Sequence[str],
        options: fb.video.StreamOptions,
        *,
        folder: Path | None = None,
        space: float = SPACE,
    ) -> None:
        """``folder`` gets recordings of what is found, in at most ``space`` gigabytes. Raises SourceError."""
        self.viewer, self._ready = viewer, threading.Event()
        self._recorder = None if folder is None else Recorder(folder, names_of(addresses), space)
        self.streams = [
            Stream(number, each, options, viewer, self._ready, name=name)
            for number, (each, name) in enumerate(zip(addresses, names_of(addresses), strict=True))
        ]
        self.pictures = [Pictures() for _ in addresses]
        self._shown = [0 for _ in addresses]
        """The number of the result that is in each stream's last picture for the page, from 1."""

    def run(
        self, jsonl: Path | None, show: Callable[[], None], every: float = 1.0, *, all_frames: bool = False
    ) -> None:
        """Watch until all streams are over, and call ``show`` every so many seconds.

        Rows of what is found go behind what the file has; with ``all_frames`` a frame without results has a row, too.
        Raises SourceError, ModelError.
        """
        with contextlib.ExitStack() as stack:
            stack.callback(self.stop)
            lines = stack.enter_context(_open(jsonl)) if jsonl else None
            last = time.perf_counter()
            for result in self.results():
                if result is not None and lines is not None and (result.found or all_frames):
                    _write(lines, result)
                if time.perf_counter() - last >= every:
                    last = time.perf_counter()
                    show()
                    if lines is not None:
                        lines.flush()

    def results(self) -> Generator[WatchResult | None, None, None]:
        """Yield the result of each frame as soon as it is there, until all streams are over.

        None comes when no stream had a frame for a quarter of a second. Raises SourceError, ModelError.
        """
        while not all(stream.is_over for stream in self.streams):
            raise_if_signalled()
            self._ready.clear()
            is_idle = True
            for stream in self.streams:
                if (result := self._step(stream)) is not None:
                    is_idle = False
                    yield result
            if is_idle:
                waits = [stream.wait or _IDLE for stream in self.streams if not stream.is_over]
                self._ready.wait(min(waits, default=0))
                yield None

    def snapshots(self) -> list[Snapshot]:
        """The figures of all streams."""
        snapshots = [stream.snapshot() for stream in self.streams]
        if (recorder := self._recorder) is None:
            return snapshots
        return [
            replace(each, status=each.status or recorder.status(number), is_recorded=recorder.is_recording(number))
            for number, each in enumerate(snapshots)
        ]

    def figures(self) -> list[dict[str, Any]]:
        """The figures of all streams, for JSON."""
        return [each.as_dict() for each in self.snapshots()]

    def _step(self, stream: Stream) -> WatchResult | None:
        """Take a stream's newest frame, and run the task on it. Returns None if there is no new one."""
        # The first frame compiles and loads weights.
        is_free = not stream.latencies.count or (stream.source is not None and self.viewer.copies(stream.source))
        mode: Literal["allow", "disallow"] = "allow" if is_free else "disallow"
        with fb.transfer_guard(mode, exempt=WATCHED_COPIES):
            frame = stream.take()
            if frame is None or stream.source is None:
                self._show_last(stream)
                return None
            if stream.view is None:
                stream.view = self.viewer.view(stream.source, stream.name)
            found = stream.view.find(frame)
            done = time.perf_counter()
            latency = done - stream.arrived
            stream.latencies.add(done, latency)
            self._show(stream, stream.view, bool(found))
        at = datetime.fromtimestamp(time.time() - latency, timezone.utc)
        number = stream.latencies.count - 1
        return WatchResult(stream.name, number, stream.source.time, at, latency, found, stream.view)

    def _show(self, stream: Stream, view: View, is_found: bool) -> None:
        """Make the picture of a stream's newest result, if somebody looks or it is to be recorded."""
        recorder, number = self._recorder, stream.number
        is_wanted = self.pictures[number].are_wanted()
        is_recorded = recorder is not None and recorder.wants(number, is_found)
        if is_wanted or is_recorded:
            pixels = view.pixels()
            if is_wanted:
                self.pictures[number].put(pixels)
                self._shown[number] = stream.latencies.count
            if recorder is not None and is_recorded:
                recorder.put(number, pixels)

    def _show_last(self, stream: Stream) -> None:
        """Make the last picture of a stream that gives none any more, if somebody looks who has not seen it."""
        number, view = stream.number, stream.view
        is_new = stream.is_lost and self._shown[number] != stream.latencies.count
        if view is not None and is_new and self.pictures[number].are_wanted():
            self.pictures[number].put(view.pixels())
            self._shown[number] = stream.latencies.count

    def stop(self) -> None:
        """Close the streams, and complete the recordings."""
        for stream in self.streams:
            stream.end_soon()
        for stream in self.streams:
            try:
                stream.stop()
            except fb.SourceError as error:
                stream.status = str(error)
        if self._recorder is not None:
            self._recorder.close()


def _write(lines: TextIO, result: WatchResult) -> None:
    """Write the rows of a frame, with the time of day at which it came, and the seconds that its results took."""
    at = result.at.isoformat("T", "milliseconds")
    for row in result.rows:
        lines.write(json.dumps({**row, "at": at, "latency": round(result.latency, 4)}) + "\n")


def _open(path: Path) -> TextIO:
    try:
        return path.open("a", encoding="utf-8")
    except OSError as error:
        raise fb.SourceError(f"'{path}' cannot be written: {error.strerror}") from error
