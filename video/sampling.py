"""Pictures as inputs of a model: the arguments that say how one is resampled, and the same arithmetic by NumPy."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from .basic_types import Array

Values = float | tuple[float, ...]
"""A number for all channels, or one for each."""
Crop = tuple[float, float, float, float]
"""A rectangle of a picture: x, y, width and height in texels."""


class Sampling(NamedTuple):
    """The arguments of ``fb.GpuDelegate.bind_buffer_to_tensor`` that turn a picture into a tensor."""

    mean: Values
    std: Values
    crop: Crop | None
    rotation: float
    pad: float | None = None
    """The texel beyond the picture, from 0 to 1; None continues its edge."""


def sampled(texels: Array, size: tuple[int, int], sampling: Sampling) -> Array:
    """The texels (from 0 to 1) of a bound picture (height, width, channels) at ``size`` (height, width), before mean
    and std.
    """
    picture = resample(texels, size, sampling.crop, sampling.rotation)
    if texels.dtype == np.uint8:
        picture /= np.float32(255)
    if sampling.pad is not None:
        x, y = _positions(texels.shape[:2], size, sampling.crop, sampling.rotation)
        picture[(x < 0) | (x >= texels.shape[1]) | (y < 0) | (y >= texels.shape[0])] = sampling.pad
    return picture


def resample(texels: Array, size: tuple[int, ...], crop: Crop | None = None, rotation: float = 0.0) -> Array:
    """Resample a picture (height, width, channels) to ``size`` (height, width), bilinearly, as float32.

    The result equals the GPU's reading of a bound texture: values are at the centres of pixels, and the edge continues
    beyond the picture. ``crop`` (x, y, width, height in texels) is turned by ``rotation`` degrees clockwise around its
    centre.
    """
    corners, weights = _bilinear(texels.shape[:2], tuple(size), crop, rotation)
    flat = texels.reshape(-1, texels.shape[2])
    result = flat[corners[0]] * weights[0]
    for corner, weight in zip(corners[1:], weights[1:], strict=True):
        result += flat[corner] * weight
    return result.reshape(*size, texels.shape[2])


@functools.lru_cache(maxsize=4)
def _bilinear(
    texture: tuple[int, int], size: tuple[int, int], crop: Crop | None, rotation: float
) -> tuple[list[Array], list[Array]]:
    """The numbers of the four texels around each pixel of the result, and their weights."""
    x, y = _positions(texture, size, crop, rotation)
    x, y = np.clip(x - 0.5, 0, texture[1] - 1).ravel(), np.clip(y - 0.5, 0, texture[0] - 1).ravel()
    left, top = x.astype(np.int64), y.astype(np.int64)
    right, bottom = np.minimum(left + 1, texture[1] - 1), np.minimum(top + 1, texture[0] - 1)
    across, down = x - left, y - top
    corners = [row * texture[1] + column for row in (top, bottom) for column in (left, right)]
    weights = [v * h for v in (1 - down, down) for h in (1 - across, across)]
    return corners, [weight.astype(np.float32)[:, None] for weight in weights]


def _positions(
    texture: tuple[int, ...], size: tuple[int, ...], crop: Crop | None, rotation: float
) -> tuple[Array, Array]:
    """The place (x, y) of each pixel's centre in the texture, in texels."""
    if crop is None:
        width, height = texture if rotation % 180 == 90 else texture[::-1]
        crop = ((texture[1] - width) / 2, (texture[0] - height) / 2, width, height)
    y, x = np.mgrid[0 : size[0], 0 : size[1]]
    x, y = ((x + 0.5) / size[1] - 0.5) * crop[2], ((y + 0.5) / size[0] - 0.5) * crop[3]
    cosine, sine = math.cos(math.radians(rotation)), math.sin(math.radians(rotation))
    return crop[0] + crop[2] / 2 + cosine * x - sine * y, crop[1] + crop[3] / 2 + sine * x + cosine * y
