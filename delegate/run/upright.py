"""Frames of video as they are stored: a region of the upright picture becomes one of the stored pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...interop.frames.frame import Frame
from ..plan.region import Region

Crop = Sequence[float] | Region
_TURNS = {90: (0, 1), 180: (-1, 0), 270: (0, -1)}
"""Cosine and sine of the rotations of frames."""


def stored(obj: Any, crop: Any, rotation: Any) -> tuple[Any, Any, Any]:
    """A Frame, or a list in which some are, as the pixels that are bound, and where these have the crop and rotation.

    Any other object stays as it is. ``crop`` and ``rotation`` may be lists, with one for each object of a list.
    """
    if isinstance(obj, Frame):
        return obj.pixels, *_in_stored(obj, crop, rotation)
    if not any([isinstance(each, Frame) for each in obj]):
        return obj, crop, rotation
    pixels = [each.pixels if isinstance(each, Frame) else each for each in obj]
    if not any([each.rotation for each in obj if isinstance(each, Frame)]):
        return pixels, crop, rotation
    crops = list(crop) if _is_list(crop) and crop and not isinstance(crop[0], int | float) else [crop] * len(obj)
    rotations = list(rotation) if _is_list(rotation) else [rotation] * len(obj)
    if not len(crops) == len(rotations) == len(obj):
        return pixels, crop, rotation  # which is refused
    placed = [
        stored(each, c, r) if isinstance(each, Frame) else (each, c, r)
        for each, c, r in zip(obj, crops, rotations, strict=True)
    ]
    return [pixels for pixels, _, _ in placed], [c for _, c, _ in placed], [r for _, _, r in placed]


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _in_stored(frame: Frame, crop: Crop | None, rotation: float) -> tuple[Crop | None, float]:
    """A region of the upright picture, turned by ``rotation`` around its middle, as one of the stored picture."""
    turn = frame.rotation
    if not turn:
        return crop, rotation
    if isinstance(crop, Region):
        return crop, rotation + turn  # which turns the picture before the region is taken
    if crop is None:
        if rotation % 90 == 0:
            return None, rotation + turn  # the whole picture, whatever its sides are
        crop = (0.0, 0.0, *frame.size)
    x, y, width, height = crop
    across, down = frame.size
    right, below = x + width / 2 - across / 2, y + height / 2 - down / 2
    cosine, sine = _TURNS[turn]
    right, below = cosine * right - sine * below, sine * right + cosine * below
    if turn != 180:
        across, down = down, across
    return (across / 2 + right - width / 2, down / 2 + below - height / 2, width, height), rotation + turn
