"""GL programs: compiled from GLSL, or loaded from the binary that the driver made of the same text before.

An error carries the compiler's log and the numbered text.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable
from typing import Any

from ..binaries import BinaryStore
from ..errors import KernelError
from .context import GlContext
from .khronos import GL

_FORMAT = struct.Struct("<I")
COMPILING = threading.RLock()
"""Lock that is held by the thread that compiles programs.

The threads of NVIDIA's compiler belong to the process: it crashes if one context changes their number while another
context's programs compile (H100, driver 580.159, 2026-11-22: benchmarks/endurance.py --backend gl --threads 2).
"""


def build_program(context: GlContext, name: str, texts: dict[int, str], store: BinaryStore | None = None) -> int:
    """Build a program of the shaders ``texts`` (shader type to GLSL), and count it among the context's live objects.

    Raises KernelError with the log of the shader, or of the linker, that failed.
    """
    with COMPILING:
        return begin_program(context, name, texts, store)()


def begin_program(
    context: GlContext, name: str, texts: dict[int, str], store: BinaryStore | None = None
) -> Callable[[], int]:
    """Let the driver begin to build a program. The returned function waits for the result: see ``build_program``."""
    text = "\n".join(texts.values())
    binary = store.find(text) if store is not None else None
    loaded = _load(context, binary) if binary else 0
    if not loaded and store is not None:
        store.reject(text)
    program, shaders = (loaded, []) if loaded else _begin(context, texts)

    def finish() -> int:
        _check(context, name, text, program, shaders)
        context.objects.live["program"] += 1
        offer(context, program, text, store)
        return program

    return finish


def offer(context: GlContext, program: int, text: str, store: BinaryStore | None) -> None:
    """Let the store keep the binary of a linked program."""
    if store is not None:
        store.keep(text, lambda: program_binary(context, program))


def program_binary(context: GlContext, program: int) -> bytes | None:
    """The driver's compiled form of a program, which ``build_program`` can load: the number of its format, then bytes.

    None if the driver gives out none, as Mesa does if its own cache is switched off.
    """
    gl = context.gl
    length = _get(gl.glGetProgramiv, program, GL.PROGRAM_BINARY_LENGTH)
    if not gl.integer(GL.NUM_PROGRAM_BINARY_FORMATS) or not length:
        return None
    data, format_, written = ctypes.create_string_buffer(length), ctypes.c_uint(), ctypes.c_int()
    gl.glGetProgramBinary(program, length, ctypes.byref(written), ctypes.byref(format_), data)
    return _FORMAT.pack(format_.value) + data.raw[: written.value] if written.value else None


def _load(context: GlContext, binary: bytes) -> int:
    """Load what ``program_binary`` returned; 0 if the driver does not take it (any more)."""
    gl = context.gl
    if len(binary) <= _FORMAT.size or not gl.integer(GL.NUM_PROGRAM_BINARY_FORMATS):
        return 0
    context.objects.drain()
    program, data = gl.glCreateProgram(), binary[_FORMAT.size :]
    gl.glProgramBinary(program, _FORMAT.unpack_from(binary)[0], data, len(data))
    if _get(gl.glGetProgramiv, program, GL.LINK_STATUS):
        return program
    gl.glDeleteProgram(program)
    gl.clear_errors()  # an unknown format is a GL error as well
    return 0


def _begin(context: GlContext, texts: dict[int, str]) -> tuple[int, list[int]]:
    """A program and its shaders, compiled and linked without waiting for the result."""
    gl = context.gl
    context.objects.drain()
    program, shaders = gl.glCreateProgram(), []
    for shader_type, text in texts.items():
        shader, data = gl.glCreateShader(shader_type), text.encode()
        gl.glShaderSource(shader, 1, (ctypes.c_char_p * 1)(data), (ctypes.c_int * 1)(len(data)))
        gl.glCompileShader(shader)
        gl.glAttachShader(program, shader)
        shaders.append(shader)
    gl.glProgramParameteri(program, GL.PROGRAM_BINARY_RETRIEVABLE_HINT, 1)
    gl.glLinkProgram(program)
    return program, shaders


def _check(context: GlContext, name: str, text: str, program: int, shaders: list[int]) -> None:
    """Delete the shaders. If one of them or the linker failed, delete the program and raise KernelError."""
    gl, said = context.gl, ""
    for shader in shaders:
        if not said and not _get(gl.glGetShaderiv, shader, GL.COMPILE_STATUS):
            said = _log(gl.glGetShaderiv, gl.glGetShaderInfoLog, shader) or "it does not compile"
        gl.glDeleteShader(shader)
    if not said and not _get(gl.glGetProgramiv, program, GL.LINK_STATUS):
        said = f"linking failed: {_log(gl.glGetProgramiv, gl.glGetProgramInfoLog, program)}"
    if said:
        gl.glDeleteProgram(program)
        raise KernelError(name, str(context), said, text)


def _get(function: Callable[..., Any], name: int, parameter: int) -> int:
    value = ctypes.c_int()
    function(name, parameter, ctypes.byref(value))
    return value.value


def _log(get: Callable[..., Any], get_log: Callable[..., Any], name: int) -> str:
    length = max(_get(get, name, GL.INFO_LOG_LENGTH), 1)
    buffer = ctypes.create_string_buffer(length)
    get_log(name, length, None, buffer)
    return buffer.value.decode(errors="replace")
