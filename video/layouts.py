"""Sizes of the tensors that hold pictures, with channels last (NHWC) or first (NCHW), as PyTorch's models have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from .basic_types import Array

Layout = Literal["nhwc", "nchw"]
"""The order of dimensions: batch, height, width, channels, or batch, channels, height, width."""


class PictureShape(NamedTuple):
    """The sizes of one picture, or of one map of values, in a tensor of batch 1."""

    height: int
    width: int
    channels: int
    layout: Layout = "nhwc"

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.width, self.height

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape of the tensor."""
        if self.layout == "nchw":
            return 1, self.channels, self.height, self.width
        return 1, self.height, self.width, self.channels

    def from_tensor(self, values: Array) -> Array:
        """The values of the tensor as a picture (height, width, channels), without a copy."""
        picture = values.reshape(self.shape)[0]
        return picture.transpose(1, 2, 0) if self.layout == "nchw" else picture

    def to_tensor(self, picture: Array) -> Array:
        """A picture (height, width, channels) as values of the tensor."""
        return np.ascontiguousarray(picture.transpose(2, 0, 1) if self.layout == "nchw" else picture)[None]


def picture_shape(shape: Sequence[int], layout: Layout) -> PictureShape | None:
    """The sizes of a picture in a tensor of that shape and layout; None if it has another rank, or another batch."""
    if len(shape) != 4 or shape[0] != 1:
        return None
    _, *sizes = shape
    channels, height, width = sizes if layout == "nchw" else (sizes[2], sizes[0], sizes[1])
    return PictureShape(height, width, channels, layout)


def map_shape(shape: Sequence[int], layout: Layout, picture: PictureShape) -> PictureShape | None:
    """The sizes of a map of a picture: a tensor with the picture's proportions, of any number of channels.

    A map of more than 4 channels has no layout of its own: it is the one in which the proportions are the picture's,
    and, if that holds for both, the picture's. (1, height, width) is a map of one channel. None for another tensor.
    """
    if len(shape) == 3:
        shape, layout = (*shape, 1), "nhwc"
    layouts: tuple[Layout, ...] = (layout if layout == "nchw" else picture.layout, picture.layout, "nhwc", "nchw")
    found = (picture_shape(shape, each) for each in layouts)
    return next((each for each in found if each is not None and is_alike(each, picture)), None)


def is_alike(one: PictureShape, other: PictureShape) -> bool:
    """Whether two sizes have the same proportions, but for rounding to whole pixels."""
    return abs(one.height * other.width - one.width * other.height) <= other.height + other.width
