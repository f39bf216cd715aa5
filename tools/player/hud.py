"""Head-up display: a bar below the picture in a window, with figures, choices and keys. It covers nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

import framebind as fb

Color = tuple[float, float, float]
Words = tuple[str, Color]
"""Text in one colour."""
Part = tuple[Words, ...]
"""Words that are kept together in a line."""
Line = list[tuple[float, Words]]
"""Words with the position of their left end in pixels."""

BRIGHT, DIM, ACCENT = (1.0, 1.0, 1.0), (0.62, 0.65, 0.7), (1.0, 0.74, 0.3)
GROUND = (0.075, 0.085, 0.1)
STARTING = "Preparing the model for this device ..."
"""Text of a window until the first frame is drawn: some drivers compile for seconds."""
LINES = 3
"""Number of lines for which a new window has room."""
_MOST = 0.4
"""Largest share of the window's height for more lines than these; lines that do not fit are left out."""
_GAP = 0.9
"""Distance between parts, as a share of a line's height."""
_NOTE_SECONDS = 4.0
"""Time that a note stays on screen."""


class Hud:
    """The display's state: its contents, and the note that it shows for some seconds."""

    def __init__(self) -> None:
        self.shows_figures, self.shows_keys = True, False
        self._overlay = fb.video.Overlay()
        self._note, self._note_until = "", 0.0
        self._content: object = None
        self._lines: list[Line] = []
        self._kept: tuple[object, int] = None, 0
        """The window's size and the switched-on lines, and the most lines that the bar had with these."""

    def say(self, note: str) -> None:
        """Show a note for some seconds."""
        self._note, self._note_until = note, time.perf_counter() + _NOTE_SECONDS

    def announce(self, window: fb.Window, text: str) -> None:
        """Show a sentence in a window that has no picture yet."""
        black = fb.GlTexture.from_array(np.zeros((1, 1, 4), np.uint8))
        self.show(window, black, figures=[[((text, BRIGHT),)]], keys=(), status="")

    def toggle_figures(self) -> None:
        """Show or hide both figures and keys."""
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
        figures: Sequence[Sequence[Part]],
        keys: Sequence[Part],
        status: str,
    ) -> None:
        """Show the picture in the window, and the bar below it.

        ``figures`` are paragraphs: each begins a new line, and continues in the next one if it is too long. ``status``
        and a note are always shown.
        """
        size, height = window.framebuffer_size, line_height(window.framebuffer_size, window.scale)
        note = self._note if time.perf_counter() < self._note_until else ""
        paragraphs = [[((text, ACCENT),)] for text in (status, note) if text]
        if self.shows_figures:
            paragraphs += [*([list(keys)] if self.shows_keys else []), *map(list, figures)]
        content = paragraphs, size, height
        if content != self._content:  # it changes four times per second, not with every frame
            self._content, self._lines = content, flow(self._overlay, paragraphs, size[0] - height, height)
        lines = self._lines[: max(LINES, int(size[1] * _MOST / height))]
        tall = bar_height(self._room(len(lines), size), height)
        draw_bar(self._overlay, size, lines, tall=tall, height=height)
        window.show(picture, self._overlay, below=tall)

    def _room(self, lines: int, size: tuple[int, int]) -> int:
        """The number of lines in the bar. It does not shrink, so that a line that comes and goes does not move the
        picture.
        """
        if not self.shows_figures:
            return lines
        state = size, self.shows_keys
        kept = self._kept[1] if self._kept[0] == state else LINES
        self._kept = state, max(lines, kept)
        return self._kept[1]


def line_height(size: tuple[int, int], scale: float) -> int:
    """Height of a line in pixels of a window of ``size`` (width, height) with ``scale`` pixels per screen unit.

    It is 16 units at 640x480, 20 at 1280x720 and 26 at 1920x1080.
    """
    width, height = size[0] / scale, size[1] / scale
    return round(scale * max(round(8 + min(height / 60, width / 75)), 9))


def bar_height(lines: int, height: int) -> int:
    """Height in pixels of a bar with a number of lines of ``height`` pixels."""
    return lines * height + (height + 1) // 2 if lines else 0


def with_bar(size: tuple[int, int]) -> tuple[int, int]:
    """Size in screen units of a window that shows a picture of ``size`` (width, height) unscaled, and a bar below."""
    width, height = size
    tall = next(t for t in range(2 * height) if t >= bar_height(LINES, line_height((width, height + t), 1.0)))
    return width, height + tall


def flow(overlay: fb.video.Overlay, paragraphs: Sequence[Sequence[Part]], width: float, height: int) -> list[Line]:
    """Break paragraphs into lines of at most ``width`` pixels. Parts are broken only if they are wider than that."""
    lines: list[Line] = []
    for paragraph in paragraphs:
        lines.append([])
        x = 0.0
        for part in paragraph:
            wide = sum(overlay.text_width(text, height) for text, _ in part)
            pieces = (
                [part] if wide <= width else [((f"{word} ", color),) for text, color in part for word in text.split()]
            )
            for piece in pieces:
                if x and x + sum(overlay.text_width(text.rstrip(), height) for text, _ in piece) > width:
                    lines.append([])
                    x = 0.0
                for words in piece:
                    lines[-1].append((x, words))
                    x += overlay.text_width(words[0], height)
            x = round(x + _GAP * height)
    return lines


def draw_bar(
    overlay: fb.video.Overlay,
    size: tuple[int, int],
    lines: Sequence[Line],
    *,
    tall: int,
    height: int,
) -> None:
    """Draw lines of ``height`` pixels on dark ground, ``tall`` pixels high, at the bottom of a window of ``size``."""
    top, margin = size[1] - tall, height // 2
    overlay.fill(0, top, size[0], tall, GROUND)
    for number, line in enumerate(lines):
        y = top + height // 4 + number * height
        for x, (text, color) in line:
            overlay.text(text, margin + round(x), y, color, height)
