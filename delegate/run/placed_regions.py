"""Buffers of regions: the checks when a picture is bound with one."""

from __future__ import annotations

import numpy as np

from ...interop.arrays import SLICE_ALIGNMENT, ArrayLayout
from ...interop.device import Device, Resource
from ...interop.dlpack import is_on_host
from ...interop.errors import BindingError
from ...kernels.tensor import strides_of
from ..plan.binding import Crop
from ..plan.region import ROW_BYTES, Region


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
