"""Pictures and masks in picture files: those of a video as a sequence of PNG files, those of a photograph as one file.

Masks may also be run lengths in the rows. As a video they go through a sink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..task import Mask
from .rows import Row
from .run_lengths import encode


class MaskPictures:
    """A folder of PNG files of 8 bits in grey: 000000.png for frame 0, and so on."""

    def __init__(self, folder: Path, mask: Mask) -> None:
        folder.mkdir()
        self._folder, self._mask = folder, mask

    def put(self, rows: Sequence[Row]) -> None:
        """Write the mask that was drawn last."""
        write_picture(_of_frame(self._folder, rows), self._mask.values())


class Pictures:
    """A folder of PNG files of the painted frames, named as those of ``MaskPictures``."""

    def __init__(self, folder: Path, picture: fb.GlTexture, reason: str) -> None:
        folder.mkdir()
        self._folder, self._picture, self._reason = folder, picture, reason

    def put(self, rows: Sequence[Row]) -> None:
        """Write the picture that was drawn last."""
        rgba = self._picture.read(reason=self._reason)
        write_picture(_of_frame(self._folder, rows), rgba[..., 2::-1])


class PictureFile:
    """The one picture of a photograph, in the format that the path's suffix names."""

    def __init__(self, path: Path, pixels: Callable[[], fb.GlTexture | npt.NDArray[np.uint8]], reason: str) -> None:
        """``pixels`` gives grey values (height, width), or RGBA, which is read for ``reason`` if it is a texture."""
        self._path, self._pixels, self._reason = path, pixels, reason

    def put(self, _: Sequence[Row]) -> None:
        """Write the picture that was drawn last."""
        pixels = self._pixels()
        if isinstance(pixels, fb.GlTexture):
            pixels = pixels.read(reason=self._reason)
        write_picture(self._path, pixels if pixels.ndim == 2 else pixels[..., 2::-1])


def _of_frame(folder: Path, rows: Sequence[Row]) -> Path:
    return folder / f"{rows[0]['frame']:06}.png"


def write_picture(path: Path, pixels: npt.NDArray[Any]) -> None:
    """Write a picture file, grey or BGR. Raises SourceError if the disk does not take it."""
    import cv2

    try:
        path.write_bytes(cv2.imencode(path.suffix.lower(), np.ascontiguousarray(pixels))[1].tobytes())
    except OSError as error:
        raise fb.SourceError(f"'{path}' cannot be written: {error.strerror}") from error


def add_run_lengths(found: list[dict[str, Any]], mask: Mask) -> None:
    """Add to each class that was found in a frame where it is."""
    if found:
        values = mask.values()
        for each in found:
            place = values == mask.classes.index(each["class"]) if mask.classes else values >= 128
            each["mask"] = encode(np.asarray(place))
