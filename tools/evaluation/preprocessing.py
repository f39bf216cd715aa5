"""Pictures as TensorFlow Lite's evaluation tools prepare them: cropped, resized and normalized on the CPU.

After tensorflow/lite/tools/evaluation/stages/image_preprocessing_stage.cc, so that figures can be compared with theirs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import framebind as fb

from ...video.layouts import Layout, PictureShape
from ...video.vision.pictures import Picture, read_picture

Array = npt.NDArray[Any]

CROP = 0.875
"""The part of a picture's sides that the Inception crop keeps."""
SUFFIXES = (".jpg", ".jpeg", ".png")
MEAN, STD = 127.5, 127.5
"""Float inputs are (pixel - MEAN) / STD, from -1 to 1."""


def list_pictures(folder: Path) -> list[Path]:
    """The pictures in a folder, sorted by name. Raises SourceError if there are none."""
    if not folder.is_dir():
        raise fb.SourceError(f"'{folder}' is no folder of pictures")
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    if not found:
        raise fb.SourceError(f"the folder '{folder}' has no picture ({', '.join(SUFFIXES)})")
    return found


def load(path: Path) -> Picture:
    """The pixels (height, width, 3) of a picture file. Raises SourceError if it cannot be read."""
    picture = read_picture(path)
    if picture is None:
        raise fb.SourceError(f"'{path}' is no picture that can be read")
    return picture


def inception_crop(picture: Picture) -> Picture:
    """The square in the middle whose side is CROP of the picture's shorter side, rounded."""
    height, width = picture.shape[:2]
    side = min(_round(CROP * height), _round(CROP * width))
    top, left = _round((height - side) / 2), _round((width - side) / 2)
    return picture[top : top + side, left : left + side]


def resize(picture: Picture, size: tuple[int, int]) -> Array:
    """The picture at a ``size`` (height, width), float32 from 0 to 255.

    Bilinear between the four pixels around each position. Positions are row * height / new height and so on, without
    the shift of half a pixel: RESIZE_BILINEAR with neither align_corners nor half_pixel_centers.
    """
    rows, columns = (_neighbours(old, new) for old, new in zip(picture.shape[:2], size, strict=True))
    pixels = picture.astype(np.float32)
    (top, bottom, down), (left, right, across) = rows, columns
    across, down = across[None, :, None], down[:, None, None]
    upper = pixels[top][:, left] * (1 - across) + pixels[top][:, right] * across
    lower = pixels[bottom][:, left] * (1 - across) + pixels[bottom][:, right] * across
    return upper * (1 - down) + lower * down


def to_tensor(pixels: Array, dtype: npt.DTypeLike, layout: Layout = "nhwc") -> Array:
    """Pixels (height, width, 3) from 0 to 255 as the input tensor of a model, (1, height, width, 3) or, for the layout
    "nchw", (1, 3, height, width).

    float32 is from -1 to 1, uint8 the pixels themselves, int8 128 less. Raises ModelError for other types.
    """
    height, width, channels = pixels.shape
    kind, pixels = np.dtype(dtype), PictureShape(height, width, channels, layout).to_tensor(pixels)
    if kind == np.float32:
        return ((pixels - MEAN) / STD).astype(np.float32)
    if kind == np.uint8:
        return pixels.astype(np.uint8)
    if kind == np.int8:
        return (pixels - 128).astype(np.int8)
    raise fb.ModelError(f"a model for pictures takes float32, uint8 or int8, not {kind}")


def _neighbours(old: int, new: int) -> tuple[Array, Array, Array]:
    """The pixels before and after each of ``new`` places on a side of ``old`` pixels, and the latter's share."""
    places = np.arange(new, dtype=np.float32) * (np.float32(old) / np.float32(new))
    before = np.minimum(np.floor(places).astype(int), old - 1)
    return before, np.minimum(before + 1, old - 1), places - before


def _round(value: float) -> int:
    """The nearest integer; halves go away from 0, as in C."""
    return int(np.floor(value + 0.5))
