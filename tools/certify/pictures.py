"""Pictures as inputs of models: those that come with the package, plain grounds and a gradient.

They show faults that noise hides: pictures have equal neighbours, flat regions and edges.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import framebind as fb

from ...video.assets import HAND_PICTURE, PHOTOGRAPH

Array = npt.NDArray[Any]
Details = Sequence[Mapping[str, Any]]
"""LiteRT's details of a model's inputs."""
_CROPS = {
    "astronaut": (PHOTOGRAPH, slice(None), slice(None)),
    "astronaut's face": (PHOTOGRAPH, slice(20, 276), slice(100, 356)),
    "hand": (HAND_PICTURE, slice(None), slice(120, 840)),
}
"""A photograph, a part of it and a drawing, by name: file, rows and columns."""
_PLAIN = {"black": 0.0, "white": 1.0}
SIGNED = ", from -1 to 1"
"""The end of the name of a picture whose floats are in that range; others are from 0 to 1. A file does not say which
its model takes.
"""
_CHANNELS = (1, 3, 4)


def picture_inputs(details: Details, values: Sequence[Array]) -> dict[str, list[Array]]:
    """Inputs of a model by the name of a picture: ``values``, but each input that takes a picture has it.

    An input takes a picture if it has floats or integers of 8 bits, rank 4, and one, three or four channels, last or
    first. A fourth channel is zeros. Empty if no input does.
    """
    layouts = [_layout(detail) for detail in details]
    if not any(layouts):
        return {}
    kinds = {np.dtype(detail["dtype"]).kind for layout, detail in zip(layouts, details, strict=True) if layout}
    names = [*_CROPS, *_PLAIN, "gradient", *(name + SIGNED for name in _CROPS if "f" in kinds)]
    return {
        name: [
            _as_input(name, layout, detail) if layout else value
            for layout, detail, value in zip(layouts, details, values, strict=True)
        ]
        for name in names
    }


def _layout(detail: Mapping[str, Any]) -> str:
    """The order of an input's dimensions, NHWC or NCHW; "" if it takes no picture."""
    shape, dtype = tuple(int(n) for n in detail["shape"]), np.dtype(detail["dtype"])
    if len(shape) != 4 or dtype.name not in ("float32", "float16", "int8", "uint8"):
        return ""
    if shape[3] in _CHANNELS and min(shape[1:3]) > 1:
        return "NHWC"
    return "NCHW" if shape[1] in _CHANNELS and min(shape[2:]) > 1 else ""


def _as_input(name: str, layout: str, detail: Mapping[str, Any]) -> Array:
    shape, dtype = tuple(int(n) for n in detail["shape"]), np.dtype(detail["dtype"])
    batch, height, width, channels = shape if layout == "NHWC" else (shape[0], *shape[2:], shape[1])
    rgb = _rgb(name.removesuffix(SIGNED), height, width)
    if channels == 1:
        rgb = rgb.mean(-1, keepdims=True)
    if dtype.kind == "f":
        rgb = rgb * 2 - 1 if name.endswith(SIGNED) else rgb
    else:
        rgb = np.rint(rgb * 255) + np.iinfo(dtype).min
    if channels == 4:
        rgb = np.concatenate([rgb, np.zeros_like(rgb[..., :1])], -1)
    picture = np.broadcast_to(rgb, (batch, height, width, channels)).astype(dtype)
    return picture if layout == "NHWC" else np.ascontiguousarray(picture.transpose(0, 3, 1, 2))


def _rgb(name: str, height: int, width: int) -> Array:
    """The picture (height, width, 3), from 0 to 1."""
    if name in _PLAIN:
        return np.full((height, width, 3), _PLAIN[name], np.float32)
    if name == "gradient":
        down, across = np.meshgrid(np.linspace(0, 1, height), np.linspace(0, 1, width), indexing="ij")
        return np.stack([across, down, across * down], -1).astype(np.float32)
    import cv2  # only here: most certifications need no OpenCV

    file, rows, columns = _CROPS[name]
    crop = np.ascontiguousarray(_photograph(file)[rows, columns])
    return np.float32(cv2.resize(crop, (width, height), interpolation=cv2.INTER_AREA)) / np.float32(255)


@functools.cache
def _photograph(file: Path) -> Array:
    import cv2

    pixels = cv2.imread(str(file))
    if pixels is None:
        raise fb.SourceError(f"the photograph '{file}' cannot be read: install framebind again")
    return np.ascontiguousarray(pixels[..., ::-1])
