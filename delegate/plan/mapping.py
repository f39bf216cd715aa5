"""Regions and scales of pictures in tensors: meaning and checks of the arguments of ``bind_buffer_to_tensor``."""

from __future__ import annotations

import math
from typing import Literal

from ...interop.errors import BindingError
from ...kernels.tensor import Shape
from ...kernels.views import padding_parameters, picture_parameters, region_parameters
from .binding import TextureMapping, Values
from .region import Region

ORDERS = {1: "r", 2: "rg", 3: "rgb", 4: "rgba"}
"""The channels of a picture by their number."""
FLIPS = ("", "horizontal", "vertical", "both")


def values_of(values: Values) -> tuple[float, ...]:
    """A mean or std: one number, or one for each channel."""
    return (float(values),) if isinstance(values, int | float) else tuple(map(float, values))


def order_of(where: str, available: str, channels: int, order: str | None) -> str:
    """The picture's channel for each of the tensor's. ``available`` are those that the picture has."""
    if order is None:
        return ORDERS[channels]
    if len(order) != channels or len(set(order)) != len(order) or not set(order) <= set(available):
        raise BindingError(
            f"{where}: order {order!r} must name {channels} different channels of '{available}', the texture's channel "
            f"for each of the tensor's in turn (for instance {ORDERS[channels]!r})"
        )
    return order


def check_mapping(where: str, mapping: TextureMapping, channels: int) -> None:
    """Raise BindingError, which begins with ``where``, for invalid numbers and words."""
    for name, given in (("mean", mapping.mean), ("std", mapping.std)):
        values = values_of(given)
        if len(values) not in (1, channels) or not all(map(math.isfinite, values)):
            raise BindingError(
                f"{where}: {name} {given} must be one finite number, or one for each of {channels} channels"
            )
    if mapping.pad is not None and not _is_pad(mapping.pad, channels):
        raise BindingError(
            f"{where}: pad {mapping.pad} must be one finite number, or one for each of {channels} channels: the texels "
            "(from 0 to 1) beyond the picture"
        )
    if 0.0 in values_of(mapping.std):
        raise BindingError(f"{where}: std is 0; a tensor value is (texel - mean) / std, with texels from 0 to 1")
    if mapping.flip not in FLIPS:
        raise BindingError(f"{where}: flip {mapping.flip!r} must be 'horizontal', 'vertical', 'both' or ''")
    if not math.isfinite(mapping.rotation):
        raise BindingError(f"{where}: rotation {mapping.rotation} must be a number of degrees")
    crop = mapping.crop
    if isinstance(crop, Region):
        _check_region(where, crop, mapping.rotation)
    elif crop is not None and not (len(crop) == 4 and all(map(math.isfinite, crop)) and crop[2] > 0 and crop[3] > 0):
        raise BindingError(f"{where}: crop {crop} must be (x, y, width, height) in texels, width and height above 0")


def _check_region(where: str, region: Region, rotation: float) -> None:
    if rotation % 90:
        raise BindingError(
            f"{where}: rotation {rotation} turns the picture before a Region is taken: give a multiple of 90, and put "
            "other angles into the region's row"
        )
    for name, value in (("index", region.index), ("steps", region.steps)):
        if not 0 <= value < 1 << 24:
            raise BindingError(f"{where}: the {name} of its Region is {value}; give a number from 0 to 16777215")


def mapped_parameters(
    shape: Shape,
    size: tuple[int, int],
    mapping: TextureMapping,
    *,
    write: bool = False,
    planes: tuple[float, ...] = (),
) -> tuple[float, ...]:
    """The parameters of a picture of (width, height) pixels, bound to a tensor of BHWC ``shape``.

    ``planes`` are those of its planes.
    """
    mean, std, crop = values_of(mapping.mean), values_of(mapping.std), mapping.crop
    placed_shape, region = shape, tuple[float, ...]()
    if isinstance(crop, Region):  # the map is from pixels of the upright picture, which the region's row gives
        columns, rows = size if mapping.rotation % 180 == 0 else size[::-1]
        placed_shape, region = (1, rows, columns, shape[3]), region_parameters(shape, crop.index, crop.steps)
        crop = None
    placed = picture_parameters(
        placed_shape, size, crop=crop, rotation=mapping.rotation, flip=mapping.flip, mean=mean, std=std, write=write
    )
    padding = () if mapping.pad is None else padding_parameters(shape[3], values_of(mapping.pad), mean=mean, std=std)
    return placed + planes + region + padding


def _is_pad(pad: Values, channels: int) -> bool:
    values = values_of(pad)
    return len(values) in (1, channels) and all(map(math.isfinite, values))


def sampling_of(
    picture: tuple[int, int], shape: Shape, mapping: TextureMapping, *, write: bool = False
) -> Literal["exact", "bilinear"]:
    """The sampling of a picture: exact if every pixel of the tensor is one of the picture's, or if it is written.

    A crop is never exact, so that moving it changes parameters and no kernel.
    """
    size = shape[2], shape[1]
    if write:
        return "exact"
    if mapping.crop is not None or mapping.rotation % 90:
        return "bilinear"
    return "exact" if size == (picture if mapping.rotation % 180 == 0 else picture[::-1]) else "bilinear"
