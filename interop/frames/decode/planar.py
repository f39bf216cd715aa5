"""Planes of decoded frames: their sizes and colours, as a file declares them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....kernels.colours import YuvColours, YuvMatrix, YuvRange
from ...errors import BindingError
from ...yuv import MATRIX_NUMBERS, RANGE_NUMBERS, YuvFormat, YuvPicture

BGR = "bgr24"
"""The format of frames that are not YUV."""


def say_colours(described: Any, matrix: YuvMatrix, range: YuvRange) -> None:
    """Let a frame (av.VideoFrame), or an encoder that is not open yet, say its matrix and its range."""
    described.colorspace, described.color_range = MATRIX_NUMBERS[matrix].colorspaces[0], RANGE_NUMBERS[range]


def says_colours(frame: Any, matrix: YuvMatrix, range: YuvRange) -> bool:
    """Whether a frame (av.VideoFrame) says that it has this matrix and this range, by the numbers that are written."""
    numbers = MATRIX_NUMBERS[matrix].colorspaces[0], RANGE_NUMBERS[range]
    return (int(frame.colorspace), int(frame.color_range)) == numbers


def wanted_colours(matrix: YuvMatrix, range: YuvRange) -> dict[str, int]:
    """The arguments that make ``reformat`` of PyAV convert a frame to this matrix and this range."""
    return {"dst_colorspace": MATRIX_NUMBERS[matrix].swscale, "dst_color_range": RANGE_NUMBERS[range]}


@dataclass(frozen=True)
class PlanarFormat:
    """Layout of frames of ``width`` x ``height`` pixels in planes: luma, then chroma in one plane or two."""

    width: int
    height: int
    yuv: YuvFormat
    colours: YuvColours

    @property
    def number_bytes(self) -> int:
        """Bytes of one number of luma or chroma."""
        return 1 if self.yuv.dtype == "uint8" else 2

    @property
    def chroma(self) -> tuple[int, int]:
        """Width and height of the chroma planes, in pixels of chroma."""
        return -(-self.width // self.yuv.columns), -(-self.height // self.yuv.rows)

    @property
    def rows(self) -> list[tuple[int, int]]:
        """Per plane: its number of rows, and the bytes of a row without padding."""
        width, height = self.chroma
        chroma = [(height, width * channels * self.number_bytes) for channels in self.yuv.chroma]
        return [(self.height, self.width * self.number_bytes), *chroma]

    @property
    def nbytes(self) -> int:
        """Bytes of all planes without padding."""
        return sum(rows * row for rows, row in self.rows)


def planar_format(frame: Any) -> PlanarFormat | None:
    """The layout of a decoded frame (av.VideoFrame); None for formats and matrices that must be converted first."""
    try:
        picture = YuvPicture.from_frame(frame)
    except BindingError:
        return None
    return PlanarFormat(frame.width, frame.height, picture.layout, picture.colours)


def nearest_format(video_format: Any) -> str:
    """The format that swscale converts frames of any other format to (av.VideoFormat): RGB stays RGB."""
    if video_format.is_rgb or video_format.has_palette:
        return BGR
    return "yuv420p10le" if max(component.bits for component in video_format.components) > 8 else "yuv444p"
