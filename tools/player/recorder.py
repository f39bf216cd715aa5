"""Writes the pictures of a run to files: videos, and single pictures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import framebind as fb

_FASTEST = 60.0
"""Most pictures per second of a recording: without vsync a GPU draws a thousand."""
_WITHOUT_TIMES = (".avi", ".png")
"""Suffixes of files that keep no times of pictures."""


@dataclass
class _Clock:
    """The time of a recording since its first picture, which stands still while the player is paused."""

    now: Callable[[], float]
    left_out: float | None = None
    """Seconds of ``now`` that are not the recording's: those before its first picture, and those of pauses."""
    seen: float = 0.0
    """The value of ``now`` at the last picture or in the last pause."""

    def tick(self) -> float:
        """The seconds of the recording now; 0 at first."""
        self.seen = self.now()
        if self.left_out is None:
            self.left_out = self.seen
        return self.seen - self.left_out

    def hold(self) -> None:
        """Leave out the time since the last picture."""
        if self.left_out is not None:
            now = self.now()
            self.left_out, self.seen = self.left_out + now - self.seen, now


@dataclass
class _File:
    path: Path
    video: fb.video.VideoWriter
    clock: _Clock | None
    """The clock that gives pictures their times; None if each picture is one frame of the file's rate."""
    pictures: int = 0
    """Number of pictures that were written to it."""
    last: float = float("-inf")
    """Seconds at which the last picture is."""


class Recorder:
    """The files of one run. Files given to ``open`` get every picture; keys start and stop one more, and take
    screenshots, in the current folder. Raises SourceError for a file that cannot be written.

    A recording by key, and one of a ``live`` source, lasts as long as it took: each picture has the time at which it
    was drawn, without the player's pauses. Of other sources each picture is a frame of ``fps``. ``now`` gives seconds.
    """

    def __init__(
        self, picture: fb.GlTexture, *, fps: float, live: bool, now: Callable[[], float] = time.perf_counter
    ) -> None:
        self.written: list[Path] = []
        """The files that are complete, in the order of their completion."""
        self._picture, self._fps, self._live, self._now = picture, fps, live, now
        self._files: list[_File] = []
        self._recording: _File | None = None

    @property
    def is_recording(self) -> bool:
        """True if pictures go to any file."""
        return bool(self._files)

    def open(self, path: Path) -> None:
        """Write every picture from now on to this file."""
        self._open(path, timed=self._live and path.suffix.lower() not in _WITHOUT_TIMES)

    def put(self) -> None:
        """Write the picture to all open files."""
        for file in self._files:
            self._put(file)

    def hold(self) -> None:
        """Let no time pass in the recordings: the player is paused."""
        for file in self._files:
            if file.clock is not None:
                file.clock.hold()

    def toggle_recording(self) -> str:
        """Start a video that is named after this moment, or finish it. Returns a note for the user."""
        recording, self._recording = self._recording, None
        if recording is not None:
            self._close(recording)
            return "recording stopped"
        path = _new_path(".mp4")
        self._recording = self._open(path, timed=True)
        self._put(self._recording)
        return f"recording {path}"

    def take_screenshot(self) -> str:
        """Write the picture to a file that is named after this moment. Returns a note for the user."""
        path = _new_path(".png")
        with fb.video.VideoWriter(path) as file:
            file.put(self._picture)
        self.written.append(path)
        return f"wrote {path}"

    def close(self) -> None:
        """Finish all files; then raise SourceError if any of them failed. May be called more than once."""
        failed: list[fb.SourceError] = []
        while self._files:
            try:
                self._close(self._files[0])
            except fb.SourceError as error:
                failed.append(error)
        if failed:
            raise fb.SourceError("; ".join(map(str, failed))) from failed[0]

    def _open(self, path: Path, *, timed: bool) -> _File:
        picture = self._picture
        video = fb.video.VideoWriter(path, picture.size, self._fps, live=self._live or timed)
        file = _File(path, video, _Clock(self._now) if timed else None)
        self._files.append(file)
        return file

    def _put(self, file: _File) -> None:
        """Write the picture to a file, but to one with times at most so many per second."""
        seconds = None if file.clock is None else file.clock.tick()
        if seconds is None or seconds - file.last >= 1 / _FASTEST:
            file.video.put(self._picture, time=seconds)
            file.pictures, file.last = file.pictures + 1, seconds or 0.0

    def _close(self, file: _File) -> None:
        """Finish a file. The last picture is in it until now."""
        self._files.remove(file)
        try:
            if file.clock is not None and file.pictures:
                last = file.clock.tick() - 1 / self._fps  # a frame lasts so long
                if last - file.last >= 1 / self._fps:
                    file.video.put(self._picture, time=last)
        finally:
            file.video.close()
        if file.pictures:
            self.written.append(file.path)


def _new_path(suffix: str) -> Path:
    """A path in the current folder, named after this moment."""
    return Path(f"framebind-{datetime.now():%Y%m%d-%H%M%S-%f}{suffix}")
