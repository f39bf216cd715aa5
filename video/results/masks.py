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
from ..vision.run_lengths import encode
from .rows import Row

_BGR, _BGRA = [2, 1, 0], [2, 1, 0, 3]
"""OpenCV's order of the channels of RGBA."""


class MaskPictures:
    """A folder of PNG files in grey, of 8 or 16 bits: 000000.png for frame 0, and so on."""

    def __init__(self, folder: Path, mask: Mask) -> None:
        folder.mkdir()
        self._folder, self._mask = folder, mask

    def put(self, rows: Sequence[Row]) -> None:
        """Write the mask that was drawn last."""
        write_picture(_of_frame(self._folder, rows), self._mask.values())


class Pictures:
    """A folder of PNG files of the painted frames, named as those of ``MaskPictures``."""

    def __init__(self, folder: Path, picture: fb.GlTexture, reason: str, *, alpha: bool) -> None:
        """``alpha``: the texture's alpha is kept."""
        folder.mkdir()
        self._folder, self._picture, self._reason, self._channels = folder, picture, reason, _BGRA if alpha else _BGR

    def put(self, rows: Sequence[Row]) -> None:
        """Write the picture that was drawn last."""
        rgba = self._picture.read(reason=self._reason)
        write_picture(_of_frame(self._folder, rows), rgba[..., self._channels])


class PictureFile:
    """The one picture of a photograph, in the format that the path's suffix names."""

    def __init__(
        self,
        path: Path,
        pixels: Callable[[], fb.GlTexture | npt.NDArray[np.uint8] | npt.NDArray[np.uint16]],
        reason: str,
        *,
        alpha: bool = False,
    ) -> None:
        """``pixels`` gives grey values (height, width), or RGBA, which is read for ``reason`` if it is a texture.

        ``alpha``: that of RGBA is kept.
        """
        self._path, self._pixels, self._reason, self._channels = path, pixels, reason, _BGRA if alpha else _BGR

    def put(self, _: Sequence[Row]) -> None:
        """Write the picture that was drawn last."""
        pixels = self._pixels()
        if isinstance(pixels, fb.GlTexture):
            pixels = pixels.read(reason=self._reason)
        write_picture(self._path, pixels if pixels.ndim == 2 else pixels[..., self._channels])


def _of_frame(folder: Path, rows: Sequence[Row]) -> Path:
    return folder / f"{rows[0]['frame']:06}.png"


def write_picture(path: Path, pixels: npt.NDArray[Any]) -> None:
    """Write a picture file, grey, BGR or BGRA. Raises SourceError if the disk does not take it."""
    import cv2

    try:
        path.write_bytes(cv2.imencode(path.suffix.lower(), np.ascontiguousarray(pixels))[1].tobytes())
    except OSError as error:
        raise fb.SourceError(f"'{path}' cannot be written: {error.strerror}") from error


def add_run_lengths(found: list[dict[str, Any]], mask: Mask) -> None:
    """Add to each class that was found in a frame where it is. Objects that have a mask of their own keep it."""
    if any("mask" not in each for each in found):
        values = mask.values()
        for each in found:
            place = values == mask.classes.index(each["class"]) if mask.classes else values >= 128
            each["mask"] = encode(np.asarray(place))
