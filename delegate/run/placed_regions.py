"""Buffers of regions: the checks when a picture is bound with one, and other buffers in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...interop.arrays import SLICE_ALIGNMENT, ArrayLayout
from ...interop.device import Device, Resource
from ...interop.dlpack import is_on_host
from ...interop.errors import BindingError
from ...kernels.tensor import strides_of
from ..plan.binding import Binding, Crop, TextureMapping
from ..plan.region import ROW_BYTES, Region

_CROP = TextureMapping._fields.index("crop")


def region_buffer(device: Device, crop: Crop | None, where: str) -> tuple[Resource, ...]:
    """The buffer of a Region, or () for another crop. Raises BindingError, which begins with ``where``."""
    if not isinstance(crop, Region):
        return ()
    if is_on_host(crop.buffer):
        raise BindingError(f"{where}: the buffer of its Region is in the CPU's memory; give one on the GPU")
    try:
        resource = device.borrow(crop.buffer)
    except BindingError as error:
        raise BindingError(f"{where}: the buffer of its Region cannot be used: {error}") from error
    if resource.format or not (resource.layout is None or _holds_rows(resource.layout)):
        raise BindingError(
            f"{where}: {resource.label}, of its Region, is no buffer, and no array of float32 without gaps that begins "
            f"at a multiple of {SLICE_ALIGNMENT} bytes"
        )
    needed = (crop.index + 1) * ROW_BYTES
    if resource.nbytes < needed:
        raise BindingError(
            f"{where}: {resource.label} has {resource.nbytes} bytes, and row {crop.index} of a Region ends at {needed}"
        )
    if resource.released:
        raise BindingError(f"{where}: {resource.label}, of its Region, is released; give one that is alive")
    return (resource,)


def _holds_rows(layout: ArrayLayout) -> bool:
    steps = zip(layout.shape, layout.strides, strides_of(layout.shape), strict=True)
    return layout.dtype == np.float32 and layout.is_aligned and all(one == two for size, one, two in steps if size > 1)


def other_regions(given: tuple[Any, ...], before: tuple[Any, ...]) -> tuple[Region, ...]:
    """The regions of a mapping's values that differ from those before in their buffers alone; () if more differs."""
    crops, known = (
        each[_CROP] if isinstance(each[_CROP], tuple) else each[_CROP : _CROP + 1] for each in (given, before)
    )
    if len(crops) != len(known) or given[:_CROP] != before[:_CROP] or given[_CROP + 1 :] != before[_CROP + 1 :]:
        return ()
    for one, other in zip(crops, known, strict=True):
        if not isinstance(one, Region) or not isinstance(other, Region):
            return ()
        if (one.index, one.steps) != (other.index, other.steps):
            return ()
    return crops


def with_regions(device: Device, binding: Binding, regions: Sequence[Region]) -> Binding | None:
    """A binding whose regions are these, one for all of its frames or one for each; None if a buffer is not alike."""
    parts = list[Binding]()
    for number, part in enumerate(binding.parts):
        if not part.region:
            return None
        try:
            resource = device.borrow(regions[number % len(regions)].buffer)
        except BindingError:
            return None
        if not is_alike(resource, part.region[0]):
            return None
        parts.append(replace(part, others=(*part.others[:-1], resource)))
    return replace(binding, resource=parts[0].resource, frames=tuple(parts)) if binding.frames else parts[0]


def is_alike(resource: Resource, before: Resource) -> bool:
    """Whether another resource can take the place of the one before without a decision.

    A staged texture is never alike, because a buffer stands for it.
    """
    alike = resource.format == before.format and resource.size == before.size and resource.nbytes == before.nbytes
    return alike and resource.layout == before.layout and not resource.released and type(resource) is type(before)
