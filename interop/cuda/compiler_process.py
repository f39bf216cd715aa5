"""NVRTC as a program that compiles one text: ``python compiler_process.py LIBRARY OPTION ...``.

It reads the length of the text in 8 bytes, and the text, from its standard input. It writes a byte to its standard
output, 0 and then the machine code (a cubin), or 1 and then the compiler's log. If its standard input ends before it is
done, as it does with the process at the other end, it ends, too.

It imports nothing of framebind, so that it starts in 60 ms.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any, BinaryIO


class StatusError(Exception):
    """A call of NVRTC that failed, with its status."""


class CompileError(Exception):
    """A text that NVRTC does not take, with the compiler's log."""


def compile_text(library: ctypes.CDLL, text: bytes, options: Sequence[str]) -> bytes:
    """The cubin of a text. Raises CompileError with the compiler's log, and StatusError if a call fails."""
    program, given = ctypes.c_void_p(), [option.encode() for option in options]
    _check(library.nvrtcCreateProgram(ctypes.byref(program), text, b"framebind.cu", 0, None, None))
    try:
        if library.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*given)):
            raise CompileError(_result(library, "ProgramLog", program).decode(errors="replace").strip("\0\n"))
        return _result(library, "CUBIN", program)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _result(library: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> bytes:
    """A result of a compilation, as bytes: "CUBIN" or "ProgramLog"."""
    size = ctypes.c_size_t()
    _check(getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    found: Any = ctypes.create_string_buffer(size.value)
    _check(getattr(library, f"nvrtcGet{what}")(program, found))
    return found.raw


def _check(status: int) -> None:
    if status:
        raise StatusError(status)


def _end_with(stream: BinaryIO) -> None:
    """End this process at once when a stream ends."""
    stream.read()
    os._exit(1)


def main(library: str, *options: str) -> None:
    """Compile the text of the standard input."""
    given, output = sys.stdin.buffer, sys.stdout.buffer
    text = given.read(int.from_bytes(given.read(8), "little"))
    threading.Thread(target=_end_with, args=(given,), daemon=True).start()
    try:
        answer = b"\0" + compile_text(ctypes.CDLL(library), text, options)
    except CompileError as refusal:
        answer = b"\1" + str(refusal).encode()
    output.write(answer)
    output.flush()
    os._exit(0)  # the thread still reads


if __name__ == "__main__":
    main(*sys.argv[1:])
