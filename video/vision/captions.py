"""Text over a picture: tags of results, a legend, a notice if there are no results. Sizes follow the picture's."""

from __future__ import annotations

from collections.abc import Sequence

import framebind as fb

from .palette import Color

GROUND = (0.05, 0.06, 0.07, 0.72)
_DARK, _WHITE = (0.05, 0.06, 0.07), (1.0, 1.0, 1.0)


def text_height(size: tuple[int, int]) -> int:
    """Height of a line of text in a picture of ``size`` (width, height): 17 pixels at 640x480, 27 at 1920x1080."""
    return round(9 + min(size[1] / 60, size[0] / 80))


def draw_tag(marks: fb.video.Marks, text: str, x: float, y: float, color: Color, size: tuple[int, int]) -> None:
    """Draw text on a background of ``color``, above the position if there is room, and wholly inside the picture."""
    height = text_height(size)
    wide, tall = marks.text_width(text, height) + height // 2, height + height // 4
    left, top = round(min(max(x, 0), max(size[0] - wide, 0))), round(max(y - tall, 0))
    marks.fill(left, top, wide, tall, color, radius=height / 5)
    red, green, blue = color
    ink = _DARK if 0.3 * red + 0.59 * green + 0.11 * blue > 0.55 else _WHITE
    marks.text(text, left + height // 4, top + height // 8, ink, height)


def draw_notice(marks: fb.video.Marks, text: str, size: tuple[int, int]) -> None:
    """Draw a sentence at the top left."""
    height = text_height(size)
    margin = height // 2
    marks.fill(margin, margin, marks.text_width(text, height) + height, 2 * height - 2 * (height // 4), GROUND, margin)
    marks.text(text, 2 * margin, margin + height // 4, _WHITE, height)


def draw_legend(marks: fb.video.Marks, entries: Sequence[tuple[str, Color]], size: tuple[int, int]) -> None:
    """Draw names with their colours at the top left, one below the other."""
    height = text_height(size)
    line, margin, swatch = height + height // 4, height // 2, round(0.7 * height)
    wide = max(marks.text_width(name, height) for name, _ in entries) + swatch + 3 * margin
    marks.fill(margin, margin, wide, line * len(entries) + margin, GROUND, margin)
    for number, (name, color) in enumerate(entries):
        y = margin + margin // 2 + number * line
        marks.fill(2 * margin, y + (line - swatch) // 2, swatch, swatch, color, swatch / 4)
        marks.text(name, 2 * margin + swatch + margin, y + height // 8, _WHITE, height)
