"""Pixel formats of video: planes of luma and chroma with 8 or 10 bits, by FFmpeg's names, and which one fits others."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from ..kernels.colours import YuvColours, YuvMatrix, YuvRange

YuvSiting = Literal["left", "center", "topleft"]
BGR = "bgr24"
"""The format of frames that are not YUV."""


class YuvFormat(NamedTuple):
    """A format of video in planes: luma, then as many planes as ``chroma`` has entries.

    ``dtype`` is the type of the numbers, ``bits`` their depth, and ``shift`` the number of bits by which they are
    shifted to the left. ``chroma`` has the channels of each plane of chroma. A pixel of chroma is shared by ``columns``
    times ``rows`` pixels of luma.
    """

    dtype: str
    bits: int
    shift: int
    chroma: tuple[int, ...]
    columns: int
    rows: int

    def colours(self, matrix: YuvMatrix, range: YuvRange) -> YuvColours:
        """The colours that the numbers stand for."""
        largest = 255 if self.dtype == "uint8" else 65535
        return YuvColours(matrix, range, self.bits, largest / 2**self.shift)


YUV_FORMATS: dict[str, YuvFormat] = {
    "nv12": YuvFormat("uint8", 8, 0, (2,), 2, 2),
    "p010": YuvFormat("uint16", 10, 6, (2,), 2, 2),
    "yuv420p": YuvFormat("uint8", 8, 0, (1, 1), 2, 2),
    "yuv422p": YuvFormat("uint8", 8, 0, (1, 1), 2, 1),
    "yuv444p": YuvFormat("uint8", 8, 0, (1, 1), 1, 1),
    "yuv420p10": YuvFormat("uint16", 10, 0, (1, 1), 2, 2),
    "yuv422p10": YuvFormat("uint16", 10, 0, (1, 1), 2, 1),
    "yuv444p10": YuvFormat("uint16", 10, 0, (1, 1), 1, 1),
}
"""The formats by FFmpeg's names, without the "le" (little-endian) behind those of 16 bits."""


class PlanarFormat(NamedTuple):
    """Everything about a picture in planes but the planes themselves. A size of 0 x 0 is not known."""

    format: str
    matrix: YuvMatrix
    range: YuvRange
    siting: YuvSiting
    width: int
    height: int

    @property
    def layout(self) -> YuvFormat:
        """The facts about its format."""
        return YUV_FORMATS[self.format]

    @property
    def colours(self) -> YuvColours:
        """The colours that its numbers stand for."""
        return self.layout.colours(self.matrix, self.range)

    @property
    def number_bytes(self) -> int:
        """Bytes of one number of luma or chroma."""
        return 1 if self.layout.dtype == "uint8" else 2

    @property
    def chroma(self) -> tuple[int, int]:
        """Width and height of the chroma planes, in pixels of chroma."""
        return -(-self.width // self.layout.columns), -(-self.height // self.layout.rows)

    @property
    def rows(self) -> list[tuple[int, int]]:
        """Per plane: its number of rows, and the bytes of a row without padding."""
        width, height = self.chroma
        chroma = [(height, width * channels * self.number_bytes) for channels in self.layout.chroma]
        return [(self.height, self.width * self.number_bytes), *chroma]

    @property
    def nbytes(self) -> int:
        """Bytes of all planes without padding."""
        return sum(rows * row for rows, row in self.rows)


def nearest_format(video_format: Any) -> str:
    """The format that swscale converts frames of any other format to (av.VideoFormat): RGB stays RGB."""
    if video_format.is_rgb or video_format.has_palette:
        return BGR
    return "yuv420p10le" if max(component.bits for component in video_format.components) > 8 else "yuv444p"
