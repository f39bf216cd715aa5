"""Formats and colours of frames, in FFmpeg's words and numbers."""

from __future__ import annotations

from typing import Any

from ....kernels.colours import YuvMatrix, YuvRange
from ...yuv import MATRIX_NUMBERS, RANGE_NUMBERS

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


def nearest_format(video_format: Any) -> str:
    """The format that swscale converts frames of any other format to (av.VideoFormat): RGB stays RGB."""
    if video_format.is_rgb or video_format.has_palette:
        return BGR
    return "yuv420p10le" if max(component.bits for component in video_format.components) > 8 else "yuv444p"
