"""A camera without hardware: answers as a V4L2 webcam does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

Picture = npt.NDArray[np.uint8]
SIZE = (48, 32)
_OPEN_FILE = cv2.VideoCapture


class Webcam:
    """A camera at index 0, for all captures that are made of it: unplug it, let it come back, change what it gives."""

    def __init__(self, fourcc: str = "MJPG", size: tuple[int, int] = SIZE) -> None:
        self.formats, self.size, self.plugged = (fourcc,), size, True
        self.frame: Callable[[int], Picture] = lambda number: np.full((size[1], size[0], 3), number % 256, np.uint8)
        self.asked: list[tuple[int, float]] = []
        self.opened = self.used = self.number = 0
        """The times that it was opened, the captures that are open now, and the number of the next frame."""
        self.delay, self.stamp = 0.0, 0.0

    def capture(self, index: int | str, api: int = 0) -> Any:
        """Stands for cv2.VideoCapture: a number is a camera; a name is a file, which OpenCV opens."""
        return Capture(self, index) if isinstance(index, int) else _OPEN_FILE(index)


class Capture:
    """Stands for cv2.VideoCapture."""

    def __init__(self, webcam: Webcam, index: int) -> None:
        self.webcam, self.is_open = webcam, index == 0 and webcam.plugged
        self.fourcc = cv2.VideoWriter.fourcc(*webcam.formats[0])
        webcam.opened += self.is_open
        webcam.used += self.is_open

    def isOpened(self) -> bool:  # noqa: N802
        return self.is_open

    def set(self, name: int, value: float) -> bool:
        self.webcam.asked.append((name, value))
        if name == cv2.CAP_PROP_FOURCC and int(value) in [cv2.VideoWriter.fourcc(*f) for f in self.webcam.formats]:
            self.fourcc = int(value)
        return True

    def get(self, name: int) -> float:
        return {
            cv2.CAP_PROP_FOURCC: self.fourcc, cv2.CAP_PROP_FRAME_WIDTH: self.webcam.size[0],
            cv2.CAP_PROP_FRAME_HEIGHT: self.webcam.size[1], cv2.CAP_PROP_FPS: 25.0,
            cv2.CAP_PROP_POS_MSEC: self.webcam.stamp,
        }[name]  # fmt: skip

    def read(self, view: Picture) -> tuple[bool, Any]:
        time.sleep(self.webcam.delay)
        if not (self.is_open and self.webcam.plugged):
            return False, None
        frame = self.webcam.frame(self.webcam.number)
        self.webcam.number += 1
        if frame.shape != view.shape:
            return True, frame
        view[...] = frame
        return True, view

    def release(self) -> None:
        self.webcam.used -= self.is_open
        self.is_open = False


@pytest.fixture
def webcam(monkeypatch: pytest.MonkeyPatch) -> Webcam:
    webcam = Webcam()
    monkeypatch.setattr(cv2, "VideoCapture", webcam.capture)
    return webcam
