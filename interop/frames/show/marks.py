"""Text, boxes, lines and points as strokes: what is drawn over a picture, before anything draws it."""

from __future__ import annotations

from .font import MARGIN, font, spelled

STROKE = 12
"""Numbers of a stroke, as the shader in overlay.py takes them: its ends (x, y, x, y); thickness, and of a glyph its
place in the atlas (x, y) and the texels per pixel, of a shape -1, the radius of its corners, and the thickness of its
outline or 0 if it is filled; red, green, blue and opacity.
"""
Color = tuple[float, float, float] | tuple[float, float, float, float]
"""Red, green, blue and optionally opacity, from 0 to 1."""


class Marks:
    """Lines, points, boxes and text, collected before they are drawn over a picture.

    An ``Overlay`` draws them by GL; ``MarkedVideo`` paints them on decoded frames by the CPU, and needs no context.
    Places and sizes are in pixels of the picture, from its top left corner. Colours are (red, green, blue) or (red,
    green, blue, alpha), each from 0 to 1. Edges are antialiased.

    Examples
    --------
    >>> marks = fb.Marks()
    >>> marks.box(10, 10, 40, 20, (1.0, 0.0, 0.0))
    >>> marks
    <Marks: shapes and letters to draw: 1>
    """

    def __init__(self) -> None:
        self._font = font()
        self._waiting: list[float] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: shapes and letters to draw: {len(self._waiting) // STROKE}>"

    def line(self, x0: float, y0: float, x1: float, y1: float, color: Color, thickness: float = 2.0) -> None:
        """Add a straight line. Its edges fade over one pixel, so that a slight move changes it slightly."""
        self._add((x0, y0, x1, y1), (thickness, -1.0, 0.0, 0.0), color)

    def point(self, x: float, y: float, color: Color, diameter: float = 8.0) -> None:
        """Add a disc around a place."""
        radius = diameter / 2
        self._add((x - radius, y, x + radius, y), (diameter, -1.0, radius, 0.0), color)

    def fill(self, x: float, y: float, width: float, height: float, color: Color, radius: float = 0.0) -> None:
        """Add a filled rectangle; x and y are its top left corner, ``radius`` is that of its rounded corners."""
        self._add((x, y + height / 2, x + width, y + height / 2), (height, -1.0, radius, 0.0), color)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        color: Color,
        thickness: float = 2.0,
        radius: float = 0.0,
    ) -> None:
        """Add the outline of a rectangle; x and y are its top left corner, in the middle of the outline.

        ``radius`` is that of the rounded corners, at the outside of the outline.
        """
        half, middle = thickness / 2, y + height / 2
        shape = (height + thickness, -1.0, radius, thickness)
        self._add((x - half, middle, x + width + half, middle), shape, color)

    def text(self, text: str, x: float, y: float, color: Color = (1.0, 1.0, 1.0), height: float = 20.0) -> None:
        """Add lines of text, separated by newlines.

        ``x`` and ``y`` are the top left corner of the first line, ``height`` is the height of a line. Text is sharpest
        if all three are whole numbers. The font has ASCII, "·", "°" and "…". Other characters are transliterated: "é"
        is drawn as "e", "猫" as "Mao".
        """
        drawn, glyphs = self._font.at(height)
        self._font.drawn((drawn,))
        scale, other = height / drawn, glyphs["?"]
        for number, line in enumerate(spelled(text).split("\n")):
            left, middle = x, y + (number + 0.5) * height
            for character in line:
                glyph = glyphs.get(character, other)
                if character != " ":
                    start = left - MARGIN * scale
                    place = (start, middle, start + glyph.width * scale, middle)
                    self._add(place, (height, glyph.x, glyph.y, 1 / scale), color)
                left += glyph.advance * scale

    def text_width(self, text: str, height: float = 20.0) -> float:
        """Width of the longest line of ``text`` in pixels."""
        drawn, glyphs = self._font.at(height)
        other = glyphs["?"]
        widest = max(sum(glyphs.get(c, other).advance for c in line) for line in spelled(text).split("\n"))
        return widest * height / drawn

    def take(self) -> list[float]:
        """Everything that was added since the last call, in that order: 12 numbers each."""
        taken, self._waiting = self._waiting, []
        return taken

    def _add(self, ends: tuple[float, ...], look: tuple[float, ...], color: Color) -> None:
        self._waiting += (*ends, *look, *color, *(1.0,) * (4 - len(color)))
