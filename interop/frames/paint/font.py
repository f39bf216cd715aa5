"""The font of marks: an atlas of its characters at many heights, drawn once by FreeType.

Pillow has FreeType, and a proportional font: Aileron by Sora Sagano, in the public domain (CC0). A character is drawn
at about the height at which it is shown, because a large one made small on the GPU looks thin and ragged.
"""

from __future__ import annotations

import functools
import threading
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL import ImageFont

HEIGHTS = (*range(9, 29), 32, 36, 42, 48, 56, 64)
"""Heights of a line of text in pixels, from the smallest, for which the atlas has characters."""
CHARACTERS = "".join(map(chr, range(ord(" "), ord("~") + 1))) + "·°…"
_SIZE = 0.8
"""Font size as a share of the height of a line; the rest is below the baseline."""
_SPACE = 0.3
"""Width of a space as a share of the font size; the font's own is too narrow to tell words apart at a small size."""
_WIDTH = 1024
"""Width of the atlas in texels."""
MARGIN = 3
"""Texels of a glyph's cell before and behind the character."""


class Glyph(NamedTuple):
    """A character in the atlas: its cell's top left corner and width, and the distance to the next character.

    All are in texels. It begins ``MARGIN`` texels inside its cell, because some reach out to the left or right.
    """

    x: int
    y: int
    width: int
    advance: float


class Font:
    """An atlas with the characters of each of ``HEIGHTS``, which are drawn when they are first needed.

    ``atlas`` has coverage from 0 to 255, uint8, (height, width); characters that were not drawn are 0.
    """

    def __init__(self) -> None:
        self._faces = {height: _face(height) for height in HEIGHTS}
        self._glyphs: dict[int, dict[str, Glyph]] = {}
        self._is_drawn: set[int] = set()
        self._lock = threading.Lock()
        below = 0
        for height, face in self._faces.items():
            self._glyphs[height], below = _places(face, height, below)
        self.atlas: npt.NDArray[np.uint8] = np.zeros((below, _WIDTH), np.uint8)

    def at(self, height: float) -> tuple[int, dict[str, Glyph]]:
        """The least of ``HEIGHTS`` that is not less than ``height``, or the largest one; and its glyphs."""
        nearest = next((each for each in HEIGHTS if each >= height), HEIGHTS[-1])
        return nearest, self._glyphs[nearest]

    def drawn(self, heights: Iterable[int] = HEIGHTS) -> npt.NDArray[np.uint8]:
        """The atlas, after the characters of these heights were drawn. Any thread may call this."""
        with self._lock:
            for height in set(heights) - self._is_drawn:
                self._draw(height)
                self._is_drawn.add(height)
        return self.atlas

    def _draw(self, height: int) -> None:
        from PIL import Image, ImageDraw

        glyphs = self._glyphs[height]
        top, bottom = glyphs[CHARACTERS[0]].y, glyphs[CHARACTERS[-1]].y + height
        strip = Image.new("L", (_WIDTH, bottom - top))
        draw = ImageDraw.Draw(strip)
        for character, glyph in glyphs.items():
            draw.text((glyph.x + MARGIN, glyph.y - top), character, 255, self._faces[height])
        self.atlas[top:bottom] = np.asarray(strip)


@functools.lru_cache(256)
def spelled(text: str) -> str:
    """Spell ``text`` in the font's characters. Others are transliterated ("é" as "e", "猫" as "Mao") or left out."""
    composed = unicodedata.normalize("NFC", text)
    if all(character.isascii() or character in CHARACTERS for character in composed):
        return composed
    from anyascii import anyascii  # only here: most programs show no other characters

    return "".join(character if character in CHARACTERS else anyascii(character) for character in composed)


@functools.cache
def font() -> Font:
    """The font, made once per process."""
    return Font()


def _face(height: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    from PIL import ImageFont

    return ImageFont.load_default(_SIZE * height)


def _places(face: ImageFont.FreeTypeFont | ImageFont.ImageFont, height: int, y: int) -> tuple[dict[str, Glyph], int]:
    """The cells of a height's characters from row ``y`` of the atlas on, and the row behind them."""
    glyphs: dict[str, Glyph] = {}
    x = 0
    for character in CHARACTERS:
        advance = round(_SPACE * _SIZE * height) if character == " " else face.getlength(character)
        width = int(advance) + 1 + 2 * MARGIN
        if x + width > _WIDTH:
            x, y = 0, y + height
        glyphs[character] = Glyph(x, y, width, advance)
        x += width
    return glyphs, y + height
