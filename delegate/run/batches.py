"""Batches as model tensors: a user's object for each frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...interop.device import Device
from ...interop.errors import BindingError
from ...interop.yuv import first_plane
from ...kernels.tensor import TensorInfo
from ..plan.binding import Binding, Crop, Frames, FrameView, Mappings, TensorLayout, TextureMapping, Values
from .bindings import make_binding, read_back, rebound
from .messages import tensor_label


def is_batch(obj: Any) -> bool:
    """Whether ``obj``, which a user binds, is a list with an object for each frame."""
    return isinstance(obj, list | tuple)


def first_object(obj: Any) -> Any:
    """The object, or the first of a list; for a picture of video, its first plane."""
    return first_plane(obj[0] if is_batch(obj) and obj else obj)


def negotiated(
    device: Device,
    obj: Any,
    tensor: TensorInfo,
    index: int,
    *,
    write: bool,
    mapping: Mappings,
    previous: Binding | None = None,
) -> Binding:
    """Decide how ``obj`` is tensor ``index``: one object, or a list with one for each frame of a batch.

    ``write``: the model writes it. ``previous`` is the tensor's binding until now. Raises BindingError, naming tensor
    and object, if it cannot be.
    """
    if not is_batch(obj):
        if not isinstance(mapping, TextureMapping):
            raise BindingError(
                f"{tensor_label(index, tensor)} cannot be bound with a list of crops or rotations: that is for a list "
                "of textures, which may be the same one several times"
            )
        return make_binding(device, obj, tensor, index, write=write, mapping=mapping, previous=previous)
    what, count = f"{tensor_label(index, tensor)} cannot be bound to a list of {len(obj)}", len(obj)
    each_mapping = [mapping] * count if isinstance(mapping, TextureMapping) else mapping
    batch = tensor.shape[0] if len(tensor.shape) > 1 else 1
    if count != batch:
        raise BindingError(
            f"{what}: its first dimension is {batch}; give one object for each, or one buffer that holds them all "
            "(resize_tensor_input changes the dimension of inputs)"
        )
    if len(each_mapping) != count:
        raise BindingError(f"{what}: there are {len(each_mapping)} crops or rotations; give one for each, or for all")
    if count == 1:
        return make_binding(device, obj[0], tensor, index, write=write, mapping=each_mapping[0], previous=previous)
    frame, before = replace(tensor, shape=(1, *tensor.shape[1:])), previous.frames if previous is not None else ()
    frames: list[Binding] = []
    for number, (each, one) in enumerate(zip(obj, each_mapping, strict=True)):
        old = before[number] if number < len(before) else None
        try:
            frames.append(make_binding(device, each, frame, index, write=write, mapping=one, previous=old))
        except BindingError as error:
            raise BindingError(f"frame {number} of {count}: {error}") from error
    return _together(what, tensor, frames)


def _together(what: str, tensor: TensorInfo, frames: Sequence[Binding]) -> Binding:
    """The bindings of all frames as the tensor's. Buffers and textures are not mixed, nor sizes of buffers."""
    kinds = dict.fromkeys(f"textures of {f.resource.format}" if f.resource.format else "buffers" for f in frames)
    if len(kinds) > 1:
        raise BindingError(f"{what}: it mixes {' and '.join(kinds)}; take objects of one kind")
    sizes = dict.fromkeys(f.resource.nbytes for f in frames)
    if len(sizes) > 1:
        raise BindingError(f"{what}: its buffers have {' and '.join(map(str, sizes))} bytes; take buffers of one size")
    if len({frame.channels_last for frame in frames}) > 1:
        raise BindingError(f"{what}: it mixes pictures and arrays of the tensor's values; take objects of one kind")
    views = [frame.view for frame in frames]
    batch, height, width, channels = views[0].shape
    view = Frames(
        (batch * len(frames), height, width, channels), tuple([view for view in views if isinstance(view, FrameView)])
    )
    return Binding(
        frames[0].resource, view, how="one conversion dispatch for each frame", frames=tuple(frames),
        channels_last=frames[0].channels_last,
    )  # fmt: skip


def mappings(
    mean: Values,
    std: Values,
    order: str | None,
    crop: Crop | Sequence[Crop | None] | None,
    rotation: float | Sequence[float],
    flip: str,
    layout: TensorLayout | None,
    pad: Values | None,
) -> Mappings:
    """The relation of texels and values as the user gives it: one for each frame if ``crop`` or ``rotation`` is a list.

    Raises BindingError if both are lists of different lengths.
    """
    crops: Any = crop if isinstance(crop, list | tuple) and crop and not _is_number(crop[0]) else None
    rotations: Any = None if isinstance(rotation, int | float) else rotation
    if crops is None and isinstance(rotation, int | float):
        whole: Any = crop
        return TextureMapping(mean, std, order, whole, rotation, flip, layout, pad)
    if crops is None:
        crops = [crop] * len(rotations)
    rotations = [rotation] * len(crops) if rotations is None else rotations
    if len(crops) != len(rotations):
        raise BindingError(f"there are {len(crops)} crops and {len(rotations)} rotations: give one for each frame")
    return [TextureMapping(mean, std, order, c, r, flip, layout, pad) for c, r in zip(crops, rotations, strict=True)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number)


def exchanged(device: Device, obj: Any, previous: Binding) -> Binding | None:
    """``previous``, of frames, with other objects, if all its decisions hold for them, too; None if they do not."""
    if not is_batch(obj) or len(obj) != len(previous.frames):
        return None
    frames = [rebound(device, each, old) for each, old in zip(obj, previous.frames, strict=True)]
    found = tuple([frame for frame in frames if frame is not None])
    return None if len(found) < len(frames) else replace(previous, resource=found[0].resource, frames=found)


def read_frames(device: Device, binding: Binding, tensor: TensorInfo, array: np.ndarray, reason: str) -> None:
    """Copy an output to an array, counted as ``reason``, from its object or from those of its frames."""
    if not binding.frames:
        read_back(device, binding, tensor, array, reason)
        return
    one = replace(tensor, shape=(1, *tensor.shape[1:]))
    for number, frame in enumerate(binding.frames):
        read_back(device, frame, one, array[number : number + 1], f"{reason}, frame {number}")
