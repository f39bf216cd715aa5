"""Pictures in planes as model tensors: arrays of bytes, and luma and chroma of video."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...interop.arrays import ArrayLayout
from ...interop.device import Device, Resource, is_staged
from ...interop.dlpack import host_array, is_on_host
from ...interop.errors import BindingError
from ...interop.host_arrays import HostArray
from ...interop.yuv import YuvPicture
from ...kernels.views import SAMPLE_BYTES, Plane, plane_parameters

CHANNELS = (1, 3, 4)
"""The numbers of channels that arrays of bytes have as pictures."""
_LARGEST_FLOAT = 1 << 24
"""The largest whole number up to which floats hold all: parameters are floats."""
_LAST_NUMBER = (1 << 31) - 1
"""The last number of a buffer that a kernel can address."""


class PlacedPlane(NamedTuple):
    """A plane's view, the number of its object, and its parameters."""

    view: Plane
    memory: int
    parameters: tuple[float, ...]


class PlacedPlanes(NamedTuple):
    """A picture's size in pixels, its planes, and the objects in which they lie. ``hosts`` are those that stand for
    arrays in the CPU's memory.
    """

    size: tuple[int, int]
    placed: tuple[PlacedPlane, ...]
    resources: tuple[Resource, ...]
    hosts: tuple[HostArray, ...] = ()

    @property
    def channels(self) -> int:
        return sum(plane.view.lanes for plane in self.placed)

    @property
    def views(self) -> tuple[Plane, ...]:
        return tuple(plane.view for plane in self.placed)

    @property
    def memories(self) -> tuple[int, ...]:
        return tuple(plane.memory for plane in self.placed)

    @property
    def parameters(self) -> tuple[float, ...]:
        """The parameters of all planes in turn: see kernels/views.py."""
        return tuple(number for plane in self.placed for number in plane.parameters)


# Arrays of bytes ------------------------------------------------------------------------------------------------------


def check_bytes(dtype: np.dtype[Any], where: str) -> None:
    """Raise BindingError if an array does not hold bytes."""
    if dtype != np.uint8:
        raise BindingError(f"{where}: its numbers are {dtype}, and a picture's are bytes (uint8)")


def byte_planes(layout: ArrayLayout, where: str) -> tuple[tuple[int, int], tuple[PlacedPlane, ...]]:
    """The size and the planes of an array of bytes: (height, width), (height, width, C) or (C, height, width).

    A first dimension of 1 may stand before three others. Raises BindingError, which begins with ``where``.
    """
    shape, strides = layout.shape, layout.strides
    if len(shape) == 4 and shape[0] == 1:
        shape, strides = shape[1:], strides[1:]
    if len(shape) == 2:
        shape, strides = (*shape, 1), (*strides, 0)
    if len(shape) == 3 and shape[2] not in CHANNELS and shape[0] in CHANNELS:
        shape, strides = (shape[1], shape[2], shape[0]), (strides[1], strides[2], strides[0])
    if len(shape) != 3 or shape[2] not in CHANNELS:
        raise BindingError(
            f"{where}: bytes are a picture, of shape (height, width, channels), (channels, height, width) or "
            f"(height, width), with 1, 3 or 4 channels; this one has the shape {layout.shape}"
            + ("; for a batch bind a list with a picture for each frame" if len(layout.shape) == 4 else "")
        )
    height, width, channels = shape
    pitch, step, across = strides
    if across == 1 or channels == 1:  # a channel's number behind the other
        parameters = plane_parameters((width, height), pitch)
        placed = (PlacedPlane(Plane("uint8", channels, step), 0, parameters),)
    else:
        pitch = pitch or across
        if pitch == 0 or across % pitch:
            raise BindingError(
                f"{where}: its channels are {across} bytes apart and its rows {pitch}, and a channel must begin a "
                "whole number of rows behind the other; bind a copy"
            )
        rows = (plane_parameters((width, height), pitch, c * across // pitch) for c in range(channels))
        placed = tuple(PlacedPlane(Plane("uint8", 1, step), 0, parameters) for parameters in rows)
    _check_reach(layout.nbytes, placed, where)
    return (width, height), placed


def _check_reach(numbers: int, placed: Sequence[PlacedPlane], where: str) -> None:
    """Raise BindingError if kernels cannot address so many numbers, or a parameter is no exact float."""
    largest = max(max(plane.parameters) for plane in placed)
    if numbers > _LAST_NUMBER or largest > _LARGEST_FLOAT:
        raise BindingError(
            f"{where}: it has {numbers} numbers in rows of up to {largest:.0f}, and kernels count to {_LAST_NUMBER} "
            f"numbers, and {_LARGEST_FLOAT} in a row; bind a part of it"
        )


# Video ----------------------------------------------------------------------------------------------------------------


def yuv_planes(device: Device, picture: YuvPicture, where: str, before: Sequence[HostArray]) -> PlacedPlanes:
    """The planes of a picture of video. ``before`` are the arrays that were bound until now, for their buffers.

    Raises BindingError, which begins with ``where``, if they do not fit the picture.
    """
    on_host = [is_on_host(plane) for plane in picture.planes]
    if any(on_host) and not all(on_host):
        raise BindingError(f"{where}: some of its planes lie on the CPU and others do not; bind them all on one side")
    resources, hosts, placed, size = list[Resource](), list[HostArray](), list[PlacedPlane](), None
    for number, native in enumerate(picture.planes):
        part = f"{where}, plane {number}"
        if on_host[0]:
            buffer_of = before[number] if number < len(before) else None
            host = HostArray(device, _on_host(native, part), part, buffer_of, copies_padding=True)
            hosts.append(host)
            resource: Resource = host.buffer
            layout: ArrayLayout | None = host.layout
        else:
            resource = _borrowed(device, native, part)
            layout = resource.layout
        resources.append(resource)
        size = size or _luma_size(picture, resource, layout, part)
        placed.append(_yuv_plane(picture, number, size, resource, layout, part))
        if layout is None and not resource.format:
            _check_buffer(placed[-1], resource, device.traits.word_bytes, size, part)
    assert size is not None
    return PlacedPlanes(size, tuple(placed), tuple(resources), tuple(hosts))


def _borrowed(device: Device, native: Any, part: str) -> Resource:
    try:
        resource = device.borrow(native)
    except BindingError as error:
        raise BindingError(f"{part}: {error}") from error
    if is_staged(resource):
        raise BindingError(f"{part}: {resource.label} is another API's; bind planes of {device.traits.api}'s")
    if resource.released:
        raise BindingError(f"{part}: {resource.label} is released; bind one that is alive")
    return resource


def _on_host(native: Any, part: str) -> np.ndarray:
    try:
        return host_array(native)
    except BindingError as error:
        raise BindingError(f"{part}: {error}") from error


def _luma_size(picture: YuvPicture, resource: Resource, layout: ArrayLayout | None, part: str) -> tuple[int, int]:
    """The width and height of a picture, from the array ``layout`` of its first plane."""
    if picture.width is not None and picture.height is not None:
        return picture.width, picture.height
    if layout is not None:
        shape, _ = _rows(layout, 1, part)
        return shape[1], shape[0]
    if resource.format:
        return resource.size
    raise BindingError(f"{part}: {resource.label} is a buffer, which has no size; give YuvPicture width and height")


def _yuv_plane(
    picture: YuvPicture, number: int, luma: tuple[int, int], resource: Resource, layout: ArrayLayout | None, part: str
) -> PlacedPlane:
    format = picture.layout
    left, top = number > 0 and picture.siting != "center", number > 0 and picture.siting == "topleft"
    lanes, columns, rows = (format.chroma[number - 1], format.columns, format.rows) if number else (1, 1, 1)
    width, height = -(-luma[0] // columns), -(-luma[1] // rows)
    if resource.format:
        wanted = f"r{'g' if lanes == 2 else ''}{8 if format.dtype == 'uint8' else 16}"
        if resource.format != wanted or resource.size != (width, height):
            raise BindingError(
                f"{part}: {resource.label} is {resource.format} of {resource.size[0]}x{resource.size[1]}, and a "
                f"picture of {luma[0]}x{luma[1]} has {wanted} of {width}x{height} there"
            )
        view = Plane(wanted, lanes, 0, columns, rows, left, top)
        return PlacedPlane(view, number, plane_parameters((width, height)))
    pitch, step = width * lanes, lanes
    if layout is not None:
        if layout.dtype != format.dtype:
            raise BindingError(f"{part}: its numbers are {layout.dtype}, and must be {format.dtype}")
        shape, (pitch, step) = _rows(layout, lanes, part)
        if shape[0] < height or shape[1] < width:
            raise BindingError(
                f"{part}: it has {shape[0]} rows of {shape[1]} pixels, and a picture of {luma[0]}x{luma[1]} has "
                f"{height} of {width} there"
            )
    placed = PlacedPlane(
        Plane(format.dtype, lanes, step, columns, rows, left, top), number, plane_parameters((width, height), pitch)
    )
    _check_reach(pitch * height, (placed,), part)
    return placed


def _check_buffer(plane: PlacedPlane, resource: Resource, word: int, luma: tuple[int, int], part: str) -> None:
    """Raise BindingError if a buffer ends before the plane's rows, which have no padding. Kernels read whole words."""
    _, height, pitch, _ = map(int, plane.parameters)
    needed = pitch * height * SAMPLE_BYTES[plane.view.format]
    if resource.nbytes < -(-needed // word) * word:
        raise BindingError(
            f"{part}: {resource.label} has {resource.nbytes} bytes, and a picture of {luma[0]}x{luma[1]} has {needed} "
            f"there, {height} rows of {pitch} numbers of type {plane.view.format}"
            + (f"; kernels read words of {word} bytes, so round it up to a multiple of {word}" if needed % word else "")
        )


def _rows(layout: ArrayLayout, lanes: int, part: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """The rows and pixels of a plane of video; and the numbers from a row to the next, and from a pixel to the next."""
    shape, strides = layout.shape, layout.strides
    while len(shape) > 2 + (lanes > 1) and shape[0] == 1:
        shape, strides = shape[1:], strides[1:]
    if len(shape) == 3 and shape[2] == lanes and (lanes == 1 or strides[2] == 1):
        return (shape[0], shape[1]), (strides[0], strides[1])
    if len(shape) == 2 and (lanes == 1 or strides[1] == 1):
        return (shape[0], shape[1] // lanes), (strides[0], lanes * strides[1])
    wanted = "(height, width)" if lanes == 1 else "(height, width, 2), with the two next to each other"
    raise BindingError(f"{part}: its shape is {layout.shape} with strides {layout.strides}, and must be {wanted}")
