"""The palette: the colours of a model's classes, in masks and boxes."""

from __future__ import annotations

import colorsys

Color = tuple[float, float, float]


def palette(classes: int) -> list[Color]:
    """A colour (red, green, blue from 0 to 1) for each class.

    Successive hues are a golden angle apart, so that neighbours differ; odd classes are darker.
    """
    return [colorsys.hsv_to_rgb(0.62 + 0.618034 * n, 0.9, 0.65 if n % 2 else 1.0) for n in range(classes)]
