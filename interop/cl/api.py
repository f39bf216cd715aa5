"""OpenCL's own entry points through ctypes: those that pyopencl lacks, and the one where its cost per call counts."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Iterator
from typing import Any

import pyopencl as cl
from pyopencl import _cl

from ..errors import DeviceError

_UUID_EXTENSION, _DEVICE_UUID = "cl_khr_device_uuid", 0x106A


@functools.cache
def loader() -> ctypes.CDLL:
    """The ICD loader. Handles carry the driver's own functions, so that any copy of the loader takes pyopencl's."""
    # On systems other than Windows, pyopencl's module gives access to the library with which it was linked.
    return ctypes.CDLL("OpenCL.dll" if os.name == "nt" else _cl.__file__)


def extension(platform: cl.Platform, name: str, restype: Any, *argtypes: Any) -> Any:
    """An extension's function of that platform's driver, or None if it has none."""
    find = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
        ("clGetExtensionFunctionAddressForPlatform", loader())
    )
    address = find(platform.int_ptr, name.encode())
    return ctypes.CFUNCTYPE(restype, *argtypes)(address) if address else None


def device_bits(device: cl.Device, parameter: int) -> int:
    """The 64 bits that clGetDeviceInfo gives for a parameter that pyopencl does not know; 0 if it gives none."""
    value = ctypes.c_uint64()
    ask = loader().clGetDeviceInfo
    place = (ctypes.c_void_p(device.int_ptr), ctypes.c_uint(parameter), ctypes.c_size_t(8))
    return 0 if ask(*place, ctypes.byref(value), None) else value.value


def device_uuid(device: cl.Device) -> bytes:
    """The 16 bytes by which other APIs know the device as well; no bytes if the driver does not tell."""
    uuid = (ctypes.c_uint8 * 16)()
    if _UUID_EXTENSION not in device.extensions.split():
        return b""
    place = (ctypes.c_void_p(device.int_ptr), ctypes.c_uint(_DEVICE_UUID), ctypes.c_size_t(len(uuid)))
    check(loader().clGetDeviceInfo(*place, uuid, None), f"asking '{device.name.strip()}' for its UUID")
    return bytes(uuid)


def is_object(pointer: int) -> bool:
    """Whether an OpenCL handle is alive, as far as memory shows: objects begin with their driver's table of functions.

    For handles that were alive once. A call with a freed one would crash the process.
    """
    return ctypes.c_void_p.from_address(pointer).value in _function_tables()


@functools.cache
def _function_tables() -> frozenset[int | None]:
    return frozenset(ctypes.c_void_p.from_address(platform.int_ptr).value for platform in cl.get_platforms())


def check(status: int, what: str) -> None:
    """Raise DeviceError if a call has failed, with the call and OpenCL's name of the error."""
    if status:
        raise DeviceError(f"{what} failed: OpenCL error {cl.status_code.to_string(status, '%d')} ({status})")


@contextlib.contextmanager
def own_errors(what: str) -> Iterator[None]:
    """Raise DeviceError, naming what was being done, in place of pyopencl's errors."""
    try:
        yield
    except cl.Error as error:
        raise DeviceError(f"{what} failed: {error}") from error
