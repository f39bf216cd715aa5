"""The objects that can be bound to tensors on CUDA: ours, and arrays of other libraries in a GPU's memory."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .. import dlpack
from ..backends import advice_on_others
from ..errors import BindingError
from .arrays import CudaArray
from .context import CudaContext
from .objects import CudaImage, device_at


def is_cuda_object(native: Any) -> bool:
    """Whether an object is CUDA's, so that ``as_cuda_object`` takes it or says why not."""
    if isinstance(native, CudaArray | CudaImage):
        return True
    device = dlpack.device_of(native)
    return device[0] in dlpack.CUDA_DEVICES if device is not None else hasattr(type(native), "__cuda_array_interface__")


def as_cuda_object(native: Any, context: CudaContext) -> CudaArray | CudaImage:
    """Take a CudaArray or CudaImage as it is; wrap an array with __dlpack__ or __cuda_array_interface__ and keep it.

    DLPack comes first: its producers order their work before the context's stream. Raises BindingError for other
    objects, and for memory that is freed or lies on another GPU.
    """
    if isinstance(native, CudaArray | CudaImage):
        if not native.released:
            _check_device(native.device, native.label, context)
        return native
    place = dlpack.device_of(native)
    if not is_cuda_object(native) if place is None else place[0] not in dlpack.CUDA_DEVICES:
        raise BindingError(
            f"a {type(native).__name__} is nothing that CUDA reads: bind an array with __cuda_array_interface__ or "
            "__dlpack__ on a GPU (a tensor of PyTorch on 'cuda', an array of CuPy or JAX), a CudaArray or a CudaImage; "
            f"{advice_on_others('cuda')}"
        )
    with context.entered():
        return _described(native, context) if place is None else _exported(native, place, context)


def _exported(native: Any, place: tuple[int, int], context: CudaContext) -> CudaArray:
    """A DLPack tensor. The producer orders its work before the context's stream, or else before the legacy one."""
    if place[0] == dlpack.CUDA:
        _check_device(place[1], f"a {type(native).__name__}", context)
    given = dlpack.imported(native, context.stream)
    array = CudaArray(
        given.pointer, given.shape, given.dtype, device=context.device, strides=given.strides,
        label=_label(native, given.shape, given.dtype), keep=given.capsule, read_only=given.read_only,
    )  # fmt: skip
    if not given.is_ordered:
        context.wait_for_stream(dlpack.LEGACY_STREAM)
    return array


def _described(native: Any, context: CudaContext) -> CudaArray:
    """An array by its __cuda_array_interface__. The context's stream waits for its producer's, if that is named.

    Before version 3 of the interface it was not: such producers work on the legacy default stream.
    """
    try:
        described = native.__cuda_array_interface__
        shape, dtype = tuple(map(operator.index, described["shape"])), np.dtype(described["typestr"])
        (pointer, read_only), strides = described["data"], described.get("strides")
        stream = described.get("stream") if described.get("version", 0) >= 3 else dlpack.LEGACY_STREAM
        stream = None if stream is None else operator.index(stream)
    except Exception as error:  # each library has errors of its own
        said = f"its __cuda_array_interface__ says: {type(error).__name__}: {error}"
        raise BindingError(f"a {type(native).__name__} cannot be bound: {said}") from error
    what = _label(native, shape, dtype)
    if described.get("mask") is not None:
        raise BindingError(f"{what} cannot be bound: it has a mask; bind an array without")
    if stream == 0:
        raise BindingError(
            f"{what} cannot be bound: it names stream 0, which may be two streams: its library must say 1, the legacy "
            "default stream, or 2, that of each thread"
        )
    device = device_at(pointer)
    if device is not None:
        _check_device(device, what, context)
    array = CudaArray(
        pointer, shape, dtype, device=context.device, strides=strides, label=what, keep=native,
        read_only=bool(read_only),
    )  # fmt: skip
    if stream is not None:
        context.wait_for_stream(stream)
    return array


def _check_device(device: int, what: str, context: CudaContext) -> None:
    if device != context.device:
        raise BindingError(
            f"{what} lies on CUDA device {device}, and the model runs on device {context.device}: apply the delegate "
            f"inside 'with fb.cuda.CudaContext({device}):'"
        )


def _label(native: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    return f"a {type(native).__module__.split('.')[0]} array of {shape} {dtype}"
