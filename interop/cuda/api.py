"""CUDA's driver API through ctypes: the library, the entry points that are used, and their errors.

Calls cost less than through NVIDIA's Python package, and nothing is loaded before the first call:
docs/decisions/0018-cuda-by-ctypes.md.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from ..errors import DeviceError
from ..gl.platform import load

_INT, _UINT, _SIZE, _HANDLE, _MEMORY = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint64
_OUT, _NAME = ctypes.c_void_p, ctypes.c_char_p
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_UINT,),
    "cuDriverGetVersion": (_OUT,),
    "cuGetErrorName": (_INT, _OUT),
    "cuGetErrorString": (_INT, _OUT),
    "cuDeviceGetCount": (_OUT,),
    "cuDeviceGet": (_OUT, _INT),
    "cuDeviceGetName": (_OUT, _INT, _INT),
    "cuDeviceGetUuid": (_OUT, _INT),
    "cuDeviceGetAttribute": (_OUT, _INT, _INT),
    "cuDeviceTotalMem_v2": (_OUT, _INT),
    "cuDevicePrimaryCtxRetain": (_OUT, _INT),
    "cuDevicePrimaryCtxRelease_v2": (_INT,),
    "cuCtxGetCurrent": (_OUT,),
    "cuCtxPushCurrent_v2": (_HANDLE,),
    "cuCtxPopCurrent_v2": (_OUT,),
    "cuMemAlloc_v2": (_OUT, _SIZE),
    "cuMemFree_v2": (_MEMORY,),
    "cuMemAllocHost_v2": (_OUT, _SIZE),
    "cuMemFreeHost": (_HANDLE,),
    "cuMemsetD8Async": (_MEMORY, ctypes.c_ubyte, _SIZE, _HANDLE),
    "cuMemcpyHtoDAsync_v2": (_MEMORY, _HANDLE, _SIZE, _HANDLE),
    "cuMemcpyDtoHAsync_v2": (_HANDLE, _MEMORY, _SIZE, _HANDLE),
    "cuMemcpyDtoDAsync_v2": (_MEMORY, _MEMORY, _SIZE, _HANDLE),
    "cuPointerGetAttribute": (_OUT, _INT, _MEMORY),
    "cuStreamCreate": (_OUT, _UINT),
    "cuStreamDestroy_v2": (_HANDLE,),
    "cuStreamGetCtx": (_HANDLE, _OUT),
    "cuStreamGetFlags": (_HANDLE, _OUT),
    "cuStreamSynchronize": (_HANDLE,),
    "cuStreamWaitEvent": (_HANDLE, _HANDLE, _UINT),
    "cuEventCreate": (_OUT, _UINT),
    "cuEventDestroy_v2": (_HANDLE,),
    "cuEventElapsedTime": (_OUT, _HANDLE, _HANDLE),
    "cuEventQuery": (_HANDLE,),
    "cuEventRecord": (_HANDLE, _HANDLE),
    "cuEventSynchronize": (_HANDLE,),
    "cuMemcpy2DAsync_v2": (_OUT, _HANDLE),
    "cuGLGetDevices_v2": (_OUT, _OUT, _UINT, _INT),
    "cuGraphicsGLRegisterBuffer": (_OUT, _UINT, _UINT),
    "cuGraphicsGLRegisterImage": (_OUT, _UINT, _UINT, _UINT),
    "cuGraphicsUnregisterResource": (_HANDLE,),
    "cuGraphicsMapResources": (_UINT, _OUT, _HANDLE),
    "cuFuncSetAttribute": (_HANDLE, _INT, _INT),
    "cuGraphicsUnmapResources": (_UINT, _OUT, _HANDLE),
    "cuGraphicsResourceGetMappedPointer_v2": (_OUT, _OUT, _HANDLE),
    "cuGraphicsSubResourceGetMappedArray": (_OUT, _HANDLE, _UINT, _UINT),
    "cuGraphCreate": (_OUT, _UINT),
    "cuGraphDestroy": (_HANDLE,),
    "cuGraphAddKernelNode": (_OUT, _HANDLE, _OUT, _SIZE, _OUT),
    "cuGraphInstantiateWithFlags": (_OUT, _HANDLE, ctypes.c_ulonglong),
    "cuGraphExecDestroy": (_HANDLE,),
    "cuGraphExecKernelNodeSetParams": (_HANDLE, _HANDLE, _OUT),
    "cuGraphLaunch": (_HANDLE, _HANDLE),
    "cuLinkCreate_v2": (_UINT, _OUT, _OUT, _OUT),
    "cuLinkAddData_v2": (_HANDLE, _INT, _OUT, _SIZE, _NAME, _UINT, _OUT, _OUT),
    "cuLinkComplete": (_HANDLE, _OUT, _OUT),
    "cuLinkDestroy": (_HANDLE,),
    "cuModuleLoadData": (_OUT, _OUT),
    "cuModuleGetFunction": (_OUT, _HANDLE, _NAME),
    "cuModuleUnload": (_HANDLE,),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (_OUT, _HANDLE, _INT, _SIZE),
    "cuLaunchKernel": (_HANDLE, *[_UINT] * 7, _HANDLE, _OUT, _OUT),
    "cuLaunchCooperativeKernel": (_HANDLE, *[_UINT] * 7, _HANDLE, _OUT),
}
"""Types of the arguments of each function that is called. All return a status, which is 0 if all went well."""
_BRIEF = (
    "cuCtxGetCurrent", "cuCtxPopCurrent_v2", "cuCtxPushCurrent_v2", "cuEventQuery", "cuGraphExecKernelNodeSetParams",
)  # fmt: skip
"""Functions that never wait. They are called without releasing Python's lock (the GIL). Otherwise another thread would
take it for a call of a microsecond, and this thread would have to wait for it. That made four threads slower than two:
docs/internals/trust.md.
"""
_ADVICE = {
    2: "free memory on the GPU; PyTorch keeps what it no longer uses (torch.cuda.empty_cache()), and JAX takes most of "
    "it at its start (XLA_PYTHON_CLIENT_PREALLOCATE=false)",
    **dict.fromkeys(
        (700, 702, 710, 714, 715, 716, 717, 718, 719),
        "a kernel failed, this library's or another's, and CUDA does nothing more in this process: start it anew",
    ),
}
"""Advice by status: out of memory; illegal addresses and the like, after which every call fails."""
NOT_READY = 600
"""Status of a query for work that is not done: CUDA_ERROR_NOT_READY."""


@functools.cache
def driver() -> Any:
    """The driver's library, started. Raises DeviceError if it is missing or finds no GPU."""
    library = load("libcuda.so.1", "nvcuda.dll")
    if library is None:
        raise DeviceError("CUDA's driver library (libcuda) is not there: install NVIDIA's driver")
    holding = ctypes.PyDLL(library._name)  # the same library; ctypes gives up the lock by the class alone
    for name in _BRIEF:
        if hasattr(holding, name):
            setattr(library, name, getattr(holding, name))
    for name, types in _SIGNATURES.items():
        function = getattr(library, name, None)
        if function is None:
            raise DeviceError(f"CUDA's driver is too old, and has no {name}: install one for CUDA 11.4 or newer")
        function.argtypes = types
    status = library.cuInit(0)
    if status:
        raise DeviceError(f"CUDA does not start: {_error(library, status)}")
    return library


def check(status: int, what: str) -> None:
    """Raise DeviceError if a call has failed, with what was being done, CUDA's name of the error, and advice."""
    if status:
        advice = _ADVICE.get(status)
        raise DeviceError(f"{what} failed: {_error(driver(), status)}{f'; {advice}' if advice else ''}")


def _error(library: Any, status: int) -> str:
    name, text = ctypes.c_char_p(), ctypes.c_char_p()
    library.cuGetErrorName(status, ctypes.byref(name))
    library.cuGetErrorString(status, ctypes.byref(text))
    said = [each.value.decode() for each in (name, text) if each.value]
    return f"CUDA error {status}{': ' if said else ''}{', '.join(said)}"


def ask(function: Callable[..., int], kind: Any, *arguments: Any, what: str) -> Any:
    """The value of a C type that a function writes to its first argument. Raises DeviceError if it fails."""
    found = kind()
    check(function(ctypes.byref(found), *arguments), what)
    return found.value


def device_count() -> int:
    """The number of GPUs. Raises DeviceError without a driver."""
    return ask(driver().cuDeviceGetCount, ctypes.c_int, what="asking for CUDA's devices")


_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76


def capability(device: int) -> int:
    """The compute capability of a GPU: 90 is 9.0."""
    major, minor = (attribute(device, each) for each in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR))
    return 10 * major + minor


def attribute(device: int, number: int) -> int:
    """A GPU's CUdevice_attribute."""
    return ask(driver().cuDeviceGetAttribute, ctypes.c_int, number, device, what=f"asking device {device} for facts")


def device_name(device: int) -> str:
    """The GPU's name."""
    name = ctypes.create_string_buffer(256)
    check(driver().cuDeviceGetName(name, len(name), device), f"asking device {device} for its name")
    return name.value.decode()


def device_uuid(device: int) -> bytes:
    """The GPU's UUID, 16 bytes."""
    found = (ctypes.c_uint8 * 16)()
    check(driver().cuDeviceGetUuid(found, device), f"asking device {device} for its UUID")
    return bytes(found)


def driver_number() -> int:
    """The newest CUDA that the driver knows: 13000 is 13.0."""
    return ask(driver().cuDriverGetVersion, ctypes.c_int, what="asking for the driver's version")


def driver_version() -> str:
    """The newest CUDA that the driver knows, as text: "13.0"."""
    found = driver_number()
    return f"{found // 1000}.{found % 1000 // 10}"
