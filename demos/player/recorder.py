"""Writes the pictures of a run to files: videos, and single pictures."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import framebind as fb


@dataclass
class _File:
    path: Path
    sink: fb.Sink
    pictures: int = 0
    """Number of pictures that were written to it."""


class Recorder:
    """The files of one run. Files given to ``open`` get every picture; keys start and stop one more, and take
    screenshots, in the current folder. Raises SourceError for a file that cannot be written.
    """

    def __init__(self, picture: fb.GlTexture, *, fps: float, live: bool) -> None:
        self.written: list[Path] = []
        """The files that are complete, in the order of their completion."""
        self._picture, self._fps, self._live = picture, fps, live
        self._files: list[_File] = []
        self._recording: _File | None = None

    @property
    def is_recording(self) -> bool:
        """True if pictures go to any file."""
        return bool(self._files)

    def open(self, path: Path) -> None:
        """Write every picture from now on to this file."""
        self._open(path)

    def put(self) -> None:
        """Write the picture to all open files."""
        for file in self._files:
            file.sink.put(self._picture)
            file.pictures += 1

    def toggle_recording(self) -> str:
        """Start a video that is named after this moment, or finish it. Returns a note for the user."""
        recording, self._recording = self._recording, None
        if recording is not None:
            self._close(recording)
            return "recording stopped"
        path = _new_path(".mp4")
        self._recording = self._open(path)
        return f"recording {path}"

    def take_screenshot(self) -> str:
        """Write the picture to a file that is named after this moment. Returns a note for the user."""
        path = _new_path(".png")
        sink = fb.open_sink(path, self._picture.context, self._picture.size)
        sink.put(self._picture)
        sink.close()
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

    def _open(self, path: Path) -> _File:
        picture = self._picture
        file = _File(path, fb.open_sink(path, picture.context, picture.size, fps=self._fps, live=self._live))
        self._files.append(file)
        return file

    def _close(self, file: _File) -> None:
        self._files.remove(file)
        file.sink.close()
        if file.pictures:
            self.written.append(file.path)


def _new_path(suffix: str) -> Path:
    """A path in the current folder, named after this moment."""
    return Path(f"framebind-{datetime.now():%Y%m%d-%H%M%S-%f}{suffix}")
