"""DLPack: tensors of other libraries by the protocol's C structures, without their packages."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import BindingError

_CUDA_DEVICES = {2, 13}
"""kDLCUDA and kDLCUDAManaged."""
_KINDS = {0: "i", 1: "u", 2: "f", 6: "b"}
"""NumPy's kinds by DLPack's type codes."""
_READ_ONLY = 1
LEGACY_STREAM = 1
"""The protocol's number of CUDA's legacy default stream, whose handle may be 0 as well."""


class _Tensor(ctypes.Structure):
    """DLTensor, with DLDevice and DLDataType in it."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
        ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned. The structure without a version, DLManagedTensor, begins with the tensor."""

    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    )  # fmt: skip


@dataclass(frozen=True)
class Exported:
    """A tensor that another library gave out. ``strides`` are in elements, None if it is C-contiguous.

    It lives as long as the capsule: nobody takes it over, so that the capsule gives it back when it is deleted.
    """

    pointer: int
    device: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    read_only: bool
    capsule: Any


def exports(native: Any) -> bool:
    """Whether an object speaks DLPack and lies on a CUDA device."""
    return hasattr(type(native), "__dlpack__") and int(native.__dlpack_device__()[0]) in _CUDA_DEVICES


def imported(native: Any, stream: int) -> Exported:
    """A tensor, when the work that the producer has submitted is done as far as ``stream`` is concerned.

    Raises BindingError if the producer does not give it out.
    """
    what = f"a {type(native).__name__}"
    try:
        capsule = native.__dlpack__(stream=stream or LEGACY_STREAM)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise BindingError(f"{what} cannot be bound: its __dlpack__ says: {error}") from error
    tensor, read_only = _unpacked(capsule, what)
    if tensor.lanes != 1 or tensor.code not in _KINDS:
        raise BindingError(f"{what} cannot be bound: its numbers are of DLPack's type {tensor.code}, unknown to NumPy")
    rank = tensor.rank
    strides = tuple(tensor.strides[:rank]) if tensor.strides else None
    pointer, dtype = (tensor.data or 0) + tensor.byte_offset, np.dtype(f"{_KINDS[tensor.code]}{tensor.bits // 8}")
    return Exported(pointer, tensor.device, tuple(tensor.shape[:rank]), dtype, strides, read_only, capsule)


def _unpacked(capsule: Any, what: str) -> tuple[_Tensor, bool]:
    """The structure in a capsule, and whether it is read-only."""
    find = ctypes.pythonapi.PyCapsule_GetPointer
    find.restype, find.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    is_valid = ctypes.pythonapi.PyCapsule_IsValid
    is_valid.argtypes = ctypes.py_object, ctypes.c_char_p
    if is_valid(capsule, b"dltensor"):
        return _Tensor.from_address(find(capsule, b"dltensor")), False
    if is_valid(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(find(capsule, b"dltensor_versioned"))
        if versioned.major == 1:
            return versioned.tensor, bool(versioned.flags & _READ_ONLY)
    raise BindingError(f"{what} cannot be bound: what its __dlpack__ returns is no DLPack tensor of version 0 or 1")
