"""Masks of a video: a sequence of PNG files, or run lengths in the rows. As a video they go through a sink."""

from __future__ import annotations

from collections.abc import Sequence
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
        write_picture(self._folder, rows[0]["frame"], self._mask.values())


class Pictures:
    """A folder of PNG files of the painted frames, named as those of ``MaskPictures``."""

    def __init__(self, folder: Path, picture: fb.GlTexture, reason: str) -> None:
        folder.mkdir()
        self._folder, self._picture, self._reason = folder, picture, reason

    def put(self, rows: Sequence[Row]) -> None:
        """Write the picture that was drawn last."""
        rgba = self._picture.read(reason=self._reason)
        write_picture(self._folder, rows[0]["frame"], rgba[..., 2::-1])


def write_picture(folder: Path, frame: int, pixels: npt.NDArray[Any]) -> None:
    """Write a frame's PNG file, grey or BGR. Raises SourceError if the disk does not take it."""
    import cv2

    path = folder / f"{frame:06}.png"
    try:
        path.write_bytes(cv2.imencode(".png", np.ascontiguousarray(pixels))[1].tobytes())
    except OSError as error:
        raise fb.SourceError(f"'{path}' cannot be written: {error.strerror}") from error


def add_run_lengths(found: list[dict[str, Any]], mask: Mask) -> None:
    """Add to each class that was found in a frame where it is."""
    if found:
        values = mask.values()
        for each in found:
            place = values == mask.classes.index(each["class"]) if mask.classes else values >= 128
            each["mask"] = encode(np.asarray(place))
