"""NVIDIA's runtime compiler (NVRTC): CUDA C++ to machine code (a cubin). It needs no GPU and no driver."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import DeviceError
from ..gl.platform import load
from . import compiler_process
from .compiler_process import CompileError as CompileError
from .compiler_process import StatusError

log = logging.getLogger("framebind")

INSTALL = "pip install nvidia-cuda-nvrtc cuda-pathfinder"
OPTIONS = ("--std=c++17", "--device-as-default-execution-space", "--disable-warnings")
"""Compiler options for every text: helper functions run on the GPU."""
WARPGROUPS = 90
"""The compute capability that multiplies by whole warpgroups."""
MOST_PROCESSES = 16
"""Processes that compile at once, and threads of one, at most. More were not measured."""
LEAST_KERNELS = 4
"""The fewest kernels for a process, which takes as long to start as it needs for one or two. 2 were not faster."""
_PIPE_BYTES = 1 << 20
"""Room for a text, so that nothing waits until its process has started."""
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


def machine_code(text: str, architecture: int) -> bytes:
    """The cubin of a text for an architecture (90 is sm_90). Raises CompileError with the compiler's log."""
    (code,) = machine_codes([text], architecture)
    return code


def machine_codes(texts: Sequence[str], architecture: int) -> list[bytes]:
    """The cubins of texts. This process compiles the first, and meanwhile a process for each compiles the others.
    (Threads would not help, because calls of NVRTC wait for one another.) Raises CompileError with the compiler's log.

    A text whose process fails is compiled here afterwards.
    """
    options = (*OPTIONS, *_threads(len(texts)), f"--gpu-architecture={_name(architecture)}")
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(_compiling(text, options)) for text in texts[1:]]
        codes = [_compiled_here(texts[0], options)]
        for text, process in zip(texts[1:], others, strict=True):
            codes.append(_answer(process) or _compiled_here(text, options))
    return codes


def _name(architecture: int) -> str:
    """The architecture's name, with the instructions that no other has if the kernels use them: wgmma of 9.0."""
    return f"sm_{architecture}{'a' if architecture == WARPGROUPS else ''}"


def processes(kernels: int) -> int:
    """The number of texts into which kernels are best divided, as many as there are cores: see ``machine_codes``."""
    return max(1, min(MOST_PROCESSES, _cores(), kernels // LEAST_KERNELS)) if _has_python() else 1


def _compiled_here(text: str, options: Sequence[str]) -> bytes:
    """The cubin of a text, compiled by this process."""
    try:
        return compiler_process.compile_text(_library(), text.encode(), options)
    except StatusError as error:
        _check(error.args[0], "compiling")
        raise


@contextlib.contextmanager
def _compiling(text: str, options: Sequence[str]) -> Iterator[subprocess.Popen[bytes] | None]:
    """A process that compiles a text during a block, and ends with it; None if it cannot start."""
    program, pipe = [sys.executable, "-I", "-S", compiler_process.__file__, library_file(), *options], subprocess.PIPE
    try:
        process = subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, pipesize=_PIPE_BYTES)
    except OSError as error:
        log.info("a process that compiles kernels cannot start: %s", error)
        yield None
        return
    try:
        assert process.stdin is not None
        content = text.encode()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(len(content).to_bytes(8, "little") + content)
            process.stdin.flush()
        yield process
    finally:
        process.kill()
        process.communicate()


def _answer(process: subprocess.Popen[bytes] | None) -> bytes | None:
    """The cubin that a process writes; None, and a line in the log, if it fails, also in the midst of its answer.

    Raises CompileError.
    """
    if process is None:
        return None
    assert process.stdout is not None
    answer = process.stdout.read()
    if process.wait() or len(answer) < 2:
        log.info("a process that compiles kernels ended without an answer: its kernels are compiled here")
        return None
    if answer[:1] == b"\1":
        raise CompileError(answer[1:].decode(errors="replace"))
    return answer[1:]


def _has_python() -> bool:
    """Whether ``sys.executable`` is Python. In a program that embeds Python, it is that program."""
    named = Path(sys.executable or "").name.lower().startswith("python")
    return named and not getattr(sys, "frozen", False) and bool(library_file())


def library_file() -> str:
    """The compiler's library as the system finds it; "" if it is no file. Raises DeviceError if there is none."""
    return _library()._name


def _cores() -> int:
    """The CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _threads(texts: int) -> tuple[str, ...]:
    """The option that lets the compiler use threads, if there are more cores than processes."""
    count = min(MOST_PROCESSES, _cores() // texts)
    return (f"--split-compile={count}",) if version() >= _SPLITS and count > 1 else ()


def _check(status: int, what: str) -> None:
    if status:
        said = _library().nvrtcGetErrorString(status).decode()
        raise DeviceError(f"{what} failed: NVRTC error {said} ({status})")
