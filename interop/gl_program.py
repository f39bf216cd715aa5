"""Compiles GLSL into programs, with errors that carry the compiler's log and the numbered text."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from .errors import KernelError
from .gl_context import GlContext

COMPUTE_SHADER, VERTEX_SHADER, FRAGMENT_SHADER = 0x91B9, 0x8B31, 0x8B30
_COMPILE_STATUS, _LINK_STATUS, _INFO_LOG_LENGTH = 0x8B81, 0x8B82, 0x8B84


def build_program(context: GlContext, name: str, texts: dict[int, str]) -> int:
    """A linked program of the shaders ``texts`` (shader type to GLSL), counted among the context's live objects.

    Raises KernelError with the log of the shader, or of the linker, that failed.
    """
    gl = context.gl
    context.drain()
    program, shaders = gl.glCreateProgram(), []
    try:
        for shader_type, text in texts.items():
            shader = gl.glCreateShader(shader_type)
            shaders.append(shader)
            _compile(context, shader, name, text)
            gl.glAttachShader(program, shader)
        gl.glLinkProgram(program)
        if not _get(gl.glGetProgramiv, program, _LINK_STATUS):
            log = _log(gl.glGetProgramiv, gl.glGetProgramInfoLog, program)
            raise KernelError(name, str(context), f"linking failed: {log}", "\n".join(texts.values()))
    except KernelError:
        gl.glDeleteProgram(program)
        raise
    finally:
        for shader in shaders:
            gl.glDeleteShader(shader)
    context.live["program"] += 1
    return program


def _compile(context: GlContext, shader: int, name: str, text: str) -> None:
    gl, data = context.gl, text.encode()
    strings, lengths = (ctypes.c_char_p * 1)(data), (ctypes.c_int * 1)(len(data))
    gl.glShaderSource(shader, 1, strings, lengths)
    gl.glCompileShader(shader)
    if not _get(gl.glGetShaderiv, shader, _COMPILE_STATUS):
        raise KernelError(name, str(context), _log(gl.glGetShaderiv, gl.glGetShaderInfoLog, shader), text)


def _get(function: Callable[..., Any], name: int, parameter: int) -> int:
    value = ctypes.c_int()
    function(name, parameter, ctypes.byref(value))
    return value.value


def _log(get: Callable[..., Any], get_log: Callable[..., Any], name: int) -> str:
    length = max(_get(get, name, _INFO_LOG_LENGTH), 1)
    buffer = ctypes.create_string_buffer(length)
    get_log(name, length, None, buffer)
    return buffer.value.decode(errors="replace")
