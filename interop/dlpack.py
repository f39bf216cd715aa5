"""DLPack: tensors of other libraries, and memory of ours for them, by the protocol's C structures and capsules."""

from __future__ import annotations

import ctypes
import functools
import math
import mmap
import os
from typing import Any, NamedTuple

import numpy as np

from .arrays import check_unmasked
from .errors import BindingError

CUDA, VERSION = 2, (1, 0)
"""DLPack's number of CUDA devices (kDLCUDA), and the version of the protocol that is asked for and given out."""
HOST_DEVICES, CUDA_DEVICES = {1, 3}, {CUDA, 13}
"""Numbers of devices whose memory NumPy reads (kDLCPU, kDLCUDAHost), and of CUDA's (kDLCUDA, kDLCUDAManaged)."""
_KINDS = {0: "i", 1: "u", 2: "f", 6: "b"}
"""NumPy's kinds by DLPack's type codes."""
_OTHER_KINDS = {4: "bfloat16", 5: "complex"}
_READ_ONLY, _IS_COPIED = 1, 2
"""Flags of a tensor."""
_MOST_DIMENSIONS = 32
"""Most dimensions of an array of NumPy 1."""
_LAST_ADDRESS = (1 << 63) - 1
_ASYNC = 1
"""MS_ASYNC."""
LEGACY_STREAM, PER_THREAD_STREAM, NO_STREAM = 1, 2, -1
"""The protocol's numbers of CUDA's legacy default stream, whose handle may be 0 as well; of the default stream of each
thread; and of no order at all.
"""
_NAME, _VERSIONED_NAME = b"dltensor", b"dltensor_versioned"
_USED = {_NAME: b"used_dltensor", _VERSIONED_NAME: b"used_dltensor_versioned"}
"""The names of capsules that a consumer has taken."""


class _Tensor(ctypes.Structure):
    """DLTensor, with DLDevice and DLDataType in it."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
        ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    )  # fmt: skip


def _python(name: str, result: Any, *arguments: Any) -> Any:
    """A function of Python's C API. Capsules are given by address."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_is_valid = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer_in = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_rename = _python("PyCapsule_SetName", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)


def device_of(native: Any) -> tuple[int, int] | None:
    """The type and number of the device on which an object lies; None if it does not speak DLPack.

    Raises BindingError if it does not say: PyTorch's tensors on "meta", JAX's deleted arrays.
    """
    if not hasattr(type(native), "__dlpack__"):
        return None
    try:
        kind, number = native.__dlpack_device__()
        return int(kind), int(number)
    except Exception as error:  # each library has errors of its own
        what = f"a {type(native).__name__} cannot be bound"
        raise BindingError(f"{what}: its __dlpack_device__ says: {type(error).__name__}: {error}") from error


# Import ---------------------------------------------------------------------------------------------------------------


class _Taken:
    """A capsule, which no other consumer takes as long as this object lives.

    Then it has its name again, so that it gives the tensor back when it is deleted.
    """

    def __init__(self, capsule: Any) -> None:
        self._capsule, address = capsule, id(capsule)
        self._name = _NAME if _is_valid(address, _NAME) else _VERSIONED_NAME
        _rename(address, _USED[self._name])

    def __del__(self, rename: Any = _rename) -> None:  # at the end of the process modules have no names any more
        rename(id(self._capsule), self._name)


class Imported(NamedTuple):
    """A tensor that another library gave out, which lives as long as ``capsule``. ``strides`` are in bytes, None if it
    is C-contiguous.
    """

    pointer: int
    device: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    read_only: bool
    capsule: _Taken
    is_ordered: bool
    """The producer has ordered its work before the consumer's stream; else before the legacy default stream."""


def imported(native: Any, stream: int | None = None) -> Imported:
    """A tensor on a CUDA device, when the work that the producer has submitted is done as far as ``stream`` is
    concerned; without a stream, one in the CPU's memory.

    Raises BindingError if the producer does not give it out.
    """
    what, devices = f"a {type(native).__name__}", HOST_DEVICES if stream is None else CUDA_DEVICES
    is_default = stream in (0, PER_THREAD_STREAM)  # each thread has its own, and PyTorch refuses that
    capsule, takes_stream = _asked(native, LEGACY_STREAM if is_default else stream, what)
    tensor, read_only = _unpacked(capsule, what)
    if tensor.device_type not in devices:
        raise BindingError(f"{what} cannot be bound: its tensor is on DLPack's device {tensor.device_type} after all")
    dtype = _dtype_of(tensor, what)
    shape = _shape_of(tensor, what)
    strides = _strides_of(tensor, dtype.itemsize)
    _check_memory(tensor, shape, strides, dtype.itemsize, what)
    return Imported(
        (tensor.data or 0) + tensor.byte_offset, tensor.device, shape, dtype, strides, read_only,
        _Taken(capsule), takes_stream and stream != PER_THREAD_STREAM,
    )  # fmt: skip


def _shape_of(tensor: _Tensor, what: str) -> tuple[int, ...]:
    """The sizes of a tensor's dimensions. Raises BindingError for what is no shape."""
    if not 0 <= tensor.rank <= _MOST_DIMENSIONS:
        raise BindingError(
            f"{what} cannot be bound: its tensor has {tensor.rank} dimensions, and 0 to {_MOST_DIMENSIONS} are read"
        )
    if tensor.rank and not tensor.shape:
        raise BindingError(f"{what} cannot be bound: its tensor has {tensor.rank} dimensions, and no shape (NULL)")
    shape = tuple(tensor.shape[: tensor.rank])
    if min(shape, default=0) < 0:
        raise BindingError(f"{what} cannot be bound: its tensor's shape, {shape}, has a negative size")
    return shape


def _strides_of(tensor: _Tensor, itemsize: int) -> tuple[int, ...] | None:
    """The bytes from one index to the next along each dimension; None if the tensor is C-contiguous."""
    if not tensor.strides:
        return None
    # CuPy divides the bytes as if they had no sign.
    return tuple([(itemsize * n + (1 << 63)) % (1 << 64) - (1 << 63) for n in tensor.strides[: tensor.rank]])


def _check_memory(
    tensor: _Tensor, shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int, what: str
) -> None:
    """Raise BindingError if the elements of a tensor cannot be in memory.

    The producer is believed as to what its memory holds, but memory of the CPU is checked to be there: to read other
    addresses would end the process.
    """
    if 0 in shape:
        return
    begin = (tensor.data or 0) + tensor.byte_offset
    first, end = begin, begin + itemsize
    if strides is None:
        end = begin + math.prod(shape) * itemsize
    else:
        for size, step in zip(shape, strides, strict=True):
            reach = (size - 1) * step
            first, end = first + min(reach, 0), end + max(reach, 0)
    is_there = bool(tensor.data) and 0 < first and end <= _LAST_ADDRESS
    if not is_there or (tensor.device_type in HOST_DEVICES and not _is_mapped(first, end - first)):
        steps = f" and strides of {strides} bytes" if strides is not None else ""
        raise BindingError(
            f"{what} cannot be bound: its tensor of shape {shape}{steps} has its data at {tensor.data or 0:#x}, offset "
            f"{tensor.byte_offset}, and there is no memory of {end - first} bytes"
        )


def _is_mapped(address: int, length: int) -> bool:
    """Whether all these bytes are mapped into this process. Windows does not tell: there they are believed to be."""
    if _msync is None:
        return True
    start = address - address % mmap.PAGESIZE
    return _msync(start, address + length - start, _ASYNC) == 0  # writes nothing, and says if a page is missing


def _function_msync() -> Any:
    """POSIX's msync; None on Windows."""
    if os.name != "posix":
        return None
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(("msync", ctypes.CDLL(None)))


_msync = _function_msync()


def _dtype_of(tensor: _Tensor, what: str) -> np.dtype[Any]:
    """NumPy's type of a tensor's numbers. Raises BindingError if it has none."""
    dtype = _known_dtype(tensor.code, tensor.bits) if tensor.lanes == 1 else None
    if dtype is not None:
        return dtype
    name = _OTHER_KINDS.get(tensor.code, f"of DLPack's type {tensor.code}")
    bits = f"{tensor.bits} bits" + (f", {tensor.lanes} at once" if tensor.lanes != 1 else "")
    raise BindingError(f"{what} cannot be bound: its numbers are {name} ({bits}); convert it to float32 or float16")


@functools.lru_cache  # planes of video come with each frame
def _known_dtype(code: int, bits: int) -> np.dtype[Any] | None:
    """NumPy's type of DLPack's code and bits; None if it has none."""
    try:
        return np.dtype(f"{_KINDS[code]}{bits // 8}") if code in _KINDS and bits % 8 == 0 else None
    except TypeError:  # NumPy has no such size
        return None


def _asked(native: Any, stream: int | None, what: str) -> tuple[Any, bool]:
    """The capsule of a producer, and whether it took the stream.

    Old producers know no version, some no stream, and PyAV implements none (NotImplementedError): these are asked
    without, and the consumer waits for the legacy default stream, on which FFmpeg copies what NVDEC decoded.
    """
    refusal: Exception | None = None
    ordered = {} if stream is None else {"stream": stream}
    for given in ({**ordered, "max_version": VERSION}, ordered, {}):
        try:
            return native.__dlpack__(**given), "stream" in given
        except (TypeError, NotImplementedError) as error:
            refusal = refusal or error
        except Exception as error:  # each library has errors of its own
            refusal = error
            break
    raise BindingError(f"{what} cannot be bound: its __dlpack__ says: {refusal}") from refusal


def _unpacked(capsule: Any, what: str) -> tuple[_Tensor, bool]:
    """The structure in a capsule, and whether it is read-only."""
    address = id(capsule)
    if type(capsule).__name__ == "PyCapsule":
        if _is_valid(address, _NAME):
            return _Tensor.from_address(_pointer_in(address, _NAME)), False
        if _is_valid(address, _VERSIONED_NAME):
            versioned = _Versioned.from_address(_pointer_in(address, _VERSIONED_NAME))
            if versioned.major == VERSION[0]:
                return versioned.tensor, bool(versioned.flags & _READ_ONLY)
    raise BindingError(
        f"{what} cannot be bound: what its __dlpack__ returns is no unused DLPack tensor of version 0 or 1"
    )


# Export ---------------------------------------------------------------------------------------------------------------


class _Described:
    """Memory as NumPy takes it, by a description, and what keeps it alive."""

    def __init__(self, description: dict[str, Any], keep: Any) -> None:
        self.__array_interface__, self._keep = description, keep


def exported(
    pointer: int,
    device: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    strides: tuple[int, ...] | None,
    *,
    keep: Any,
    is_versioned: bool,
    read_only: bool = False,
    is_copied: bool = False,
) -> Any:
    """A capsule of memory of a CUDA device. ``keep`` lives until its consumer, or the unused capsule, is gone.

    ``strides`` are in bytes; None: C-contiguous. Raises BindingError for a type that DLPack does not have.

    NumPy makes the capsule, as if the memory were the CPU's: one that is refused is deleted while an exception is set,
    and then a destructor in Python would lose both the exception and the memory.
    """
    description = {
        "shape": shape, "typestr": dtype.str, "strides": strides, "data": (pointer, read_only), "version": 3,
    }  # fmt: skip
    array = np.asarray(_Described(description, keep))
    try:
        capsule = array.__dlpack__(max_version=VERSION) if is_versioned else array.__dlpack__()
    except BufferError as error:
        raise BindingError(f"numbers of the type {dtype} have no DLPack type that is given out") from error
    tensor, _ = _unpacked(capsule, "it")
    tensor.device_type, tensor.device = CUDA, device
    if is_versioned and is_copied:
        _Versioned.from_address(_pointer_in(id(capsule), _VERSIONED_NAME)).flags |= _IS_COPIED
    return capsule


# The CPU's memory -----------------------------------------------------------------------------------------------------


def is_on_host(native: Any) -> bool:
    """Whether an object is a NumPy array, or speaks DLPack and lies in memory that NumPy reads."""
    if isinstance(native, np.ndarray):
        return True
    device = device_of(native)
    return device is not None and device[0] in HOST_DEVICES


def host_array(native: Any) -> np.ndarray:
    """A NumPy array on the memory of an object for which ``is_on_host`` is true.

    Raises BindingError if the object does not give its memory out.
    """
    if isinstance(native, np.ndarray):
        check_unmasked(native)
        return np.asarray(native)  # of a subclass, whose attributes may be anything, the plain array
    given = imported(native)
    description = {
        "shape": given.shape, "typestr": given.dtype.str, "strides": given.strides,
        "data": (given.pointer, given.read_only), "version": 3,
    }  # fmt: skip
    return np.asarray(_Described(description, given))  # NumPy's from_dlpack makes whatever has no version read-only
