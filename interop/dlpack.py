"""DLPack: tensors of other libraries, and memory of ours for them, by the protocol's C structures and capsules."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import contiguous_strides
from .errors import BindingError

CUDA, VERSION = 2, (1, 0)
"""kDLCUDA, and the version of the protocol that is asked for and given out."""
HOST_DEVICES, CUDA_DEVICES = {1, 3}, {CUDA, 13}
"""kDLCPU and kDLCUDAHost, which NumPy reads; kDLCUDA and kDLCUDAManaged."""
_KINDS = {0: "i", 1: "u", 2: "f", 6: "b"}
"""NumPy's kinds by DLPack's type codes."""
_OTHER_KINDS = {4: "bfloat16", 5: "complex"}
_READ_ONLY, _IS_COPIED = 1, 2
"""Flags of a tensor."""
LEGACY_STREAM, PER_THREAD_STREAM, NO_STREAM = 1, 2, -1
"""The protocol's numbers of CUDA's legacy default stream, whose handle may be 0 as well; of the default stream of each
thread; and of no order at all.
"""
_NAME, _VERSIONED_NAME = b"dltensor", b"dltensor_versioned"
_USED = {_NAME: b"used_dltensor", _VERSIONED_NAME: b"used_dltensor_versioned"}
"""The names of capsules that a consumer has taken."""
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Tensor(ctypes.Structure):
    """DLTensor, with DLDevice and DLDataType in it."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
        ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _Managed(ctypes.Structure):
    """DLManagedTensor, which has no version."""

    _fields_ = (("tensor", _Tensor), ("manager", ctypes.c_void_p), ("deleter", _DELETER))


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p), ("deleter", _DELETER),
        ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    )  # fmt: skip


def _python(name: str, result: Any, *arguments: Any) -> Any:
    """A function of Python's C API. Capsules are given by address: a destructor must not make references to its own."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new_capsule = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
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


@dataclass(frozen=True)
class Imported:
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
    dtype, rank = _dtype_of(tensor, what), tensor.rank
    strides = tuple(dtype.itemsize * n for n in tensor.strides[:rank]) if tensor.strides else None
    return Imported(
        (tensor.data or 0) + tensor.byte_offset, tensor.device, tuple(tensor.shape[:rank]), dtype, strides, read_only,
        _Taken(capsule), takes_stream and stream != PER_THREAD_STREAM,
    )  # fmt: skip


def _dtype_of(tensor: _Tensor, what: str) -> np.dtype[Any]:
    """NumPy's type of a tensor's numbers. Raises BindingError if it has none."""
    if tensor.lanes == 1 and tensor.code in _KINDS and tensor.bits % 8 == 0:
        with contextlib.suppress(TypeError):  # NumPy has no such size
            return np.dtype(f"{_KINDS[tensor.code]}{tensor.bits // 8}")
    name = _OTHER_KINDS.get(tensor.code, f"of DLPack's type {tensor.code}")
    bits = f"{tensor.bits} bits" + (f", {tensor.lanes} at once" if tensor.lanes != 1 else "")
    raise BindingError(f"{what} cannot be bound: its numbers are {name} ({bits}); convert it to float32 or float16")


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

_given_out: dict[int, tuple[Any, ...]] = {}
"""Memory that consumers use, by the address of its structure, until they call the deleter."""


def exported(
    pointer: int,
    device: int,
    shape: Sequence[int],
    dtype: np.dtype[Any],
    strides: Sequence[int] | None,
    *,
    keep: Any,
    is_versioned: bool,
    read_only: bool = False,
    is_copied: bool = False,
) -> Any:
    """A capsule of memory of a CUDA device. ``keep`` lives until its consumer, or the unused capsule, is gone.

    ``strides`` are in elements; None: C-contiguous. Raises BindingError for a type that DLPack does not have.
    """
    rank, strides = len(shape), contiguous_strides(shape) if strides is None else strides
    sizes, steps = (ctypes.c_int64 * rank)(*shape), (ctypes.c_int64 * rank)(*strides)
    code = next((code for code, kind in _KINDS.items() if kind == dtype.kind and dtype.isnative), None)
    if code is None:
        raise BindingError(f"numbers of the type {dtype} have no DLPack type that is given out")
    tensor = _Tensor(
        pointer, CUDA, device, rank, code, 8 * dtype.itemsize, 1,
        ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64)), ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64)), 0,
    )  # fmt: skip
    if is_versioned:
        flags = read_only * _READ_ONLY | is_copied * _IS_COPIED
        managed = _Versioned(*VERSION, None, _forget, flags, tensor)
    else:
        managed = _Managed(tensor, None, _forget)
    address = ctypes.addressof(managed)
    _given_out[address] = (managed, sizes, steps, keep)
    return _new_capsule(address, _VERSIONED_NAME if is_versioned else _NAME, _destructor_address)


@_DELETER
def _forget(address: int) -> None:
    """Let go of what a consumer has used. Consumers call it once, on any thread."""
    _given_out.pop(address, None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _destroyed(capsule: int) -> None:
    """Let go of what nobody has taken: a consumer gives the capsule another name ("used_dltensor")."""
    for name in (_NAME, _VERSIONED_NAME):
        if _is_valid(capsule, name):
            _given_out.pop(_pointer_in(capsule, name), None)


_destructor_address = ctypes.cast(_destroyed, ctypes.c_void_p).value


# The CPU's memory -----------------------------------------------------------------------------------------------------


def is_on_host(native: Any) -> bool:
    """Whether an object is a NumPy array, or speaks DLPack and lies in memory that NumPy reads."""
    if isinstance(native, np.ndarray):
        return True
    device = device_of(native)
    return device is not None and device[0] in HOST_DEVICES


class _OnHost:
    """A tensor as NumPy takes it. (Its own from_dlpack makes whatever has no version read-only.)"""

    def __init__(self, given: Imported) -> None:
        self._given = given

    @property
    def __array_interface__(self) -> dict[str, Any]:
        given = self._given
        return {
            "shape": given.shape, "typestr": given.dtype.str, "data": (given.pointer, given.read_only),
            "strides": given.strides, "version": 3,
        }  # fmt: skip


def host_array(native: Any) -> np.ndarray:
    """Such an object as a NumPy array on the same memory. Raises BindingError if it does not give it out."""
    return native if isinstance(native, np.ndarray) else np.asarray(_OnHost(imported(native)))
