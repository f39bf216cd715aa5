"""Questions to GL about objects that somebody else made; pixel formats; checked calls; clearing a buffer."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..errors import BindingError, DeviceError
from .context import GlContext
from .program import COMPUTE_SHADER, build_program

TEXTURE_2D = 0x0DE1
_RED, _RGBA, _UNSIGNED_BYTE, _FLOAT, _HALF_FLOAT = 0x1903, 0x1908, 0x1401, 0x1406, 0x140B
_WIDTH, _INTERNAL_FORMAT, _RED_SIZE, _IMMUTABLE = 0x1000, 0x1003, 0x805C, 0x912F
_MIN_FILTER, _BASE_LEVEL, _MAX_LEVEL, _NEAREST, _LINEAR = 0x2801, 0x813C, 0x813D, 0x2600, 0x2601
_COPY_READ_BUFFER, _COPY_WRITE_BUFFER, _SHADER_STORAGE_BUFFER = 0x8F36, 0x8F37, 0x90D2
_BUFFER_SIZE, _R32UI, _RED_INTEGER, _UNSIGNED_INT = 0x8764, 0x8236, 0x8D94, 0x1405
_ALL_BARRIERS, _OUT_OF_MEMORY, _NUM_EXTENSIONS, _EXTENSIONS = 0xFFFFFFFF, 0x0505, 0x821D, 0x1F03


@dataclass(frozen=True)
class PixelFormat:
    """How a texture format is called in GL, and the NumPy type and number of its channels."""

    internal: int
    external: int
    type: int
    dtype: type[np.generic]
    channels: int


FORMATS: dict[str, PixelFormat] = {
    "rgba8": PixelFormat(0x8058, _RGBA, _UNSIGNED_BYTE, np.uint8, 4),
    "rgba16f": PixelFormat(0x881A, _RGBA, _HALF_FLOAT, np.float16, 4),
    "rgba32f": PixelFormat(0x8814, _RGBA, _FLOAT, np.float32, 4),
    "r8": PixelFormat(0x8229, _RED, _UNSIGNED_BYTE, np.uint8, 1),
    "r32f": PixelFormat(0x822E, _RED, _FLOAT, np.float32, 1),
}
"""The keys are those of layout.TEXTURE_CHANNELS."""
_BY_INTERNAL = {pixels.internal: name for name, pixels in FORMATS.items()}
_UNSIZED = {_RGBA: "rgba8", _RED: "r8"}  # what glTexImage2D(..., GL_RGBA, ...) leaves where a channel has 8 bits
_CLEAR = """layout(local_size_x = 64) in;
layout(std430, binding = 0) writeonly buffer block { uint words[]; };
layout(location = 0) uniform int count;
void main() {
  int group = int(gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x);
  int word = group * 64 + int(gl_LocalInvocationID.x);
  if (word < count) { words[word] = 0u; }
}
"""


def has_extension(context: GlContext, name: str) -> bool:
    """Whether the driver has that extension."""
    gl, wanted = context.gl, name.encode()
    return any(gl.glGetStringi(_EXTENSIONS, i) == wanted for i in range(gl.integer(_NUM_EXTENSIONS)))


@contextlib.contextmanager
def checked(context: GlContext, what: str) -> Iterator[None]:
    """Raise DeviceError where the GL calls within the block leave an error. Earlier ones are dropped."""
    context.gl.clear_errors()
    yield
    errors = context.gl.clear_errors()
    if _OUT_OF_MEMORY in errors:
        raise DeviceError(f"{what}: {context} is out of GPU memory")
    if errors:
        raise DeviceError(f"{what} failed on {context} with GL error {', '.join(f'0x{error:04x}' for error in errors)}")


def texture(context: GlContext, id: int) -> tuple[tuple[int, int], str]:
    """(width, height) and format of the 2-D texture ``id``. Leaves it bound to GL_TEXTURE_2D on the active unit.

    Raises BindingError where there is no such texture, it is not 2-D, has no storage, or a format outside FORMATS.
    """
    gl = context.gl
    if not gl.glIsTexture(id):
        raise BindingError(
            f"GL texture {id} does not exist in {context}: it was deleted, never bound, or is another context's"
        )
    gl.clear_errors()
    gl.glBindTexture(TEXTURE_2D, id)
    if gl.clear_errors():
        raise BindingError(f"GL texture {id} is not a GL_TEXTURE_2D: only those can be bound to tensors")
    width, height, internal, red = (_level(context, 0, name) for name in (_WIDTH, 0x1001, _INTERNAL_FORMAT, _RED_SIZE))
    if not width or not height:
        raise BindingError(f"GL texture {id} has no storage yet: call glTexStorage2D or glTexImage2D first")
    format = _BY_INTERNAL.get(internal) or (_UNSIZED.get(internal) if red == 8 else None)
    if format is None:
        names = ", ".join(f"GL_{name.upper()}" for name in FORMATS)
        raise BindingError(f"GL texture {id} has the internal format 0x{internal:04x}: tensors can be bound to {names}")
    return (width, height), format


def check_image(context: GlContext, id: int, size: tuple[int, int], label: str) -> None:
    """Raise BindingError where kernels cannot write texture ``id``: mutable on OpenGL ES, or incomplete."""
    texture(context, id)
    if _parameter(context, _IMMUTABLE):
        return
    if context.is_es:
        raise BindingError(
            f"{label} is mutable, and OpenGL ES writes only textures made with glTexStorage2D: make it so"
        )
    if _parameter(context, _MIN_FILTER) in (_NEAREST, _LINEAR):
        return
    last = min(_parameter(context, _MAX_LEVEL), max(size).bit_length() - 1)
    if _level(context, last, _WIDTH) == 0:
        raise BindingError(
            f"{label} has a mipmap filter and no mipmaps, so GL ignores writes to it: set GL_TEXTURE_MIN_FILTER to "
            "GL_LINEAR or GL_TEXTURE_MAX_LEVEL to 0"
        )


def buffer(context: GlContext, id: int) -> int:
    """Bytes of the buffer ``id``. Raises BindingError where there is no such buffer or it has no storage."""
    gl = context.gl
    if not gl.glIsBuffer(id):
        raise BindingError(
            f"GL buffer {id} does not exist in {context}: it was deleted, never bound, or is another context's"
        )
    gl.glBindBuffer(_COPY_READ_BUFFER, id)
    nbytes = bound_nbytes(context, _COPY_READ_BUFFER)
    gl.glBindBuffer(_COPY_READ_BUFFER, 0)
    if not nbytes:
        raise BindingError(f"GL buffer {id} has no storage yet: call glBufferData or glBufferStorage first")
    return nbytes


def bound_nbytes(context: GlContext, target: int) -> int:
    """Bytes of the buffer that is bound to ``target``."""
    nbytes = ctypes.c_int64()
    context.gl.glGetBufferParameteri64v(target, _BUFFER_SIZE, ctypes.byref(nbytes))
    return nbytes.value


def clear_buffer(context: GlContext, id: int, words: int) -> None:
    """Fill a buffer of ``words`` 4-byte words, bound to GL_COPY_WRITE_BUFFER, with zeros, on the GPU."""
    gl = context.gl
    if not context.is_es:
        gl.glClearBufferData(_COPY_WRITE_BUFFER, _R32UI, _RED_INTEGER, _UNSIGNED_INT, None)
        return
    # OpenGL ES has no such call; a shader does it without bytes crossing from the host.
    program = context.helper(
        "program: clear", lambda: build_program(context, "clear", {COMPUTE_SHADER: f"#version 310 es\n{_CLEAR}"})
    )
    groups = -(-words // 64)
    gl.glUseProgram(program)
    gl.glUniform1i(0, words)
    gl.glBindBufferBase(_SHADER_STORAGE_BUFFER, 0, id)
    gl.glDispatchCompute(min(groups, 65535), -(-groups // 65535), 1)
    gl.glBindBufferBase(_SHADER_STORAGE_BUFFER, 0, 0)
    gl.glUseProgram(0)
    gl.glMemoryBarrier(_ALL_BARRIERS)


def _parameter(context: GlContext, name: int) -> int:
    value = ctypes.c_int()
    context.gl.glGetTexParameteriv(TEXTURE_2D, name, ctypes.byref(value))
    return value.value


def _level(context: GlContext, level: int, name: int) -> int:
    value = ctypes.c_int()
    context.gl.glGetTexLevelParameteriv(TEXTURE_2D, level, name, ctypes.byref(value))
    return value.value
