"""Makes machine code (a cubin) from PTX. NVIDIA's OpenCL gives out PTX only.

clCreateProgramWithBinary takes both, but it compiles PTX again, which takes a third to a half of the time for the text.
Here the linker of CUDA's driver API compiles it; it is in the library on which NVIDIA's OpenCL is built. Without a
limit it uses more registers than OpenCL does (196 in place of 128 for style_transfer_f16_384, so half as many
work-groups fit on an H200). So it is given a limit: see ``_REGISTERS``.
"""

from __future__ import annotations

import ctypes
import functools
import re
import weakref
from typing import Any

import pyopencl as cl

from ..cuda.api import check, device_count, driver
from ..cuda.api import device_uuid as cuda_uuid
from ..cuda.current import entered
from ..errors import DeviceError
from ..forks import free
from .api import device_uuid

_INPUT_PTX, _ERROR_LOG, _ERROR_LOG_BYTES, _LOG_BYTES = 1, 5, 6, 4096
_REGISTERS = 128
"""Register limit of an invocation: 512 of them fit on a compute unit, as with the code of OpenCL's own compiler."""
_HIDDEN = b"//@ "
"""The beginning of a comment of PTX that is an instruction."""
_assemblers: weakref.WeakValueDictionary[int, Assembler] = weakref.WeakValueDictionary()


def is_ptx(binary: bytes) -> bool:
    """Whether a program's binary is PTX text."""
    return b"\n.target sm_" in binary[:1000]


def hides_instructions(text: bytes) -> bool:
    """Whether PTX has instructions as comments (SM_90A in kernels/codegen/prelude.cl): OpenCL's compiler refuses them,
    but compiles PTX that has them.
    """
    return _HIDDEN in text


def revealed(text: bytes) -> bytes:
    """PTX with these instructions, for GPUs of exactly this compute capability."""
    return re.sub(rb"^(\.target sm_\d+)\b", rb"\1a", text.replace(_HIDDEN, b""), count=1, flags=re.MULTILINE)


def is_revealed(binary: bytes) -> bool:
    """Whether a program's binary is such PTX. CUDA's linker makes slower code of it, or none."""
    return is_ptx(binary) and re.search(rb"^\.target sm_\d+a", binary[:1000], re.MULTILINE) is not None


def assembler(device: cl.Device) -> Assembler:
    """The assembler for a device: the same one as long as anybody holds it."""
    found = _assemblers.get(device.int_ptr)
    if found is None:
        found = _assemblers[device.int_ptr] = Assembler(device)
    return found


class Assembler:
    """Compiles PTX for one GPU.

    It holds a CUDA context on the GPU from its first use until it is collected. The context takes 0.1 s and memory.
    """

    def __init__(self, device: cl.Device) -> None:
        self._device = device

    def machine_code(self, text: bytes) -> bytes:
        """The cubin of a program's PTX. Raises DeviceError with the driver's log if it cannot be made."""
        text = _with_registers(text)
        cuda = driver()
        with entered(cuda, self._context):
            return _link(cuda, text.rstrip(b"\0") + b"\0")

    @functools.cached_property
    def _context(self) -> int:
        """The handle of the context."""
        cuda, device, context = driver(), _cuda_device(device_uuid(self._device)), ctypes.c_void_p()
        check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "making a CUDA context")
        weakref.finalize(self, free, cuda.cuDevicePrimaryCtxRelease_v2, device).atexit = False
        assert context.value is not None
        return context.value


def _with_registers(text: bytes) -> bytes:
    """Add a limit of registers to each kernel of a PTX text. Raises DeviceError if no kernel says its group size."""
    limited, kernels = re.subn(rb"^\.reqntid .*$", rb"\g<0>\n.maxnreg %d" % _REGISTERS, text, flags=re.MULTILINE)
    if not kernels:
        raise DeviceError("its PTX does not say how large a kernel's work-groups are")
    return limited


def _link(cuda: Any, text: bytes) -> bytes:
    log = ctypes.create_string_buffer(_LOG_BYTES)
    options = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
    values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
    state, cubin, nbytes = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    check(cuda.cuLinkCreate_v2(2, options, values, ctypes.byref(state)), "making a linker")
    try:
        size = ctypes.c_size_t(len(text))
        _check(cuda.cuLinkAddData_v2(state, _INPUT_PTX, text, size, b"program", 0, None, None), "compiling PTX", log)
        _check(cuda.cuLinkComplete(state, ctypes.byref(cubin), ctypes.byref(nbytes)), "linking", log)
        return ctypes.string_at(cubin, nbytes.value)
    finally:
        cuda.cuLinkDestroy(state)


def _cuda_device(uuid: bytes) -> int:
    for number in range(device_count()):
        if cuda_uuid(number) == uuid:
            return number
    raise DeviceError("CUDA does not know the OpenCL device")


def _check(status: int, what: str, log: Any) -> None:
    """Raise DeviceError if a call of the linker has failed, with its log."""
    if status:
        said = log.value.decode(errors="replace").strip()
        raise DeviceError(f"{what} failed: CUDA error {status} {said}".rstrip())
