"""Facts that a video says of all of its pixels, and that its copy has to say again."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from ....kernels.colours import YuvMatrix, YuvRange
from ...yuv import MATRIX_NUMBERS, RANGE_NUMBERS

_UNSPECIFIED = 2
_MOST_ASPECT, _MOST_NUMBER = 20, 255
"""Bounds of what a header may claim: encoders take no more."""


class VideoTags(NamedTuple):
    """The shape of a video's pixels, and the light that its colours stand for.

    Parameters
    ----------
    pixel_aspect : Fraction
        Width of a pixel over its height, when the picture is upright; 1 for square ones.
    primaries, transfer : int
        Colour primaries and transfer characteristics by their numbers in ITU-T H.273; 2 if the video does not say.

    Examples
    --------
    >>> with fb.open_source("clip.mp4") as source:
    ...     print(source.tags)
    VideoTags(pixel_aspect=Fraction(1, 1), primaries=2, transfer=2)
    """

    pixel_aspect: Fraction = Fraction(1)
    primaries: int = _UNSPECIFIED
    transfer: int = _UNSPECIFIED


def read_tags(aspect: Any, primaries: int, transfer: int, turn: int) -> VideoTags:
    """The tags of a video by what its stream and decoder say: ``aspect`` is a ratio of PyAV's, or None.

    Its frames are turned by ``turn`` degrees to be upright.
    """
    found = Fraction(aspect.numerator, aspect.denominator) if aspect else Fraction(1)  # from PyAV 19 on no Fraction
    if not 1 / _MOST_ASPECT <= found <= _MOST_ASPECT:
        found = Fraction(1)
    found = found.limit_denominator(_MOST_NUMBER)
    return VideoTags(1 / found if turn % 180 else found, primaries, transfer)


def write_tags(tags: VideoTags, context: Any) -> None:
    """Let an encoder (av.VideoCodecContext) that is not open yet say the same."""
    if tags.pixel_aspect != 1:
        context.sample_aspect_ratio = tags.pixel_aspect
    context.color_primaries, context.color_trc = tags.primaries, tags.transfer


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
