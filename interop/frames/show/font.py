"""The overlay's font: an atlas of its characters at many heights, drawn once by FreeType.

Pillow has FreeType, and a proportional font: Aileron by Sora Sagano, in the public domain (CC0). A character is drawn
at about the height at which it is shown, because a large one made small on the GPU looks thin and ragged.
"""

from __future__ import annotations

import functools
import unicodedata
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

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


@dataclass(frozen=True)
class Font:
    """Coverage from 0 to 255, uint8, (height, width), and the glyphs of each of ``HEIGHTS``."""

    atlas: npt.NDArray[np.uint8]
    glyphs: dict[int, dict[str, Glyph]]

    def at(self, height: float) -> tuple[int, dict[str, Glyph]]:
        """The least of ``HEIGHTS`` that is not less than ``height``, or the largest one; and its glyphs."""
        drawn = next((each for each in HEIGHTS if each >= height), HEIGHTS[-1])
        return drawn, self.glyphs[drawn]


@functools.lru_cache(256)
def spelled(text: str) -> str:
    """``text`` in the font's characters: others are transliterated ("é" as "e", "猫" as "Mao"), or are left out."""
    if text.isascii():
        return text
    from anyascii import anyascii  # reads its tables when a text needs them

    composed = unicodedata.normalize("NFC", text)
    return "".join(character if character in CHARACTERS else anyascii(character) for character in composed)


@functools.cache
def font() -> Font:
    """Draw the atlas, once per process."""
    from PIL import Image, ImageDraw, ImageFont

    glyphs: dict[int, dict[str, Glyph]] = {}
    fonts = {height: ImageFont.load_default(_SIZE * height) for height in HEIGHTS}
    x, y, texts = 0, 0, list[tuple[int, int, str, ImageFont.FreeTypeFont | ImageFont.ImageFont]]()
    for height, face in fonts.items():
        row = glyphs[height] = {}
        for character in CHARACTERS:
            advance = round(_SPACE * _SIZE * height) if character == " " else face.getlength(character)
            width = int(advance) + 1 + 2 * MARGIN
            if x + width > _WIDTH:
                x, y = 0, y + height
            row[character] = Glyph(x, y, width, advance)
            texts.append((x + MARGIN, y, character, face))
            x += width
        x, y = 0, y + height
    atlas = Image.new("L", (_WIDTH, y))
    draw = ImageDraw.Draw(atlas)
    for left, top, character, face in texts:
        draw.text((left, top), character, 255, face)
    return Font(np.asarray(atlas), glyphs)
