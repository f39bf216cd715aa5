"""Queries of objects of other libraries, pixel formats, checks of GL errors, and clearing a buffer."""

from __future__ import annotations

import contextlib
import ctypes
import operator
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import BindingError, DeviceError
from .context import GlContext
from .khronos import GL, gl_name
from .program import build_program
from .state import copied_buffers, kept, program, storage_buffers
from .state import texture as bound_texture


@dataclass(frozen=True)
class PixelFormat:
    """A texture format's enumerants in GL, and the NumPy type and number of its channels."""

    internal: int
    external: int
    type: int
    dtype: type[np.generic]
    channels: int


FORMATS: dict[str, PixelFormat] = {
    "rgba8": PixelFormat(GL.RGBA8, GL.RGBA, GL.UNSIGNED_BYTE, np.uint8, 4),
    "rgba16f": PixelFormat(GL.RGBA16F, GL.RGBA, GL.HALF_FLOAT, np.float16, 4),
    "rgba32f": PixelFormat(GL.RGBA32F, GL.RGBA, GL.FLOAT, np.float32, 4),
    "r8": PixelFormat(GL.R8, GL.RED, GL.UNSIGNED_BYTE, np.uint8, 1),
    "r32f": PixelFormat(GL.R32F, GL.RED, GL.FLOAT, np.float32, 1),
}
"""The formats that framebind makes, copies and writes. The keys are of TEXTURE_CHANNELS (kernels/views.py)."""
INPUT_FORMATS: dict[str, int] = {
    "r16": GL.R16, "r16f": GL.R16F,
    "rg8": GL.RG8, "rg16": GL.RG16, "rg16f": GL.RG16F, "rg32f": GL.RG32F,
    "rgb8": GL.RGB8, "rgb16": GL.RGB16, "rgb16f": GL.RGB16F, "rgb32f": GL.RGB32F, "srgb8": GL.SRGB8,
    "rgb565": GL.RGB565, "r11f_g11f_b10f": GL.R11F_G11F_B10F, "rgb9_e5": GL.RGB9_E5,
    "rgba16": GL.RGBA16, "srgb8_alpha8": GL.SRGB8_ALPHA8, "rgb10_a2": GL.RGB10_A2, "rgb5_a1": GL.RGB5_A1,
    "rgba4": GL.RGBA4,
}  # fmt: skip
"""More formats that kernels read, if another library made the texture, with GL's enumerants. They are sampled, so that
the format need only be known.
"""
_BY_INTERNAL = {
    **{pixels.internal: name for name, pixels in FORMATS.items()},
    **{internal: name for name, internal in INPUT_FORMATS.items()},
}
_UNSIZED = {GL.RGBA: "rgba8", GL.RGB: "rgb8", GL.RED: "r8", GL.RG: "rg8"}
"""The formats of textures that were made with an unsized format, as by glTexImage2D(..., GL_RGBA, ...), if a channel
has 8 bits.
"""
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
    """Whether the driver has an extension."""
    return name in context.extensions


@contextlib.contextmanager
def checked(context: GlContext, what: str) -> Iterator[None]:
    """Raise DeviceError if the GL calls within the block leave an error. Earlier errors are dropped."""
    context.gl.clear_errors()
    yield
    errors = context.gl.clear_errors()
    raise_if_lost(context, errors)
    if GL.OUT_OF_MEMORY in errors:
        raise DeviceError(f"{what}: {context} is out of GPU memory")
    if errors:
        raise DeviceError(f"{what} failed on {context} with {', '.join(map(gl_name, errors))}")


def raise_if_lost(context: GlContext, errors: Collection[int]) -> None:
    """Raise DeviceError if GL's errors say that the context is lost."""
    if GL.CONTEXT_LOST in errors:
        raise _lost(context)


def raise_if_reset(context: GlContext) -> None:
    """Raise DeviceError if the GPU was reset. A read that a reset interrupts ends without an error, with garbage.

    It does not touch GL's error, which may be the user's. OpenGL before 4.5 and ES before 3.2 cannot tell.
    """
    if context.version >= ((3, 2) if context.is_es else (4, 5)) and context.gl.glGetGraphicsResetStatus():
        raise _lost(context)


def _lost(context: GlContext) -> DeviceError:
    return DeviceError(f"{context} is lost: the GPU was reset. Make a new context, and the objects in it anew")


def gl_name_of(id: Any) -> int:
    """The GL name as an int. Raises BindingError for anything else, such as another library's object that has one."""
    try:
        return operator.index(id)
    except TypeError:
        raise BindingError(
            f"from_id takes a GL name, an int, and got a {type(id).__name__}: pass its name, in most libraries its "
            "attribute glo or id, or bind an object of moderngl itself"
        ) from None


def texture(context: GlContext, id: int) -> tuple[tuple[int, int], str]:
    """(width, height) and format of the 2-D texture ``id``.

    Raises BindingError if there is no such texture, it is not 2-D, begins at another level than 0, has no storage, or
    none of FORMATS.
    """
    gl = context.gl
    if not gl.glIsTexture(id):
        raise no_texture(context, id)
    with kept(context, bound_texture):
        gl.clear_errors()
        gl.glBindTexture(GL.TEXTURE_2D, id)
        if gl.clear_errors():
            raise BindingError(f"GL texture {id} is not a GL_TEXTURE_2D: only those can be bound to tensors")
        base = _parameter(context, GL.TEXTURE_BASE_LEVEL)
        width, height = _level(context, 0, GL.TEXTURE_WIDTH), _level(context, 0, GL.TEXTURE_HEIGHT)
        internal, red_bits = _level(context, 0, GL.TEXTURE_INTERNAL_FORMAT), _level(context, 0, GL.TEXTURE_RED_SIZE)
    if base:  # samplers would read another level than the one whose size is known
        raise BindingError(
            f"GL texture {id} has the base level {base}, and tensors are bound to level 0: set GL_TEXTURE_BASE_LEVEL "
            "to 0, or bind a view of that level (glTextureView)"
        )
    if not width or not height:
        raise BindingError(f"GL texture {id} has no storage yet: call glTexStorage2D or glTexImage2D first")
    format = _BY_INTERNAL.get(internal) or (_UNSIZED.get(internal) if red_bits == 8 else None)
    if format is None:
        names = ", ".join(f"GL_{name.upper()}" for name in (*FORMATS, *INPUT_FORMATS))
        raise BindingError(
            f"GL texture {id} has the format {gl_name(internal)}, which tensors are not bound to: draw it into a "
            f"texture of one of {names}"
        )
    return (width, height), format


def no_texture(context: GlContext, id: int) -> BindingError:
    return BindingError(
        f"GL texture {id} does not exist in {context}: it was deleted, never bound, or is another context's"
    )


def is_still_texture(context: GlContext, id: int, size: tuple[int, int], format: str) -> bool:
    """Whether the texture ``id`` still exists and has this size and format. Leaves no GL error."""
    if not _names_suffice(context):
        try:
            return texture(context, id) == (size, format)
        except BindingError:
            return False
    gl, value = context.gl, ctypes.c_int(-1)
    found = []
    for name in (GL.TEXTURE_WIDTH, GL.TEXTURE_HEIGHT, GL.TEXTURE_INTERNAL_FORMAT):
        gl.glGetTextureLevelParameteriv(id, 0, name, ctypes.byref(value))
        found.append(value.value)
    alike = (found[0], found[1]) == size and format in (_BY_INTERNAL.get(found[2]), _UNSIZED.get(found[2]))
    if not alike:
        gl.clear_errors()
    return alike


def is_still_buffer(context: GlContext, id: int, nbytes: int) -> bool:
    """Whether the buffer ``id`` exists and has as many bytes as before. Leaves no GL error."""
    if not _names_suffice(context):
        try:
            return buffer(context, id) == nbytes
        except BindingError:
            return False
    found = ctypes.c_int64()
    context.gl.glGetNamedBufferParameteri64v(id, GL.BUFFER_SIZE, ctypes.byref(found))
    if found.value != nbytes:
        context.gl.clear_errors()
    return found.value == nbytes


def _names_suffice(context: GlContext) -> bool:
    """Whether GL answers queries by an object's name, without binding it (direct state access)."""
    return not context.is_es and context.version >= (4, 5)


def check_image(context: GlContext, id: int, size: tuple[int, int], label: str) -> None:
    """Raise BindingError if kernels cannot write texture ``id``, which exists: it is mutable on OpenGL ES, incomplete,
    or of an unsized format to which GL ignores writes.
    """
    with kept(context, bound_texture):
        context.gl.glBindTexture(GL.TEXTURE_2D, id)
        immutable = _parameter(context, GL.TEXTURE_IMMUTABLE_FORMAT)
        mipmapped = _parameter(context, GL.TEXTURE_MIN_FILTER) not in (GL.NEAREST, GL.LINEAR)
        last = min(_parameter(context, GL.TEXTURE_MAX_LEVEL), max(size).bit_length() - 1)
        complete = not mipmapped or _level(context, last, GL.TEXTURE_WIDTH) != 0
        internal = 0 if immutable else _level(context, 0, GL.TEXTURE_INTERNAL_FORMAT)
    if immutable:
        return
    if context.is_es:
        raise BindingError(
            f"{label} is mutable, and OpenGL ES writes only textures made with glTexStorage2D: make it so"
        )
    if not complete:
        raise BindingError(
            f"{label} has a mipmap filter and no mipmaps, so GL ignores writes to it: set GL_TEXTURE_MIN_FILTER to "
            "GL_LINEAR or GL_TEXTURE_MAX_LEVEL to 0"
        )
    if internal in _UNSIZED and not _takes_writes(context, internal):
        raise BindingError(
            f"{label} was made with the format {gl_name(internal)}, which has no size, so GL ignores writes to it: "
            f"make it with GL_{_UNSIZED[internal].upper()}"
        )


def _takes_writes(context: GlContext, internal: int) -> bool:
    """Whether the driver lets kernels write textures that were made with an internal format."""
    value = ctypes.c_int(GL.NONE)
    context.gl.glGetInternalformativ(GL.TEXTURE_2D, internal, GL.SHADER_IMAGE_STORE, 1, ctypes.byref(value))
    return value.value != GL.NONE


def buffer(context: GlContext, id: int) -> int:
    """Bytes of the buffer ``id``. Raises BindingError if there is no such buffer, or it has no storage."""
    gl = context.gl
    if not gl.glIsBuffer(id):
        raise BindingError(
            f"GL buffer {id} does not exist in {context}: it was deleted, never bound, or is another context's"
        )
    with kept(context, copied_buffers):
        gl.glBindBuffer(GL.COPY_READ_BUFFER, id)
        nbytes = bound_nbytes(context, GL.COPY_READ_BUFFER)
        gl.glBindBuffer(GL.COPY_READ_BUFFER, 0)
    if not nbytes:
        raise BindingError(f"GL buffer {id} has no storage yet: call glBufferData or glBufferStorage first")
    return nbytes


def bound_nbytes(context: GlContext, target: int) -> int:
    """Bytes of the buffer that is bound to ``target``."""
    nbytes = ctypes.c_int64()
    context.gl.glGetBufferParameteri64v(target, GL.BUFFER_SIZE, ctypes.byref(nbytes))
    return nbytes.value


def clear_buffer(context: GlContext, id: int, words: int) -> None:
    """Fill the buffer ``id`` with zeros on the GPU: ``words`` words of 4 bytes. It is bound to GL_COPY_WRITE_BUFFER."""
    gl = context.gl
    if not context.is_es:
        gl.glClearBufferData(GL.COPY_WRITE_BUFFER, GL.R32UI, GL.RED_INTEGER, GL.UNSIGNED_INT, None)
        return
    # OpenGL ES has no such call; a shader does it without bytes crossing from the host.
    texts = {GL.COMPUTE_SHADER: f"#version 310 es\n{_CLEAR}"}
    clear = context.objects.once("program", "clear", lambda: build_program(context, "clear", texts))
    groups = -(-words // 64)
    with kept(context, program, storage_buffers(1)):
        gl.glUseProgram(clear)
        gl.glUniform1i(0, words)
        gl.glBindBufferBase(GL.SHADER_STORAGE_BUFFER, 0, id)
        gl.glDispatchCompute(min(groups, 65535), -(-groups // 65535), 1)
        gl.glBindBufferBase(GL.SHADER_STORAGE_BUFFER, 0, 0)
        gl.glUseProgram(0)
    gl.glMemoryBarrier(GL.ALL_BARRIER_BITS)


def _parameter(context: GlContext, name: int) -> int:
    value = ctypes.c_int()
    context.gl.glGetTexParameteriv(GL.TEXTURE_2D, name, ctypes.byref(value))
    return value.value


def _level(context: GlContext, level: int, name: int) -> int:
    value = ctypes.c_int()
    context.gl.glGetTexLevelParameteriv(GL.TEXTURE_2D, level, name, ctypes.byref(value))
    return value.value
