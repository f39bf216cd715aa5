"""Readers of pictures, and of synthetic motion over one picture; the interface of all readers.

A reader runs on a worker thread and writes frames into memory that it is given (a mapped upload buffer). A frame is
uint8, row 0 on top, in the reader's layout: here BGR, (height, width, 3).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ...errors import SourceError
from ..decode.containers import MAX_PIXELS
from .image_headers import claimed_size
from .layouts import Layout, layout_of
from .opencv import load_cv2

Pixels = npt.NDArray[np.uint8]
PICTURES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff"})


class FrameReader(Protocol):
    """A reader of frames. ``length`` is None if it is not known; frames of a ``live`` reader do not wait to be read."""

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
    @property
    def layout(self) -> Layout:
        """Layout of a frame in memory."""
        ...

    @property
    def captured(self) -> float | None:
        """Time at which the last frame was taken, by time.perf_counter; None for files."""
        ...

    @property
    def time(self) -> float | None:
        """Seconds of the last frame on the clock of its file, from the first frame; None without such a clock."""
        ...

    @property
    def damaged(self) -> int:
        """Packets so far that could not be decoded."""
        ...

    @property
    def status(self) -> str:
        """The reason why no frames come; "" while they do."""
        ...

    @property
    def retry(self) -> float | None:
        """Seconds to wait before ``reopen``; None leaves that to the source."""
        ...

    def read(self, view: Pixels) -> bool:
        """Write the next frame into ``view``; False if there is none. Raises SourceError."""
        ...

    def reopen(self) -> bool:
        """Begin again at the first frame, or with a camera that was lost. Returns whether that worked."""
        ...

    def close(self) -> None: ...


class _FromFiles:
    """Base of the readers in this file: BGR frames that wait to be read."""

    live, captured, time = False, None, None
    damaged, status, retry = 0, "", None
    size: tuple[int, int]

    @property
    def layout(self) -> Layout:
        return layout_of("bgr", *self.size)


class PictureReader(_FromFiles):
    """Picture files in order, one frame each, scaled to the size of the first."""

    fps = None

    def __init__(self, paths: Sequence[Path], name: str) -> None:
        self.name, self._paths, self._next = name, paths, 0
        self.length = len(paths)
        height, width = load_picture(paths[0]).shape[:2]
        self.size = (width, height)

    def read(self, view: Pixels) -> bool:
        if self._next == len(self._paths):
            return False
        picture = load_picture(self._paths[self._next])
        if picture.shape == view.shape:
            view[...] = picture
        else:
            cv2 = load_cv2()
            cv2.resize(picture, self.size, dst=view, interpolation=cv2.INTER_AREA)
        self._next += 1
        return True

    def reopen(self) -> bool:
        self._next = 0
        return True

    def close(self) -> None:
        self._next = len(self._paths)


class MotionReader(_FromFiles):
    """A camera that pans, zooms and turns over one picture, without end: the same frames on every run.

    The top of the picture, where the heads of people are, stays in the frame.
    """

    length, fps = None, 30.0
    PERIOD = 240
    """Number of frames after which the motion repeats."""

    def __init__(self, picture: Pixels, size: tuple[int, int], name: str) -> None:
        self.name, self.size, self._picture, self._number = name, size, picture, 0

    def read(self, view: Pixels) -> bool:
        cv2, (height, width) = load_cv2(), self._picture.shape[:2]
        phase = 2 * math.pi * self._number / self.PERIOD
        # Without the zoom the picture just covers the frame. Outside of it, at turned corners, it is mirrored.
        zoom = 1.08 - 0.06 * math.cos(2 * phase)
        scale = max(self.size[0] / width, self.size[1] / height) * zoom
        seen = self.size[0] / scale, self.size[1] / scale
        top = min(0.01 * (1 - math.cos(phase)) * height, height - seen[1])
        pan = min(0.04 * width, (width - seen[0]) / 2)
        centre = width / 2 + pan * math.sin(phase), top + seen[1] / 2
        matrix = cv2.getRotationMatrix2D(centre, 3 * math.sin(phase), scale)
        matrix[:, 2] += (self.size[0] / 2 - centre[0], self.size[1] / 2 - centre[1])
        cv2.warpAffine(
            self._picture, matrix, self.size, dst=view, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101
        )
        self._number += 1
        return True

    def reopen(self) -> bool:
        self._number = 0
        return True

    def close(self) -> None:
        self._number = 0


def load_picture(path: Path) -> Pixels:
    """Read a picture file as BGR. Raises SourceError, before memory is taken if it claims more than MAX_PIXELS."""
    # Not imread: it fails on paths that are not ASCII on Windows, and on a missing file it only prints.
    try:
        with path.open("rb") as file:
            width, height = claimed_size(file) or (0, 0)
            if width * height > MAX_PIXELS:
                raise SourceError(f"picture '{path}' claims {width}x{height} pixels: at most {MAX_PIXELS} are decoded")
            file.seek(0)
            data = np.frombuffer(file.read() if width and height else b"", np.uint8)
    except OSError as error:
        raise SourceError(f"picture '{path}' cannot be read: {error.strerror}") from error
    cv2 = load_cv2()
    try:
        with quiet():
            picture = cv2.imdecode(data, cv2.IMREAD_COLOR) if data.size else None
    except cv2.error as error:  # of what it refuses before it decodes
        raise SourceError(f"'{path}' is no picture that OpenCV decodes: {error.err}") from error
    if picture is None:
        raise SourceError(
            f"'{path}' is no picture that OpenCV can decode (PNG, JPEG, BMP, GIF, WebP, TIFF): is it complete?"
        )
    return picture.astype(np.uint8, copy=False)


def open_folder(path: Path) -> PictureReader:
    """Open the pictures of a folder, sorted by name. Raises SourceError."""
    pictures = sorted(p for p in path.iterdir() if p.suffix.lower() in PICTURES)
    if not pictures:
        raise SourceError(f"folder '{path}' holds no picture ({', '.join(sorted(PICTURES))})")
    return PictureReader(pictures, f"folder '{path}'")


def painted_picture(width: int = 960, height: int = 720) -> Pixels:
    """A picture that needs no file, for synthetic motion: waves of colour, discs and a checkered floor."""
    cv2 = load_cv2()
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
def quiet() -> Iterator[None]:
    """Silence OpenCV's own log, which says in several lines what our error says in one."""
    cv2 = load_cv2()
    set_log_level = getattr(cv2.utils, "logging", cv2).setLogLevel  # cv2's own before OpenCV 4.13
    before = set_log_level(0)  # LOG_LEVEL_SILENT
    try:
        yield
    finally:
        set_log_level(before)


def describe(frame: npt.NDArray[Any]) -> str:
    """A frame's size and type, for messages."""
    height, width = frame.shape[:2]
    return f"{width}x{height} {frame.dtype}"
