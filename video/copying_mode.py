"""The copying mode, which is what programs without bindings do: objects are read back, and results uploaded."""

from __future__ import annotations

import math

import numpy as np

import framebind as fb

from .basic_types import Array
from .layouts import Layout, PictureShape, picture_shape
from .sampling import Sampling, sampled

COPYING = "copying mode"
"""The reason in ``fb.transfers`` for the copies from and to GL objects."""


def read_input(obj: fb.GlTexture | fb.GlBuffer, sampling: Sampling, shape: tuple[int, ...], layout: Layout) -> Array:
    """The tensor of this shape that a bound object is for a model, read back and resampled by NumPy."""
    if isinstance(obj, fb.GlBuffer):
        return obj.read(reason=COPYING)[: math.prod(shape)].reshape(shape)
    sizes, texels = picture_shape(shape, layout), obj.read(reason=COPYING)
    assert sizes is not None, "a texture was bound"
    picture = sampled(texels, (sizes.height, sizes.width), sampling)[..., : sizes.channels]
    return sizes.to_tensor((picture - np.asarray(sampling.mean, np.float32)) / np.asarray(sampling.std, np.float32))


def write_output(
    obj: fb.GlTexture | fb.GlBuffer, sampling: Sampling, sizes: PictureShape | None, values: Array
) -> None:
    """Upload an output's values to the object that is bound to it."""
    if isinstance(obj, fb.GlBuffer):
        obj.write(values.astype(np.float32, copy=False), reason=COPYING)  # classes are integers
        return
    assert sizes is not None, "a texture was bound"
    picture = sizes.from_tensor(values) * np.asarray(sampling.std, np.float32) + np.asarray(sampling.mean, np.float32)
    if obj.format in ("rgba8", "r8"):
        picture = np.rint(np.clip(picture, 0, 1) * 255).astype(np.uint8)
    obj.write(np.ascontiguousarray(picture), reason=COPYING)
