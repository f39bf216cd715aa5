"""User objects as model tensors: what fits, how it is read or written, and what to do if it does not fit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...interop.arrays import ArrayLayout
from ...interop.device import Device, Resource, StagedTexture
from ...interop.dlpack import host_array, is_on_host
from ...interop.errors import BindingError
from ...interop.host_arrays import HostArray
from ...kernels.tensor import LARGEST_RANK, TensorInfo
from ...kernels.views import TEXTURE_CHANNELS, Dense, Picture, Quantized, Sliced, Strided, picture_parameters
from ..plan.binding import Binding, TextureMapping, Values
from .arrays import array_values, array_view, check_type, check_written, fill, memory_of
from .messages import tensor_label

ORDERS = {1: "r", 2: "rg", 3: "rgb", 4: "rgba"}
FLIPS = ("", "horizontal", "vertical", "both")
_TEXEL_DTYPES = {
    "rgba8": "uint8", "bgra8": "uint8", "r8": "uint8", "rgba16f": "float16", "rgba32f": "float32", "r32f": "float32",
}  # fmt: skip
"""The types of the channels of textures that kernels write."""


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
    what = tensor_label(index, tensor)
    try:
        resource = host_array(obj) if is_on_host(obj) else device.borrow(obj)
    except BindingError as error:
        raise BindingError(f"{what} cannot be bound: {error}") from error
    if not isinstance(resource, np.ndarray) and resource.released:
        raise BindingError(f"{what} cannot be bound to {resource.label}: it is released; bind one that is alive")
    if tensor.dtype != "float32":
        raise BindingError(f"{what} cannot be bound: it is {tensor.dtype}, and only float32 tensors can be bound")
    if len(tensor.shape) > LARGEST_RANK:
        raise BindingError(
            f"{what} cannot be bound: its rank is {len(tensor.shape)}, and at most {LARGEST_RANK} has a BHWC form"
        )
    if isinstance(resource, np.ndarray):
        return _host(device, resource, tensor, what, mapping, write=write, previous=previous)
    if not resource.format:
        return _buffer(resource, tensor, what, mapping, write=write)
    binding = _texture(device, resource, tensor, what, write, mapping)
    return _staged(binding, write, previous) if isinstance(resource, StagedTexture) else binding


def rebound(device: Device, obj: Any, previous: Binding) -> Binding | None:
    """``previous`` with another object, if everything that was decided then holds for it: a ring's next texture.

    None if it has to be decided anew: another kind, size or format, or an object that ``make_binding`` refuses.
    """
    try:
        if previous.host is not None:
            return _host_again(host_array(obj), previous) if is_on_host(obj) else None
        resource = device.borrow(obj)
    except BindingError:
        return None
    before = previous.resource
    alike = resource.format == before.format and resource.size == before.size and resource.nbytes == before.nbytes
    alike = alike and resource.layout == before.layout
    # A staged texture is never alike: what stands for it is a buffer.
    if not alike or resource.released or type(resource) is not type(before):
        return None
    return Binding(resource, previous.view, previous.parameters, previous.how)


def _staged(binding: Binding, write: bool, previous: Binding | None) -> Binding:
    """The same with a buffer in place of a texture that kernels cannot address."""
    texture, view = binding.resource, binding.view
    assert isinstance(texture, StagedTexture) and isinstance(view, Picture)
    buffer = texture.stage(view, binding.parameters, write=write, previous=previous.resource if previous else None)
    return Binding(buffer, Dense(view.shape), how="at most one conversion dispatch")


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
    _check_unmapped(label, what, mapping)
    where = f"{what} cannot be bound to {label}"
    check_type(array.dtype, where)
    if write:
        strides = tuple(abs(stride) // array.itemsize for stride in array.strides)
        check_written(ArrayLayout(array.shape, strides, array.dtype, read_only=not array.flags.writeable), where)
    host = HostArray(device, array, label, previous.host if previous else None)
    return Binding(host.buffer, array_view(host.layout, tensor, where, write=write), host=host)


def _host_again(array: np.ndarray, previous: Binding) -> Binding | None:
    """The binding of another array like the one before; None if it is not like that."""
    host = previous.host
    return previous._replace(host=host.exchanged(array)) if host is not None and host.like(array) else None


def _check_unmapped(label: str, what: str, mapping: TextureMapping) -> None:
    if mapping != TextureMapping():
        raise BindingError(
            f"{what} cannot be bound to {label}, a buffer, with mean, std, order, crop, rotation or flip: "
            "those are for textures; a buffer holds the tensor's own values"
        )


def _buffer(resource: Resource, tensor: TensorInfo, what: str, mapping: TextureMapping, *, write: bool) -> Binding:
    _check_unmapped(resource.label, what, mapping)
    if resource.layout is not None:
        where = f"{what} cannot be bound to {resource.label}"
        return Binding(resource, array_view(resource.layout, tensor, where, write=write))
    view = Dense(tensor.bhwc)
    channels, elements = tensor.bhwc[3], math.prod(tensor.bhwc)
    padded = elements // channels * (-(-channels // 4) * 4) * 4
    if resource.nbytes < view.nbytes or (channels % 4 and resource.nbytes == padded):
        text = (
            f"{what} cannot be bound to {resource.label} of {resource.nbytes} bytes: a buffer holds float32 values in "
            f"BHWC order, {elements} elements, {view.nbytes} bytes"
        )
        if resource.nbytes == padded:
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
    batch, height, width, channels = tensor.bhwc
    if batch != 1 or channels > 4:
        or_textures = f", or a list of {batch} textures" if channels <= 4 else ""
        raise BindingError(
            f"{where}: a texture holds batch 1 and 1 to 4 channels; bind a buffer of {Dense(tensor.bhwc).nbytes} bytes"
            f"{or_textures}"
        )
    if resource.format not in TEXTURE_CHANNELS:
        raise BindingError(f"{where}: its format is {resource.format}; take one of {', '.join(TEXTURE_CHANNELS)}")
    has = TEXTURE_CHANNELS[resource.format]
    if has < channels:
        count = "one channel" if has == 1 else f"{has} channels"
        raise BindingError(f"{where}: {resource.format} has {count}, the tensor {channels}; take rgba8 or rgba32f")
    order = _order(where, resource.format, channels, mapping.order)
    _check_mapping(where, mapping, channels)
    if write:
        _check_writable(device, where, resource, (width, height), mapping)
    parameters = picture_parameters(
        tensor.bhwc, resource.size, order, crop=mapping.crop, rotation=mapping.rotation, flip=mapping.flip,
        mean=_values(mapping.mean), std=_values(mapping.std), write=write,
    )  # fmt: skip
    exact = write or _is_exact(resource.size, (width, height), mapping)
    view = Picture(tensor.bhwc, resource.format, order, "exact" if exact else "bilinear")
    return Binding(resource, view, parameters, "direct" if write else "at most one conversion dispatch")


def _values(values: Values) -> tuple[float, ...]:
    return (float(values),) if isinstance(values, int | float) else tuple(map(float, values))


def _order(where: str, format: str, channels: int, order: str | None) -> str:
    if order is None:
        return ORDERS[channels]
    available = ORDERS[TEXTURE_CHANNELS[format]]
    if len(order) != channels or len(set(order)) != len(order) or not set(order) <= set(available):
        raise BindingError(
            f"{where}: order {order!r} must name {channels} different channels of '{available}', the texture's channel "
            f"for each of the tensor's in turn (for instance {ORDERS[channels]!r})"
        )
    return order


def _check_mapping(where: str, mapping: TextureMapping, channels: int) -> None:
    for name, given in (("mean", mapping.mean), ("std", mapping.std)):
        values = _values(given)
        if len(values) not in (1, channels) or not all(map(math.isfinite, values)):
            raise BindingError(
                f"{where}: {name} {given} must be one finite number, or one for each of {channels} channels"
            )
    if 0.0 in _values(mapping.std):
        raise BindingError(f"{where}: std is 0; a tensor value is (texel - mean) / std, with texels from 0 to 1")
    if mapping.flip not in FLIPS:
        raise BindingError(f"{where}: flip {mapping.flip!r} must be 'horizontal', 'vertical', 'both' or ''")
    if not math.isfinite(mapping.rotation):
        raise BindingError(f"{where}: rotation {mapping.rotation} must be a number of degrees")
    crop = mapping.crop
    if crop is not None and not (len(crop) == 4 and all(map(math.isfinite, crop)) and crop[2] > 0 and crop[3] > 0):
        raise BindingError(f"{where}: crop {crop} must be (x, y, width, height) in texels, width and height above 0")


def _check_writable(
    device: Device, where: str, resource: Resource, size: tuple[int, int], mapping: TextureMapping
) -> None:
    formats = resource.write_formats if isinstance(resource, StagedTexture) else device.traits.write_formats
    if resource.format not in formats:
        raise BindingError(
            f"{where}: kernels of {device.traits.name} cannot write {resource.format}; "
            f"take one of {', '.join(sorted(formats))}"
        )
    if mapping.crop is not None or mapping.rotation:
        raise BindingError(f"{where}: crop and rotation are for inputs; an output can only be flipped")
    if resource.size != size:
        raise BindingError(
            f"{where}: an output texture has the tensor's size, {size[0]}x{size[1]} texels, and this one has "
            f"{resource.size[0]}x{resource.size[1]}; scale when you draw it"
        )


def _is_exact(texture: tuple[int, int], size: tuple[int, int], mapping: TextureMapping) -> bool:
    """Every tensor pixel is one texel. A crop never counts, so that moving it changes parameters and no kernel."""
    if mapping.crop is not None or mapping.rotation % 90:
        return False
    return size == (texture if mapping.rotation % 180 == 0 else texture[::-1])


def read_back(device: Device, binding: Binding, tensor: TensorInfo, array: np.ndarray, reason: str) -> None:
    """Copy an output to a C-contiguous array of the type and shape that ``tensor`` has in the model, counted as
    ``reason``.

    A user's object holds real numbers, also if the tensor's are quantized: the CPU makes integers of them. From a
    texture come the values that the texture holds: in rgba8 clipped and rounded to 256 steps.
    """
    view = binding.view
    if isinstance(view, Strided | Sliced):
        memory = memory_of(view)
        device.read(binding.resource, memory, reason)
        fill(array, array_values(view, memory), tensor)
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
    array[...] = ((values - mean) / std).reshape(array.shape)
