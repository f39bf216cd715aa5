"""Colours of video: conversion between the numbers of luma and chroma, and red, green and blue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

YuvMatrix = Literal["bt601", "bt709", "bt2020"]
YuvRange = Literal["limited", "full"]
LUMA_SHARES: dict[str, tuple[float, float]] = {
    "bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722), "bt2020": (0.2627, 0.0593),
}  # fmt: skip
"""The shares of red and blue in luma, Kr and Kb: ITU-R BT.601-7 section 2.5.1, BT.709-6 item 3.2, BT.2020-2 table 4
(non-constant luminance).
"""
Row = tuple[float, float, float, float]


@dataclass(frozen=True)
class YuvColours:
    """The meaning of a video's numbers.

    ``bits`` is the depth of a number: 8 or 10. ``largest`` is the number that a plane's value 1 stands for: 255 of
    bytes; of 16 bits 65535 if the number is in the low ones, and 65535 / 64 if it is 10 bits in the high ones.

    With E'R, E'G, E'B from 0 to 1, luma and chroma are (BT.601-7 section 2.5.1, BT.709-6 item 3, BT.2020-2 table 4)

        E'Y = Kr E'R + (1 - Kr - Kb) E'G + Kb E'B,  E'Cb = (E'B - E'Y) / (2 - 2 Kb),  E'Cr = (E'R - E'Y) / (2 - 2 Kr)

    and their numbers of n bits, in the limited range,

        DY = (219 E'Y + 16) 2^(n-8),  DC = (224 E'C + 128) 2^(n-8)

    and in the full range (BT.2100-2 table 9; JPEG's JFIF for 8 bits)

        DY = (2^n - 1) E'Y,  DC = (2^n - 1) E'C + 2^(n-1)
    """

    matrix: YuvMatrix
    range: YuvRange
    bits: int = 8
    largest: float = 255.0

    def rows(self) -> tuple[Row, Row, Row]:
        """The matrix to RGB: for red, green and blue the factors of luma, first and second chroma (as planes hold
        them), and an addend.

        The formulas of the class, solved for E'R, E'G and E'B.
        """
        red, blue = LUMA_SHARES[self.matrix]
        green = 1 - red - blue
        black, luma, chroma, middle = self._scales()
        y, c, grey = self.largest / luma, self.largest / chroma, middle / chroma
        first, second = 2 - 2 * blue, 2 - 2 * red
        parts = ((0.0, second), (-first * blue / green, -second * red / green), (first, 0.0))
        rows = [(y, u * c, v * c, -black / luma - (u + v) * grey) for u, v in parts]
        return rows[0], rows[1], rows[2]

    def numbers(self, red: float, green: float, blue: float) -> tuple[float, float, float]:
        """Convert a colour (each from 0 to 1) to luma and both chromas: numbers of ``bits`` bits, not rounded.

        In the full range the largest chroma would be half a step above the largest number, so it is clamped to that.
        """
        of_red, of_blue = LUMA_SHARES[self.matrix]
        y = of_red * red + (1 - of_red - of_blue) * green + of_blue * blue
        black, luma, chroma, middle = self._scales()
        first, second = (blue - y) / (2 - 2 * of_blue), (red - y) / (2 - 2 * of_red)
        largest = 2.0**self.bits - 1
        return black + luma * y, min(middle + chroma * first, largest), min(middle + chroma * second, largest)

    def _scales(self) -> tuple[float, float, float, float]:
        """The number for black, the range of luma, the range of chroma, and the number of chroma for grey."""
        unit, all_numbers = 2.0 ** (self.bits - 8), 2.0**self.bits - 1
        if self.range == "limited":
            return 16 * unit, 219 * unit, 224 * unit, 128 * unit
        return 0.0, all_numbers, all_numbers, 128 * unit
