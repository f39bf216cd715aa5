"""Head-up display: lines of text at the bottom of the picture in a window, figures and below them keys.

Faces are in the upper half of most pictures, and labels of what is found there as well: both stay visible.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import framebind as fb

_LINE = 15
"""Height of a line in screen units; less in a small window."""
_READABLE = 9.0
"""Height in pixels below which a line cannot be read."""
_GAP = "   "
"""Separates the parts of a line."""
_NOTE_SECONDS = 4.0
"""Time that a note stays on screen."""


class Hud:
    """The display's state: what it shows, and the note that is on it for some seconds."""

    def __init__(self) -> None:
        self.shows_figures = self.shows_keys = True
        self._overlay = fb.Overlay()
        self._note, self._note_until = "", 0.0

    def say(self, note: str) -> None:
        """Show a note at the bottom for some seconds."""
        self._note, self._note_until = note, time.perf_counter() + _NOTE_SECONDS

    def toggle_figures(self) -> None:
        """Show figures and keys, or hide both."""
        self.shows_figures = not self.shows_figures

    def toggle_keys(self) -> None:
        """Show or hide the keys; the figures are shown in any case."""
        self.shows_keys = not (self.shows_figures and self.shows_keys)
        self.shows_figures = True

    def show(
        self,
        window: fb.Window,
        picture: fb.GlTexture,
        *,
        figures: Sequence[str],
        keys: Sequence[str],
        status: str,
        column: float,
    ) -> None:
        """Show the picture in the window, with the lines over it.

        ``status`` and a note are always shown. ``column`` is the width in pixels of the picture, at its right edge,
        that the lines leave free.
        """
        size = window.framebuffer_size
        note = self._note if time.perf_counter() < self._note_until else ""
        shown = figures if self.shows_figures else ()
        lines = (*shown, status, note, *(keys if self.shows_figures and self.shows_keys else ()))
        draw_lines(self._overlay, size, free_width(column, picture.size, size), window.scale, lines)
        window.show(picture, self._overlay)


def draw_lines(overlay: fb.Overlay, size: tuple[int, int], right: float, scale: float, texts: Sequence[str]) -> None:
    """Draw lines on dark ground at the bottom left of a window.

    ``size`` is the window's (width, height) in pixels, ``right`` the x that no line goes beyond, ``scale`` the
    number of pixels per screen unit. Empty lines are left out.
    """
    height = max(min(_LINE * scale, size[1] / 24), _READABLE)
    lines = [line for text in texts if text for line in _fit(overlay, text, height, right - height)]
    if lines:
        width, tall = max(line.width for line in lines) + height, height * (len(lines) + 0.5)
        top = size[1] - tall
        overlay.fill(0, top, width, tall, (0.0, 0.0, 0.0, 0.45))
        for number, line in enumerate(lines):
            overlay.text(line.text, height / 2, top + height * (number + 0.25), height=line.height)


class _Line(NamedTuple):
    text: str
    height: float
    width: float


def _fit(overlay: fb.Overlay, text: str, height: float, width: float) -> list[_Line]:
    """Shrink the text to ``width``; break it into two lines if it would be too small to read."""

    def fitted(part: str) -> _Line:
        natural = overlay.text_width(part, height)
        shrunk = min(1.0, width / natural)
        return _Line(part, height * shrunk, natural * shrunk)

    line = fitted(text)
    if line.height >= _READABLE or height == _READABLE or _GAP not in text:
        return [line]
    gaps = [at for at in range(len(text)) if text.startswith(_GAP, at)]
    middle = min(gaps, key=lambda at: abs(at - len(text) / 2))
    return [fitted(text[:middle]), fitted(text[middle:].strip())]


def free_width(column: float, picture: tuple[int, int], window: tuple[int, int]) -> float:
    """Width of the window, in pixels, to the left of a column at the right edge of the picture.

    The window shows the picture as large as fits. Sizes are (width, height) in pixels, ``column`` is a width in pixels
    of the picture. The result is the window's whole width if there is no column, or if it takes more than half.
    """
    scale = min(window[0] / picture[0], window[1] / picture[1])
    left_of_column = window[0] / 2 + (picture[0] / 2 - column) * scale
    return left_of_column if column and left_of_column >= window[0] / 2 else float(window[0])
