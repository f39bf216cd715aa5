"""User objects as model tensors: the checks, the views by which kernels read or write them, and the errors."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...interop.arrays import ArrayLayout, share_elements
from ...interop.device import Device, Resource, is_staged
from ...interop.dlpack import host_array, is_on_host
from ...interop.errors import BindingError
from ...interop.host_arrays import HostArray
from ...interop.yuv import YuvPicture
from ...kernels.colours import YuvColours
from ...kernels.tensor import INTEGER_DTYPES, LARGEST_RANK, TensorInfo
from ...kernels.views import TEXTURE_CHANNELS, Dense, Picture, PlanePicture, Quantized, Sliced, Strided
from ..plan.binding import Binding, TextureMapping
from ..plan.mapping import ORDERS, check_mapping, mapped_parameters, order_of, sampling_of, values_of
from .arrays import array_values, array_view, check_type, check_written, fill, memory_of
from .messages import tensor_label
from .placed_regions import is_alike, region_buffer
from .planes import PlacedPlanes, byte_planes, check_bytes, yuv_planes
from .tensor_layout import cost_of_picture, or_layout, with_layout

_TEXEL_DTYPES = {
    "rgba8": "uint8", "bgra8": "uint8", "r8": "uint8", "rgba16f": "float16", "rgba32f": "float32", "r32f": "float32",
}  # fmt: skip
"""The types of the channels of textures that kernels write."""
_MOST_DECIDED = 8
"""Bindings of a picture of video that are kept, one for each model that reads it, and each buffer of its regions."""
_INPUTS_ONLY = "bytes and video are inputs; the model writes an array of float32 or float16, or a texture"


def make_binding(
    device: Device,
    obj: Any,
    tensor: TensorInfo,
    index: int,
    *,
    write: bool,
    mapping: TextureMapping | None = None,
    previous: Binding | None = None,
) -> Binding:
    """Decide how ``obj`` (a texture or buffer of ``device``, or a wrapper that it can borrow) is tensor ``index``.

    ``write``: the model writes it (an output). ``previous`` is the tensor's binding until now, whose memory may be used
    again. Raises BindingError, naming tensor and object, if it cannot be.
    """
    mapping = mapping or TextureMapping()
    tensor = with_layout(tensor, mapping.layout, tensor_label(index, tensor))
    what = tensor_label(index, tensor)
    if isinstance(obj, YuvPicture):
        return _video(device, obj, tensor, what, mapping, write=write, previous=previous)
    try:
        resource = host_array(obj) if is_on_host(obj) else device.borrow(obj)
    except BindingError as error:
        raise BindingError(f"{what} cannot be bound: {error}") from error
    if not isinstance(resource, np.ndarray) and resource.released:
        raise BindingError(f"{what} cannot be bound to {resource.label}: it is released; bind one that is alive")
    if tensor.dtype != "float32" and tensor.dtype not in INTEGER_DTYPES:
        raise BindingError(f"{what} cannot be bound: it is {tensor.dtype}, and only floats and integers can be bound")
    if len(tensor.shape) > LARGEST_RANK:
        raise BindingError(
            f"{what} cannot be bound: its rank is {len(tensor.shape)}, and at most {LARGEST_RANK} has a BHWC form"
        )
    if isinstance(resource, np.ndarray):
        return _host(device, resource, tensor, what, mapping, write=write, previous=previous)
    if not resource.format:
        return _buffer(device, resource, tensor, what, mapping, write=write)
    binding = _texture(device, resource, tensor, what, write, mapping)
    return _staged(binding, write, previous) if is_staged(resource) else binding


def rebound(device: Device, obj: Any, previous: Binding) -> Binding | None:
    """``previous`` with another object, if all its decisions hold for it, too: a ring's next texture.

    None if it has to be decided anew: another kind, size or format, or an object that ``make_binding`` refuses.
    """
    try:
        if previous.described:
            return _video_again(device, obj, previous) if isinstance(obj, YuvPicture) else None
        if previous.hosts:
            return _host_again(device, host_array(obj), previous) if is_on_host(obj) else None
        resource = device.borrow(obj)
    except BindingError:
        return None
    if isinstance(previous.view, PlanePicture) or not is_alike(resource, previous.resource):
        return None
    return replace(previous, resource=resource)


def _staged(binding: Binding, write: bool, previous: Binding | None) -> Binding:
    """The binding of a texture that kernels cannot address: a buffer stands for it."""
    texture, view = binding.resource, binding.view
    assert is_staged(texture) and isinstance(view, Picture)
    buffer = texture.stage(view, binding.parameters, write=write, previous=previous.resource if previous else None)
    return replace(
        binding, resource=buffer, view=Dense(view.shape), parameters=(), how="at most one conversion dispatch"
    )


def _host(
    device: Device,
    array: np.ndarray,
    tensor: TensorInfo,
    what: str,
    mapping: TextureMapping,
    *,
    write: bool,
    previous: Binding | None,
) -> Binding:
    """An array in the CPU's memory: a buffer stands for it."""
    label = f"an array of {array.shape} {array.dtype} on the CPU"
    if not array.size:
        raise BindingError(f"{what} cannot be bound to {label}: it is empty")
    where = f"{what} cannot be bound to {label}"
    if array.dtype == np.uint8:
        if write:
            raise BindingError(f"{where}: {_INPUTS_ONLY}")
        return _planes(device, _bytes_on_host(device, array, where, previous), None, tensor, where, mapping)
    _check_unmapped(label, what, mapping)
    check_type(array.dtype, where)
    if write:
        strides = tuple(abs(stride) // array.itemsize for stride in array.strides)
        check_written(ArrayLayout(array.shape, strides, array.dtype, read_only=not array.flags.writeable), where)
    host = HostArray(device, array, label, previous.hosts[0] if previous and previous.hosts else None)
    return Binding(host.buffer, array_view(host.layout, tensor, where, write=write), hosts=(host,))


def _host_again(device: Device, array: np.ndarray, previous: Binding) -> Binding | None:
    """The binding of another array like the one before; None if it is not alike."""
    (host,) = previous.hosts
    if host.like(array):
        return replace(previous, hosts=(host.exchanged(array),))
    if isinstance(previous.view, PlanePicture):
        return _planes_again(_bytes_on_host(device, array, "", previous), None, previous)
    return None


def _bytes_on_host(device: Device, array: np.ndarray, where: str, previous: Binding | None) -> PlacedPlanes:
    """The planes of an array of bytes in the CPU's memory."""
    check_bytes(array.dtype, where)
    before = previous.hosts[0] if previous and previous.hosts else None
    host = HostArray(device, array, where, before, copies_padding=True)
    return PlacedPlanes(*byte_planes(host.layout, where), (host.buffer,), (host,))


def _video(
    device: Device,
    picture: YuvPicture,
    tensor: TensorInfo,
    what: str,
    mapping: TextureMapping,
    *,
    write: bool,
    previous: Binding | None,
) -> Binding:
    """A picture of video."""
    where = f"{what} cannot be bound to {picture}"
    if write:
        raise BindingError(f"{where}: {_INPUTS_ONLY}")
    planes = yuv_planes(device, picture, where, previous.hosts if previous else ())
    return _planes(device, planes, picture, tensor, where, mapping)


def _video_again(device: Device, picture: YuvPicture, previous: Binding) -> Binding | None:
    """The binding of the next picture of a video; None if it is not like the one before.

    A decoder has few surfaces, so a picture in a reused surface keeps the surface's binding.
    """
    if picture.described != previous.described:
        return None
    for known in picture.decided:
        alike = known.view is previous.view and known.parameters is previous.parameters
        has_region = alike and isinstance(known.view, Picture | PlanePicture) and known.view.region
        # Not by Binding.region: this runs for each frame.
        if alike and (not has_region or known.others[-1] is previous.others[-1]):
            resources = known.resources
            if all(map(operator.is_, resources, picture.planes)) and not any([each.released for each in resources]):
                return known
    if previous.hosts:
        return _video_on_host_again(device, picture, previous)
    first, *others = [device.borrow(plane) for plane in picture.planes]
    if not all(map(is_alike, (first, *others), previous.resources)):
        return None
    binding = replace(previous, resource=first, others=(*others, *previous.region))
    if all(map(operator.is_, binding.resources, picture.planes)):  # or each time a new object stands for a plane
        picture.decided = [binding, *picture.decided[: _MOST_DECIDED - 1]]
    return binding


def _video_on_host_again(device: Device, picture: YuvPicture, previous: Binding) -> Binding | None:
    """The binding of the next picture of a video in the CPU's memory; None if it is not like the one before."""
    if len(picture.planes) == len(previous.hosts) and all(map(is_on_host, picture.planes)):
        arrays = list(map(host_array, picture.planes))
        if all([host.like(array) for host, array in zip(previous.hosts, arrays, strict=True)]):  # nothing to decide
            return replace(previous, hosts=tuple(map(HostArray.exchanged, previous.hosts, arrays)))
    return _planes_again(yuv_planes(device, picture, "", previous.hosts), picture.colours, previous)


def _planes_again(planes: PlacedPlanes, colours: YuvColours | None, previous: Binding) -> Binding | None:
    """The binding of another picture in planes; None if it is not like the one before to kernels."""
    view, parameters = previous.view, previous.parameters
    if not isinstance(view, PlanePicture) or bool(planes.hosts) != bool(previous.hosts):
        return None
    alike = (planes.views, planes.memories, colours) == (view.planes, view.memories, view.colours)
    before = parameters[16 : 16 + 4 * len(view.planes)]
    if not alike or planes.size != (parameters[3], parameters[7]) or planes.parameters != before:
        return None
    others = (*planes.resources[1:], *previous.region)
    return replace(previous, resource=planes.resources[0], others=others, hosts=planes.hosts)


def _planes(
    device: Device,
    planes: PlacedPlanes,
    video: YuvPicture | None,
    tensor: TensorInfo,
    where: str,
    mapping: TextureMapping,
) -> Binding:
    """A picture in planes: of bytes, or of ``video``."""
    shape = tensor.picture_shape
    channels = shape[3]
    has = min(max(channels, 3), 4) if video is not None else planes.channels  # a fourth channel of video is 1: opaque
    if shape[0] != 1 or channels > has:
        or_pictures = f" or a list of {shape[0]} pictures" if channels <= has else ""
        raise BindingError(
            f"{where}: a picture of {has} channels holds batch 1 and 1 to {has} channels of numbers, and the tensor is "
            f"{tensor.dtype} {tensor.bhwc}; bind an array of float32{or_pictures}{or_layout(tensor)}"
        )
    order = order_of(where, ORDERS[has], channels, mapping.order)
    check_mapping(where, mapping, channels)
    region = region_buffer(device, mapping.crop, where)
    view = PlanePicture(
        shape, planes.views, planes.memories, order,
        sampling_of(planes.size, shape, mapping), video.colours if video is not None else None,
        is_padded=mapping.pad is not None, region=len(planes.resources) if region else 0,
        whole=tensor.dtype != "float32",
    )  # fmt: skip
    parameters = mapped_parameters(shape, planes.size, _of_bytes(mapping, tensor), planes=planes.parameters)
    first, *others = planes.resources
    return Binding(
        first, view, parameters, cost_of_picture(tensor, write=False), others=(*others, *region), hosts=planes.hosts,
        described=video.described if video is not None else (), channels_last=tensor.channels_first,
    )  # fmt: skip


def _of_bytes(mapping: TextureMapping, tensor: TensorInfo) -> TextureMapping:
    """The relation of texels and values: those of a uint8 tensor without a scale are the bytes of a picture."""
    if tensor.dtype != "uint8":
        return mapping
    return mapping._replace(std=tuple([each / 255 for each in values_of(mapping.std)]))


def _check_unmapped(label: str, what: str, mapping: TextureMapping) -> None:
    if mapping._replace(layout=None) != TextureMapping():
        raise BindingError(
            f"{what} cannot be bound to {label}, a buffer, with mean, std, order, crop, rotation, flip or pad: "
            "those are for textures; a buffer holds the tensor's own values"
        )


def _buffer(
    device: Device, resource: Resource, tensor: TensorInfo, what: str, mapping: TextureMapping, *, write: bool
) -> Binding:
    where = f"{what} cannot be bound to {resource.label}"
    if resource.layout is not None and resource.layout.dtype == np.uint8:
        if write:
            raise BindingError(f"{where}: {_INPUTS_ONLY}")
        planes = PlacedPlanes(*byte_planes(resource.layout, where), (resource,))
        return _planes(device, planes, None, tensor, where, mapping)
    _check_unmapped(resource.label, what, mapping)
    if resource.layout is not None:
        return Binding(resource, array_view(resource.layout, tensor, where, write=write))
    if tensor.dtype != "float32" and (dtype := getattr(resource, "dtype", np.float32)) != np.float32:
        raise BindingError(f"{where}: it holds {dtype}, and bound buffers hold the numbers as float32")
    view = Dense(tensor.bhwc)
    channels, elements = tensor.bhwc[3], math.prod(tensor.bhwc)
    padded = elements // channels * (-(-channels // 4) * 4) * 4
    if resource.nbytes < view.nbytes or (channels % 4 and resource.nbytes == padded):
        text = (
            f"{what} cannot be bound to {resource.label} of {resource.nbytes} bytes: a buffer holds float32 values in "
            f"{'NCHW' if tensor.channels_first else 'BHWC'} order, {elements} elements, {view.nbytes} bytes"
        )
        if resource.nbytes == padded and not tensor.channels_first:
            text += (
                f". {resource.nbytes} bytes is the size with {padded // (elements // channels * 4)} channels a pixel: "
                f"write {channels} channels without padding, so that element (b, y, x, c) is at "
                f"((b*{tensor.bhwc[1]} + y)*{tensor.bhwc[2]} + x)*{channels} + c"
            )
        raise BindingError(f"{text}. Make a buffer of {view.nbytes} bytes")
    return Binding(resource, view)


def _texture(
    device: Device, resource: Resource, tensor: TensorInfo, what: str, write: bool, mapping: TextureMapping
) -> Binding:
    where = f"{what} cannot be bound to {resource.label}"
    shape = batch, height, width, channels = tensor.picture_shape
    if batch != 1 or channels > 4:
        or_textures = f", or a list of {batch} textures" if channels <= 4 else ""
        raise BindingError(
            f"{where}: a texture holds batch 1 and 1 to 4 channels; bind a buffer of {Dense(tensor.bhwc).nbytes} bytes"
            f"{or_textures}{or_layout(tensor)}"
        )
    if resource.format not in TEXTURE_CHANNELS:
        raise BindingError(f"{where}: its format is {resource.format}; take one of {', '.join(TEXTURE_CHANNELS)}")
    has = TEXTURE_CHANNELS[resource.format]
    if has < channels:
        count = "one channel" if has == 1 else f"{has} channels"
        raise BindingError(f"{where}: {resource.format} has {count}, the tensor {channels}; take rgba8 or rgba32f")
    order = order_of(where, ORDERS[has], channels, mapping.order)
    check_mapping(where, mapping, channels)
    if write:
        _check_writable(device, where, resource, (width, height), mapping)
    region = region_buffer(device, mapping.crop, where)
    if region and is_staged(resource):
        raise BindingError(f"{where} with a Region: the texture's API has no access to its buffer; bind an image")
    parameters = mapped_parameters(shape, resource.size, _of_bytes(mapping, tensor), write=write)
    view = Picture(
        shape, resource.format, order, sampling_of(resource.size, shape, mapping, write=write),
        is_padded=mapping.pad is not None, region=len(region), whole=tensor.dtype != "float32",
    )  # fmt: skip
    how = cost_of_picture(tensor, write=write)
    return Binding(resource, view, parameters, how, others=region, channels_last=tensor.channels_first)


def _check_writable(
    device: Device, where: str, resource: Resource, size: tuple[int, int], mapping: TextureMapping
) -> None:
    formats = resource.write_formats if is_staged(resource) else device.traits.write_formats
    if resource.format not in formats:
        raise BindingError(
            f"{where}: kernels of {device.traits.name} cannot write {resource.format}; "
            f"take one of {', '.join(sorted(formats))}"
        )
    if mapping.crop is not None or mapping.rotation or mapping.pad is not None:
        raise BindingError(f"{where}: crop, rotation and pad are for inputs; an output can only be flipped")
    if resource.size != size:
        raise BindingError(
            f"{where}: an output texture has the tensor's size, {size[0]}x{size[1]} texels, and this one has "
            f"{resource.size[0]}x{resource.size[1]}; scale when you draw it"
        )


def read_back(device: Device, binding: Binding, tensor: TensorInfo, array: np.ndarray, reason: str) -> None:
    """Copy an output to a C-contiguous array of the type and shape that ``tensor`` has in the model, counted as
    ``reason``.

    A user's object holds real numbers, even if the tensor is quantized: the CPU converts them to integers. A texture
    gives the values that it holds: in rgba8 clipped and rounded to 256 steps.
    """
    view = binding.view
    if isinstance(view, Strided | Sliced):
        memory = memory_of(view)
        device.read(binding.resource, memory, reason)
        fill(array, array_values(view, memory), tensor)
        return
    if isinstance(view, Dense) and binding.channels_last:
        values = np.empty(view.shape, np.float32)
        device.read(binding.resource, values, reason)
        array[...] = values.transpose(0, 3, 1, 2).reshape(array.shape)
        return
    if isinstance(view, Quantized) or (isinstance(view, Dense) and array.dtype == np.float32):
        device.read(binding.resource, array, reason)
        return
    if array.dtype != np.float32:
        values = np.empty(array.shape, np.float32)
        read_back(device, binding, tensor, values, reason)
        fill(array, values, tensor)
        return
    assert isinstance(view, Picture)
    _, height, width, channels = view.shape
    texels = np.empty((height, width, TEXTURE_CHANNELS[view.format]), _TEXEL_DTYPES[view.format])
    device.read(binding.resource, texels, reason)
    values = texels.astype(np.float32) / (255 if texels.dtype == np.uint8 else 1)
    memory = "bgra" if view.format == "bgra8" else "rgba"
    values = values[:, :, [memory.index(channel) for channel in view.order]]
    if binding.parameters[0] < 0:
        values = values[:, ::-1]
    if binding.parameters[5] < 0:
        values = values[::-1]
    std, mean = (np.array(binding.parameters[start : start + channels], np.float32) for start in (8, 12))
    values = (values - mean) / std
    array[...] = (values.transpose(2, 0, 1) if binding.channels_last else values).reshape(array.shape)


def refuse_written(
    bindings: Mapping[int, Binding], outputs: Sequence[int], tensors: Mapping[int, TensorInfo] | Sequence[TensorInfo]
) -> None:
    """Raise BindingError if an object that is an output is another tensor too."""
    places = [(tensor, frame, r) for tensor, one in bindings.items() for frame, r in enumerate(one.resources)]
    for output, frame, written in [place for place in places if place[0] in outputs]:
        for other, other_frame, resource in places:
            if (other, other_frame) != (output, frame) and _overlap(resource, written):
                part = f", frame {other_frame}" if other == output else ""
                raise BindingError(
                    f"{resource.label} is bound to {tensor_label(output, tensors[output])} and to "
                    f"tensor {other}{part}: bind another object to one of them, and swap the two between invokes"
                )


def _overlap(one: Resource, other: Resource) -> bool:
    """Whether two resources share memory. Textures do if their handles are equal; buffers may be parts of one."""
    if one.handle != other.handle:
        return False
    if one.format != "" or other.format != "":
        return True
    if one.offset >= other.offset + other.nbytes or other.offset >= one.offset + one.nbytes:
        return False
    if one.layout is None or other.layout is None:
        return True
    return share_elements(one.layout, one.offset, other.layout, other.offset)
