"""Masks, boxes, points and names of what was found in a frame, drawn by OpenCV over a picture in CPU memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..vision.labels import palette

_LINES = 8
"""Most lines of text without a box."""
_TINT = 0.5
"""Share of a mask's colour where it is not black."""


def tint(pixels: npt.NDArray[np.uint8], mask: npt.NDArray[np.uint8]) -> None:
    """Mix the colours of a mask, RGBA of any size, into a picture, where they are not black."""
    import cv2  # only here: commands start without it

    small = cv2.resize(mask, (pixels.shape[1], pixels.shape[0]), interpolation=cv2.INTER_NEAREST)
    shares = _TINT * (small[..., :3].max(axis=-1, keepdims=True) > 0)
    pixels[..., :3] = pixels[..., :3] + shares * (small[..., :3].astype(np.float32) - pixels[..., :3])


def draw_marks(pixels: npt.NDArray[np.uint8], found: Sequence[dict[str, Any]], scale: float) -> None:
    """Draw boxes, points, names and shares of what a task found, whose places are multiplied by ``scale``."""
    import cv2  # only here: commands start without it

    names = sorted({str(each["class"]) for each in found if each.get("class") is not None})
    colours = dict(zip(names, palette(max(len(names), 1)), strict=False))
    thick, line = max(min(pixels.shape[:2]) // 200, 2), 0
    for each in found:
        name = str(each.get("class"))
        colour = tuple(round(255 * value) for value in (*colours.get(name, (1.0, 1.0, 1.0)), 1.0))
        at: tuple[int, int] | None = None
        if each.get("box") is not None:
            left, top, right, bottom = (round(scale * value) for value in each["box"])
            cv2.rectangle(pixels, (left, top), (right, bottom), colour, thick)
            at = left, max(top - 4, 14)
        for x, y in each.get("points") or ():
            cv2.circle(pixels, (round(scale * x), round(scale * y)), 2 * thick, colour, -1)
        if at is None and not each.get("points") and line < _LINES:
            line += 1
            at = 8, 22 * line
        if at is not None:
            cv2.putText(pixels, _text(name, each), at, cv2.FONT_HERSHEY_SIMPLEX, 0.6, colour, 1, cv2.LINE_AA)


def _text(name: str, found: dict[str, Any]) -> str:
    part = found.get("score") if found.get("share") is None else found["share"]
    return name if part is None else f"{name} {part:.0%}"
