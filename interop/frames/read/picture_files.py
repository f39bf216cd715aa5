"""Picture files as sources (JPEG, PNG and others), one by one or a folder of them. OpenCV decodes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...errors import SourceError
from ..decode.containers import MAX_PIXELS
from .frame_reader import BgrReader, Pixels
from .opencv import load_cv2, quiet
from .picture_headers import claimed_size

PICTURES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff"})


class PictureReader(BgrReader):
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
