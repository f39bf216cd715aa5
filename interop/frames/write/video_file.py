"""A video file: encoded by OpenCV, read again when it is done, and only then put in its place."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np

from ...errors import SourceError
from ..read.opencv import load_cv2
from ..read.readers import Pixels
from .replacement import Replacement

VIDEO_CODECS = {".mp4": "mp4v", ".mov": "mp4v", ".mkv": "mp4v", ".avi": "MJPG"}


class VideoFile:
    """A video of ``size`` (width, height) and ``fps`` frames per second, whose format the path's suffix names.

    Raises SourceError if it cannot be written.
    """

    def __init__(self, path: Path, size: tuple[int, int], fps: float) -> None:
        cv2 = load_cv2()
        self._replacement, self._frames, self._finished = Replacement(path, "video"), 0, False
        codec = cv2.VideoWriter.fourcc(*VIDEO_CODECS[path.suffix.lower()])
        self._bgr = np.empty((size[1], size[0], 3), np.uint8)
        self._writer = cv2.VideoWriter(os.fspath(self._replacement.unfinished), codec, fps, size)
        if not self._writer.isOpened():
            self._replacement.discard()
            raise self._replacement.error("OpenCV has no encoder for it. Does '.avi' work?")

    def write(self, rgba: Pixels, time: float | None = None) -> None:
        """Add a frame, RGBA of shape (height, width, 4). Its ``time`` is not kept: OpenCV writes a constant rate."""
        cv2 = load_cv2()
        cv2.cvtColor(rgba, cv2.COLOR_RGBA2BGR, dst=self._bgr)
        self._writer.write(self._bgr)  # says nothing of a full disk: finish() finds out
        self._frames += 1

    def finish(self) -> None:
        """Put the file in its place if it has all of its frames; remove it if it has none. May be called again.

        Raises SourceError if frames are missing. The file that was there before is then untouched, and what was
        written lies beside it if it can be played.
        """
        if self._finished:
            return
        self._finished = True
        self._writer.release()
        if not self._frames:  # no player takes such a file
            self._replacement.discard()
        elif self._is_whole():
            self._replacement.complete()
        else:
            raise self._incomplete()

    def _is_whole(self) -> bool:
        """Whether the file says that it has the frames that were written, and the last of them is there.

        It may have one more: Ctrl-C can come between a frame and its count.
        """
        cv2 = load_cv2()
        capture = cv2.VideoCapture(os.fspath(self._replacement.unfinished))
        last = capture.get(cv2.CAP_PROP_FRAME_COUNT) - 1
        try:
            return (
                last + 1 >= self._frames
                and capture.set(cv2.CAP_PROP_POS_FRAMES, last)
                and capture.get(cv2.CAP_PROP_POS_FRAMES) == last
                and capture.grab()
            )
        finally:
            capture.release()

    def _incomplete(self) -> SourceError:
        unfinished = self._replacement.unfinished
        free = shutil.disk_usage(unfinished.parent).free
        capture = load_cv2().VideoCapture(os.fspath(unfinished))
        plays = capture.isOpened() and capture.grab()
        capture.release()
        if not plays:
            self._replacement.discard()
        kept = f"What can be played is in '{unfinished}'" if plays else "Nothing of it can be played"
        return self._replacement.error(
            f"not all of its {self._frames} frames reached the disk, which has {free:,} bytes left. {kept}"
        )
