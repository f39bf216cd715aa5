"""NVIDIA's runtime compiler (NVRTC): CUDA C++ to machine code (a cubin). It needs no GPU and no driver."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

from ..errors import DeviceError
from ..gl.platform import load

INSTALL = "pip install nvidia-cuda-nvrtc cuda-pathfinder"
OPTIONS = ("--std=c++17", "--device-as-default-execution-space", "--disable-warnings")
"""Compiler options for every text: helper functions run on the GPU."""
MOST_THREADS = 16
"""Threads of the compiler at most. Not measured."""
_SPLITS = 12, 4
"""The first version that is known to optimize the functions of a text on several threads."""


@functools.cache
def _library() -> ctypes.CDLL:
    """The compiler, of the package nvidia-cuda-nvrtc or of an installed CUDA toolkit. Raises DeviceError if there is
    none.
    """
    library = _find()
    if library is None:
        raise DeviceError(f"the backend 'cuda' needs NVIDIA's compiler NVRTC, which is not there: {INSTALL}")
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def _find() -> ctypes.CDLL | None:
    """The library, as NVIDIA's package finds it: in Python packages, Conda or a toolkit. Without that package, as the
    system finds it.
    """
    try:
        from cuda import pathfinder  # pyright: ignore[reportAttributeAccessIssue]  # of the extra [cuda]
    except ImportError:
        return load("libnvrtc.so.13", "libnvrtc.so.12")
    try:
        path = pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path
        return ctypes.CDLL(path) if path else load("libnvrtc.so.13", "libnvrtc.so.12")
    except (pathfinder.DynamicLibNotFoundError, OSError):
        return None


@functools.cache
def version() -> tuple[int, int]:
    """The version of the compiler: major, minor. Raises DeviceError if there is none."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "asking for the version")
    return major.value, minor.value


@functools.cache
def architecture(capability: int) -> int:
    """The newest architecture that the compiler knows and a GPU of this compute capability (90 is 9.0) runs.

    Raises DeviceError if the GPU is older than all of them.
    """
    library, count = _library(), ctypes.c_int()
    _check(library.nvrtcGetNumSupportedArchs(ctypes.byref(count)), "asking for architectures")
    known = (ctypes.c_int * count.value)()
    _check(library.nvrtcGetSupportedArchs(known), "asking for architectures")
    # Machine code runs on GPUs of the same major number, and of the same minor number or a later one.
    fitting = [each for each in known if each // 10 == capability // 10 and each <= capability]
    if not fitting:
        name = ".".join(map(str, version()))
        raise DeviceError(
            f"NVRTC {name} compiles for compute capabilities {min(known) / 10} to {max(known) / 10}, and the GPU has "
            f"{capability / 10}: take a package of nvidia-cuda-nvrtc that knows it"
        )
    return max(fitting)


class CompileError(Exception):
    """A text that NVRTC does not take: the compiler's log."""


def machine_code(text: str, architecture: int) -> bytes:
    """The cubin of a text for an architecture (90 is sm_90). Raises CompileError with the compiler's log."""
    library, program = _library(), ctypes.c_void_p()
    _check(library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"framebind.cu", 0, None, None), "NVRTC")
    try:
        options = [option.encode() for option in (*OPTIONS, *_threads(), f"--gpu-architecture=sm_{architecture}")]
        status = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        if status:
            raise CompileError(_text_of(library, "ProgramLog", program).decode(errors="replace").strip("\0\n"))
        return _text_of(library, "CUBIN", program)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _threads() -> tuple[str, ...]:
    """The option that lets the compiler use threads. (Calling it from several threads would not help: calls wait for
    one another.)
    """
    count = min(MOST_THREADS, os.cpu_count() or 1)
    return (f"--split-compile={count}",) if version() >= _SPLITS and count > 1 else ()


def _text_of(library: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> bytes:
    """A result of a compilation, as bytes: "CUBIN" or "ProgramLog"."""
    size = ctypes.c_size_t()
    _check(getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), f"asking for the {what}")
    found: Any = ctypes.create_string_buffer(size.value)
    _check(getattr(library, f"nvrtcGet{what}")(program, found), f"fetching the {what}")
    return found.raw


def _check(status: int, what: str) -> None:
    if status:
        said = _library().nvrtcGetErrorString(status).decode()
        raise DeviceError(f"{what} failed: NVRTC error {said} ({status})")
