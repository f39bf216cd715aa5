"""Text, boxes, lines and points as strokes: what is drawn over a picture, before anything draws it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ....kernels.colours import YuvColours
from ...errors import BindingError
from .font import MARGIN, font, spelled
from .marks_on_planes import paint
from .planes import Planes
from .strokes import STROKE

Color = tuple[float, float, float] | tuple[float, float, float, float]
"""Red, green, blue and optionally opacity, from 0 to 1."""


class Marks:
    """Lines, points, boxes and text, collected before they are drawn over a picture.

    An ``Overlay`` draws them by GL. The CPU paints them on an array (``paint``) or on decoded frames (``VideoWriter``),
    and needs no context. Places and sizes are in pixels of the picture, from its top left corner. Colours are (red,
    green, blue) or (red, green, blue, alpha), each from 0 to 1. Edges are antialiased.

    Parameters
    ----------
    scale : float
        The factor by which places and sizes are multiplied: a half for a picture that is shown at half its size.

    Examples
    --------
    >>> marks = fb.video.Marks()
    >>> marks.box(10, 10, 40, 20, (1.0, 0.0, 0.0))
    >>> marks
    <Marks: shapes and letters to draw: 1>
    """

    def __init__(self, *, scale: float = 1.0) -> None:
        self._font, self._scale = font(), scale
        self._waiting: list[float] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: shapes and letters to draw: {len(self._waiting) // STROKE}>"

    def line(self, x0: float, y0: float, x1: float, y1: float, color: Color, thickness: float = 2.0) -> None:
        """Add a straight line. Its edges fade over one pixel, so that a slight move changes it slightly."""
        self._shape((x0, y0, x1, y1), color, thickness)

    def point(self, x: float, y: float, color: Color, diameter: float = 8.0) -> None:
        """Add a disc around a place."""
        radius = diameter / 2
        self._shape((x - radius, y, x + radius, y), color, diameter, radius)

    def fill(self, x: float, y: float, width: float, height: float, color: Color, radius: float = 0.0) -> None:
        """Add a filled rectangle; x and y are its top left corner, ``radius`` is that of its rounded corners."""
        self._shape((x, y + height / 2, x + width, y + height / 2), color, height, radius)

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
        self._shape((x - half, middle, x + width + half, middle), color, height + thickness, radius, thickness)

    def text(self, text: str, x: float, y: float, color: Color = (1.0, 1.0, 1.0), height: float = 20.0) -> None:
        """Add lines of text, separated by newlines.

        ``x`` and ``y`` are the top left corner of the first line, ``height`` is the height of a line. Text is sharpest
        if all three are whole numbers. The font has ASCII, "·", "°" and "…". Other characters are transliterated: "é"
        is drawn as "e", "猫" as "Mao".
        """
        x, y, height = self._scale * x, self._scale * y, self._scale * height
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
        drawn, glyphs = self._font.at(self._scale * height)
        other = glyphs["?"]
        widest = max(sum(glyphs.get(c, other).advance for c in line) for line in spelled(text).split("\n"))
        return widest * height / drawn

    def paint(self, pixels: npt.NDArray[np.uint8]) -> None:
        """Paint everything that was added since the last time on a picture in the CPU's memory, in that order.

        Parameters
        ----------
        pixels : numpy.ndarray
            The picture, uint8 (height, width, 3 or 4): red, green and blue, which are changed, and opacity, which is
            not.

        Raises
        ------
        BindingError
            If shape or type are others.

        Examples
        --------
        >>> marks, picture = fb.video.Marks(), np.zeros((32, 64, 3), np.uint8)
        >>> marks.fill(0, 0, 64, 16, (1.0, 0.5, 0.0))
        >>> marks.paint(picture)
        >>> picture[8, 32]
        array([255, 128,   0], dtype=uint8)
        """
        if pixels.ndim != 3 or pixels.shape[2] not in (3, 4) or pixels.dtype != np.uint8:
            raise BindingError(
                f"marks cannot be painted on an array of shape {pixels.shape} and type {pixels.dtype}: "
                "give HxWx3 or HxWx4 of uint8"
            )
        paint(Planes([pixels[..., channel] for channel in range(3)], 1, 1, _Bytes("bt709", "full")), self.take())

    def take(self) -> list[float]:
        """Everything that was added since the last call, in that order: ``STROKE`` numbers each."""
        taken, self._waiting = self._waiting, []
        return taken

    def _shape(
        self, ends: tuple[float, ...], color: Color, thickness: float, radius: float = 0.0, outline: float = 0.0
    ) -> None:
        scale = self._scale
        self._add(tuple(scale * end for end in ends), (scale * thickness, -1.0, scale * radius, scale * outline), color)

    def _add(self, ends: tuple[float, ...], look: tuple[float, ...], color: Color) -> None:
        self._waiting += (*ends, *look, *color, *(1.0,) * (4 - len(color)))


class _Bytes(YuvColours):
    """Red, green and blue as they are, in place of luma and chroma."""

    def numbers(self, red: float, green: float, blue: float) -> tuple[float, float, float]:
        return 255 * red, 255 * green, 255 * blue
