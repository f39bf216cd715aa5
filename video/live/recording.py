"""Videos of what is found in streams: from some seconds before it until some seconds after, in bounded disk space."""

from __future__ import annotations

import contextlib
import logging
import queue
import re
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy.typing as npt

import framebind as fb

from .pictures import as_jpeg, from_jpeg

log = logging.getLogger("framebind")

BEFORE = AFTER = 3.0
"""Seconds that a recording has before the first thing that was found, and after the last one."""
LONGEST = 300.0
"""Seconds after which a recording goes on in another file."""
SPACE = 10.0
"""Most gigabytes of recordings in a folder, unless the user gives another number."""
RATE = 15.0
"""Most pictures per second."""
_WAITING = 32
"""Most pictures that wait for the thread that writes; more are left out."""
_LOOK_EVERY = 1.0
"""Seconds without a picture after which the thread looks at what is over."""
_TRIM_EVERY = 10.0
"""Seconds between two looks at the space that the files take."""
_RETRY = 10.0
"""Seconds until the next attempt after a file could not be written."""
_OURS = re.compile(r".+-\d{8}T\d{6}\.\d{3}Z(-\d+)?\.mp4")
"""Names of recordings: no other file of the folder is counted or removed."""
_UNFINISHED = ".unfinished.mp4"
_STALE = 2 * LONGEST
"""Seconds without a change after which an unfinished file is one that a killed program left."""
_GIGA = 1e9


@dataclass(frozen=True)
class Picture:
    stream: int
    pixels: npt.NDArray[Any]
    time: float
    """Seconds by time.perf_counter."""
    is_found: bool


class Recorder:
    """Recordings of streams, by number. One thread puts pictures; another one, which this starts, writes them.

    Parameters
    ----------
    folder : Path
        Where recordings go: ``NAME-20261126T110739.250Z.mp4``, the stream's name and the time of the first picture.
    names : sequence of str
        The streams' names.
    space : float
        Most gigabytes that recordings in the folder take. The oldest ones are removed for new ones.

    Raises
    ------
    SourceError
        If there is no such folder, and none can be made.
    """

    def __init__(self, folder: Path, names: Sequence[str], space: float) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise fb.SourceError(f"'{folder}' takes no recordings: {error.strerror}") from error
        self._tapes = [Tape(folder, name) for name in names]
        self._folder, self._space, self._trimmed = folder, space * _GIGA, float("-inf")
        self._pictures: queue.Queue[Picture | None] = queue.Queue(_WAITING)
        self._last = [float("-inf")] * len(names)
        self._is_found, self._was_found = [False] * len(names), [False] * len(names)
        """True if something was found since each stream's last picture, and in its newest frame."""
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="framebind records", daemon=True)
        self._thread.start()

    def wants(self, stream: int, is_found: bool) -> bool:
        """Note whether something was found in a stream's newest frame. Returns whether its picture is to be put.

        The first frame in which something is found is wanted in any case: it may be the only one.
        """
        is_first = is_found and not self._was_found[stream]
        self._is_found[stream] |= is_found
        self._was_found[stream] = is_found
        return is_first or time.perf_counter() - self._last[stream] >= 1 / RATE

    def put(self, stream: int, pixels: npt.NDArray[Any]) -> None:
        """Take a picture, RGBA of (height, width, 4). It is left out if too many wait."""
        now = time.perf_counter()
        with contextlib.suppress(queue.Full):
            self._pictures.put_nowait(Picture(stream, pixels, now, self._is_found[stream]))
            self._last[stream], self._is_found[stream] = now, False

    def is_recording(self, stream: int) -> bool:
        """True while the stream is recorded."""
        return self._tapes[stream].is_recording

    def status(self, stream: int) -> str:
        """The reason why the stream's last recording failed, or ""."""
        return self._tapes[stream].status

    def close(self) -> None:
        """Complete all recordings."""
        self._is_closing.set()
        with contextlib.suppress(queue.Full):
            self._pictures.put_nowait(None)  # it need not wait for its next look at the event
        self._thread.join()

    def _run(self) -> None:
        while not (self._is_closing.is_set() and self._pictures.empty()):
            with contextlib.suppress(queue.Empty):
                if (picture := self._pictures.get(timeout=_LOOK_EVERY)) is not None:
                    self._tapes[picture.stream].add(picture)
            self._end_old(time.perf_counter())
        self._finish_all()
        self._trim()

    def _end_old(self, now: float) -> None:
        """Complete recordings of streams that give no pictures, and look after the space now and then."""
        for tape in self._tapes:
            tape.end_if_over(now)
        if now - self._trimmed >= _TRIM_EVERY:
            self._trimmed = now
            if self._trim():
                self._finish_all()

    def _finish_all(self) -> None:
        for tape in self._tapes:
            tape.finish()

    def _trim(self) -> bool:
        """Remove the oldest recordings above the space. Returns whether those that go on take more than it alone."""
        total, finished = 0, list[tuple[float, int, Path]]()
        for path in self._folder.iterdir():
            with contextlib.suppress(OSError):  # it was completed or removed at this moment
                about = path.stat()
                if _OURS.fullmatch(path.name):
                    finished.append((about.st_mtime, about.st_size, path))
                elif not path.name.endswith(_UNFINISHED):
                    continue
                elif time.time() - about.st_mtime > _STALE:
                    path.unlink()
                    continue
                total += about.st_size
        for _, size, path in sorted(finished):
            if total > self._space:
                path.unlink(missing_ok=True)
                total -= size
        return total > self._space


class Tape:
    """The recording of one stream, on the thread that writes, and the last pictures before it as JPEG files."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = re.sub(r"[^\w.]+", "-", name).strip("-.")[:80] or "stream"
        self._before: deque[tuple[float, bytes]] = deque()
        self._video: fb.video.VideoWriter | None = None
        self._shape: tuple[int, ...] = ()
        self._began, self._until, self._retry = 0.0, float("-inf"), float("-inf")
        self.status = ""

    @property
    def is_recording(self) -> bool:
        return self._video is not None

    def add(self, picture: Picture) -> None:
        """Record a picture, or keep it for what may be found soon."""
        if picture.is_found:
            self._until = picture.time + AFTER
        if picture.time > self._until or picture.time < self._retry:
            self.finish()
            self._keep(picture)
            return
        try:
            if self._video is None or picture.pixels.shape != self._shape:
                self.finish()
                self._begin(picture)
            self._write(picture.pixels, picture.time)
        except fb.SourceError as error:
            self._fail(error)
        if picture.time - self._began >= LONGEST:
            self.finish()

    def end_if_over(self, now: float) -> None:
        """Complete the recording if its last seconds are over."""
        if now > self._until + _LOOK_EVERY:
            self.finish()

    def finish(self) -> None:
        """Complete the recording, if one goes on."""
        video, self._video = self._video, None
        if video is not None:
            try:
                video.close()
            except fb.SourceError as error:
                self._fail(error)

    def _keep(self, picture: Picture) -> None:
        self._before.append((picture.time, as_jpeg(picture.pixels)))
        while self._before[0][0] < picture.time - BEFORE:
            self._before.popleft()

    def _begin(self, picture: Picture) -> None:
        """Open a file, and write the pictures of the seconds before. Raises SourceError."""
        kept = [(at, from_jpeg(jpeg)) for at, jpeg in self._before if at >= picture.time - BEFORE]
        self._before.clear()
        kept = [(at, pixels) for at, pixels in kept if pixels.shape == picture.pixels.shape]
        self._began = kept[0][0] if kept else picture.time
        self._shape = picture.pixels.shape
        height, width = self._shape[:2]
        began = datetime.fromtimestamp(time.time() - (time.perf_counter() - self._began), timezone.utc)
        self._video = fb.video.VideoWriter(self._new_path(began), (width, height), RATE, live=True)
        self.status = ""
        for at, pixels in kept:
            self._write(pixels, at)

    def _new_path(self, began: datetime) -> Path:
        stem, number = f"{self._name}-{began:%Y%m%dT%H%M%S}.{began.microsecond // 1000:03d}Z", 1
        path = self._folder / f"{stem}.mp4"
        while path.exists():
            number += 1
            path = self._folder / f"{stem}-{number}.mp4"
        return path

    def _write(self, pixels: npt.NDArray[Any], at: float) -> None:
        assert self._video is not None
        self._video.put(pixels, time=at - self._began)

    def _fail(self, error: fb.SourceError) -> None:
        """Note why there is no recording; the next attempt is made some seconds later."""
        self.status, self._retry = f"not recorded: {error}", time.perf_counter() + _RETRY
        log.warning("%s", self.status)
        video, self._video = self._video, None
        if video is not None:
            with contextlib.suppress(fb.SourceError):  # the same error once more
                video.close()
