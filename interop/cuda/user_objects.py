"""The objects that can be bound to tensors on CUDA: ours, and arrays of other libraries in a GPU's memory."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..errors import BindingError
from . import dlpack
from .api import driver
from .context import CudaContext
from .objects import CudaArray, CudaImage

_DEVICE_ORDINAL, _RANGE_START, _RANGE_SIZE = 9, 11, 12
"""CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, _RANGE_START_ADDR, _RANGE_SIZE."""


def is_cuda_object(native: Any) -> bool:
    """Whether ``as_cuda_object`` knows such objects."""
    if isinstance(native, CudaArray | CudaImage) or hasattr(type(native), "__cuda_array_interface__"):
        return True
    return dlpack.exports(native)


def as_cuda_object(native: Any, context: CudaContext) -> CudaArray | CudaImage:
    """One of ours as it is; an array with __cuda_array_interface__ or __dlpack__ wrapped and kept alive.

    Else raises BindingError.
    """
    if isinstance(native, CudaArray | CudaImage):
        return native
    if not is_cuda_object(native):
        raise BindingError(
            f"a {type(native).__name__} is nothing that CUDA reads: bind an array with __cuda_array_interface__ or "
            "__dlpack__ on a GPU (a tensor of PyTorch on 'cuda', an array of CuPy or JAX), a CudaArray or a CudaImage; "
            "GL objects need the backend 'opengl', and OpenCL's the backend 'opencl'"
        )
    if not hasattr(type(native), "__cuda_array_interface__"):
        return _exported(native, context)
    try:
        described = native.__cuda_array_interface__
    except (AttributeError, RuntimeError, TypeError) as error:  # as a torch tensor on the CPU, or one with a gradient
        raise BindingError(f"a {type(native).__name__} cannot be bound: {error}") from error
    shape, dtype = tuple(described["shape"]), np.dtype(described["typestr"])
    (pointer, read_only), strides = described["data"], described.get("strides")
    array = _array(
        native, pointer, shape, dtype, strides, context, keep=native, read_only=bool(read_only)
    )  # fmt: skip
    _order(described.get("stream"), context)
    return array


def _exported(native: Any, context: CudaContext) -> CudaArray:
    """A DLPack tensor. The producer orders its work before the context's stream."""
    given = dlpack.imported(native, context.stream)
    strides = None if given.strides is None else tuple(given.dtype.itemsize * stride for stride in given.strides)
    return _array(
        native, given.pointer, given.shape, given.dtype, strides, context, keep=given.capsule, read_only=given.read_only
    )


def _array(
    native: Any,
    pointer: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    strides: tuple[int, ...] | None,
    context: CudaContext,
    *,
    keep: Any,
    read_only: bool,
) -> CudaArray:
    """An array of another library in place, if it is float32 and contiguous. ``strides`` are in bytes."""
    what = f"a {type(native).__module__.split('.')[0]} array of {shape} {dtype}"
    if dtype != np.float32:
        raise BindingError(f"{what} cannot be bound: a tensor's values are float32; convert it")
    if strides is not None and not _is_contiguous(shape, strides, dtype.itemsize):
        raise BindingError(f"{what} cannot be bound: it is not C-contiguous; make it so (torch: .contiguous())")
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not nbytes:
        raise BindingError(f"{what} cannot be bound: it is empty")
    device = _device_of(pointer, nbytes, what, context)
    with context.entered():
        return CudaArray(pointer, shape, dtype, device=device, label=what, keep=keep, read_only=read_only)


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    expected = itemsize
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _device_of(pointer: int, nbytes: int, what: str, context: CudaContext) -> int:
    """The number of the GPU in whose memory a range lies. Raises BindingError if it is no memory, or ends before."""
    device, start, size = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_uint64()
    ask = driver().cuPointerGetAttribute
    places = ((_DEVICE_ORDINAL, device), (_RANGE_START, start), (_RANGE_SIZE, size))
    with context.entered():
        if any(ask(ctypes.byref(place), attribute, pointer) for attribute, place in places):
            raise BindingError(f"{what} cannot be bound: {pointer:#x} is no memory of CUDA, or was freed")
    if pointer + nbytes > start.value + size.value:
        raise BindingError(f"{what} cannot be bound: its {nbytes} bytes end behind the memory at {pointer:#x}")
    return device.value


def _order(stream: int | None, context: CudaContext) -> None:
    """Let the context's stream wait for what the producer's stream has to do: the protocol asks it of consumers."""
    if stream is None or stream == context.stream:
        return
    context.wait_for_stream(stream)
