"""Where frames come from, on the CPU's side: a camera, a video file, pictures, or motion over one picture.

Each reader writes frames into memory that it is given (a mapped upload buffer) and runs on a worker thread. A frame is
BGR, uint8, of shape (height, width, 3), row 0 on top.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np
import numpy.typing as npt

from .errors import SourceError

Frame = npt.NDArray[np.uint8]
_TURNS = {90: cv2.ROTATE_90_CLOCKWISE, 180: cv2.ROTATE_180, 270: cv2.ROTATE_90_COUNTERCLOCKWISE}
"""By the clockwise degrees that a file asks for."""
PICTURES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff"})


class FrameReader(Protocol):
    """Reads frame after frame. ``length`` is None where the end is not known; ``live`` says that frames do not wait."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> tuple[int, int]: ...
    @property
    def fps(self) -> float | None: ...
    @property
    def length(self) -> int | None: ...
    @property
    def live(self) -> bool: ...
    def read(self, view: Frame) -> bool:
        """Write the next frame into ``view``; False where there is none. Raises SourceError."""
        ...

    def close(self) -> None: ...


class CaptureReader:
    """A camera (``live``) or a video file, decoded by OpenCV straight into the memory given to ``read``.

    A file that is to be shown turned (most videos of phones are) is decoded as it is, and then turned into place.
    """

    def __init__(self, capture: cv2.VideoCapture, name: str, live: bool) -> None:
        self._capture, self.name, self.live = capture, name, live
        self._turn = None if live else _TURNS.get(int(capture.get(cv2.CAP_PROP_ORIENTATION_META)))
        self.size = (int(capture.get(cv2.CAP_PROP_FRAME_WIDTH)), int(capture.get(cv2.CAP_PROP_FRAME_HEIGHT)))
        self.fps = capture.get(cv2.CAP_PROP_FPS) or None
        frames = 0 if live else int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
        self.length = frames if frames > 0 else None
        self._number = 0
        self._unturned: Frame | None = None
        if self._turn is not None:
            # OpenCV turns frames by itself unless told not to, but then never into the memory that it is given.
            capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 0)
            width, height = (int(capture.get(p)) for p in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT))
            self._unturned = np.empty((height, width, 3), np.uint8)

    def read(self, view: Frame) -> bool:
        place = view if self._unturned is None else self._unturned
        found, frame = self._capture.read(place)
        if not found:
            if self.live:
                raise SourceError(f"{self.name} gives no more frames: is it unplugged, or used by another program?")
            if self._number == 0:
                raise SourceError(f"{self.name} has no frame that OpenCV can decode: is the file complete?")
            return False
        # Where shape or dtype do not fit, OpenCV leaves the view as it was and returns a new array, without a word.
        if frame is not place:
            raise SourceError(
                f"frame {self._number} of {self.name} is {_describe(frame)}, not {_describe(place)} as announced: "
                "re-encode the file with one size, or give the camera a size that it supports"
            )
        if self._turn is not None:
            cv2.rotate(place, self._turn, dst=view)
        self._number += 1
        return True

    def close(self) -> None:
        self._capture.release()


class PictureReader:
    """Picture files in order, each one frame. All get the size of the first; the others are scaled to it."""

    live, fps = False, None

    def __init__(self, paths: Sequence[Path], name: str) -> None:
        self.name, self._paths, self._next = name, paths, 0
        self.length = len(paths)
        height, width = load_picture(paths[0]).shape[:2]
        self.size = (width, height)

    def read(self, view: Frame) -> bool:
        if self._next == len(self._paths):
            return False
        picture = load_picture(self._paths[self._next])
        if picture.shape == view.shape:
            view[...] = picture
        else:
            cv2.resize(picture, self.size, dst=view, interpolation=cv2.INTER_AREA)
        self._next += 1
        return True

    def close(self) -> None:
        self._next = len(self._paths)


class MotionReader:
    """A camera that pans, zooms and turns over one picture, without end: the same frames on every run."""

    live, length, fps = False, None, 30.0
    PERIOD = 240
    """Frames after which the motion repeats."""

    def __init__(self, picture: Frame, size: tuple[int, int], name: str) -> None:
        self.name, self.size, self._picture, self._number = name, size, picture, 0

    def read(self, view: Frame) -> bool:
        height, width = self._picture.shape[:2]
        phase = 2 * math.pi * self._number / self.PERIOD
        # At scale 1 the picture just covers the frame; where a turned corner leaves it, the picture is mirrored.
        scale = max(self.size[0] / width, self.size[1] / height) * (1.15 + 0.12 * math.sin(2 * phase))
        # A little above the middle, where faces are.
        centre = (width * (0.5 + 0.05 * math.sin(phase)), height * (0.46 - 0.05 * math.cos(phase)))
        matrix = cv2.getRotationMatrix2D(centre, 6 * math.sin(phase), scale)
        matrix[:, 2] += (self.size[0] / 2 - centre[0], self.size[1] / 2 - centre[1])
        cv2.warpAffine(
            self._picture, matrix, self.size, dst=view, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101
        )
        self._number += 1
        return True

    def close(self) -> None:
        self._number = 0


def load_picture(path: Path) -> Frame:
    """A picture file as BGR. Raises SourceError."""
    # Not imread: it fails on paths that are not ASCII on Windows, and on a missing file it only prints.
    try:
        data = np.frombuffer(path.read_bytes(), np.uint8)
    except OSError as error:
        raise SourceError(f"picture '{path}' cannot be read: {error.strerror}") from error
    with _quiet():
        picture = cv2.imdecode(data, cv2.IMREAD_COLOR) if data.size else None
    if picture is None:
        raise SourceError(f"'{path}' is no picture that OpenCV can decode: is the file complete?")
    return picture.astype(np.uint8, copy=False)


def open_camera(index: int, size: tuple[int, int] | None) -> CaptureReader:
    """The camera number ``index``, asked for frames of ``size``; it may choose another. Raises SourceError."""
    with _quiet():
        capture = cv2.VideoCapture(index)
    if not capture.isOpened():
        raise SourceError(
            f"camera {index} cannot be opened: is it plugged in, free, and may you use it? "
            "Another index, a video file or 'synthetic' are sources too"
        )
    # The compressed format first: raw frames of a large size do not fit through USB 2 at full rate.
    capture.set(cv2.CAP_PROP_FOURCC, cv2.VideoWriter.fourcc(*"MJPG"))
    if size is not None:
        capture.set(cv2.CAP_PROP_FRAME_WIDTH, size[0])
        capture.set(cv2.CAP_PROP_FRAME_HEIGHT, size[1])
    capture.set(cv2.CAP_PROP_BUFFERSIZE, 1)
    return CaptureReader(capture, f"camera {index}", live=True)


def open_video(path: Path) -> CaptureReader:
    """A video file. Raises SourceError."""
    with _quiet():
        capture = cv2.VideoCapture(os.fspath(path))
    reader = CaptureReader(capture, f"video '{path}'", live=False)
    if not capture.isOpened() or min(reader.size) < 1:
        capture.release()
        raise SourceError(f"'{path}' is no video that OpenCV can decode: is the file complete?")
    return reader


def open_folder(path: Path) -> PictureReader:
    """The pictures of a folder, sorted by name. Raises SourceError."""
    pictures = sorted(p for p in path.iterdir() if p.suffix.lower() in PICTURES)
    if not pictures:
        raise SourceError(f"folder '{path}' holds no picture ({', '.join(sorted(PICTURES))})")
    return PictureReader(pictures, f"folder '{path}'")


def painted_picture(width: int = 960, height: int = 720) -> Frame:
    """A picture computed here, for synthetic motion without any file: waves of colour, discs and a checkered floor."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    u, v = x / width, y / height
    waves = [np.sin(9 * u + 5 * v + k) * np.cos(7 * v - 4 * u * u + 2 * k) for k in range(3)]
    picture = np.stack([128 + 100 * wave for wave in waves], axis=-1)
    random = np.random.default_rng(7)
    for _ in range(60):
        centre = (int(random.integers(width)), int(random.integers(height)))
        colour = [float(c) for c in random.integers(0, 256, 3)]
        cv2.circle(picture, centre, int(random.integers(8, 70)), colour, -1, cv2.LINE_AA)
    squares = (x // 48 + y // 48) % 2 * 60 - 30
    return np.clip(picture + squares[..., None] * (v[..., None] > 0.6), 0, 255).astype(np.uint8)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """OpenCV's own log says in several lines what our error then says in one."""
    before = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        cv2.utils.logging.setLogLevel(before)


def _describe(frame: npt.NDArray[Any]) -> str:
    height, width = frame.shape[:2]
    return f"{width}x{height} {frame.dtype}"
