"""OpenCL's entry points through ctypes: those that pyopencl lacks, and one whose cost per call matters."""

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
    """The ICD loader. A handle points to its driver's functions, so any copy of the loader takes pyopencl's handles."""
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
    """A 64-bit parameter of clGetDeviceInfo that pyopencl lacks; 0 if the driver does not know it."""
    value = ctypes.c_uint64()
    ask = loader().clGetDeviceInfo
    place = (ctypes.c_void_p(device.int_ptr), ctypes.c_uint(parameter), ctypes.c_size_t(8))
    return 0 if ask(*place, ctypes.byref(value), None) else value.value


def device_uuid(device: cl.Device) -> bytes:
    """The UUID of the device, 16 bytes, which other APIs have too; empty if the driver does not tell it."""
    uuid = (ctypes.c_uint8 * 16)()
    if _UUID_EXTENSION not in device.extensions.split():
        return b""
    place = (ctypes.c_void_p(device.int_ptr), ctypes.c_uint(_DEVICE_UUID), ctypes.c_size_t(len(uuid)))
    check(loader().clGetDeviceInfo(*place, uuid, None), f"asking '{device.name.strip()}' for its UUID")
    return bytes(uuid)


def is_object(pointer: int) -> bool:
    """Whether an OpenCL handle seems to be alive: a live object begins with a pointer to its driver's function table.

    Only for handles that were alive once: it reads their memory. A call with a freed handle would crash the process.
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
