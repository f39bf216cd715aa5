"""Saves and restores the GL state that the library changes in a context that somebody else made.

In our own contexts (headless, Window) nothing is saved: their users set the state that they need before each use.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator

from .api import GlApi
from .context import GlContext
from .khronos import GL

Part = Callable[[GlApi], Callable[[], None]]
"""A part of the state: calling it saves the part, and returns the function that restores it."""

_STORAGE_BINDINGS = (GL.SHADER_STORAGE_BUFFER_BINDING, GL.SHADER_STORAGE_BUFFER_START, GL.SHADER_STORAGE_BUFFER_SIZE)
_UNIFORM_BINDINGS = (GL.UNIFORM_BUFFER_BINDING, GL.UNIFORM_BUFFER_START, GL.UNIFORM_BUFFER_SIZE)
_IMAGE = (
    GL.IMAGE_BINDING_NAME, GL.IMAGE_BINDING_LEVEL, GL.IMAGE_BINDING_LAYERED, GL.IMAGE_BINDING_LAYER,
    GL.IMAGE_BINDING_ACCESS, GL.IMAGE_BINDING_FORMAT,
)  # fmt: skip
_BUFFER_BINDINGS = {
    GL.COPY_READ_BUFFER: GL.COPY_READ_BUFFER_BINDING,
    GL.COPY_WRITE_BUFFER: GL.COPY_WRITE_BUFFER_BINDING,
    GL.PIXEL_PACK_BUFFER: GL.PIXEL_PACK_BUFFER_BINDING,
    GL.PIXEL_UNPACK_BUFFER: GL.PIXEL_UNPACK_BUFFER_BINDING,
}
_PIXEL_STORAGE = (
    GL.PACK_ROW_LENGTH, GL.PACK_SKIP_ROWS, GL.PACK_SKIP_PIXELS, GL.PACK_ALIGNMENT,
    GL.UNPACK_ROW_LENGTH, GL.UNPACK_SKIP_ROWS, GL.UNPACK_SKIP_PIXELS, GL.UNPACK_ALIGNMENT,
)  # fmt: skip


@contextlib.contextmanager
def kept(context: GlContext, *parts: Part) -> Iterator[None]:
    """Restore these parts of the state after the block, if somebody else made the context."""
    restores = [part(context.gl) for part in parts] if context.is_foreign else []
    try:
        yield
    finally:
        for restore in reversed(restores):
            restore()


def program(gl: GlApi) -> Callable[[], None]:
    """The program in use."""
    used = gl.integer(GL.CURRENT_PROGRAM)
    return lambda: gl.glUseProgram(used)


def buffers(gl: GlApi) -> Callable[[], None]:
    """The buffers bound for copies between buffers and for pixel transfers."""
    bound = {target: gl.integer(binding) for target, binding in _BUFFER_BINDINGS.items()}

    def restore() -> None:
        for target, name in bound.items():
            gl.glBindBuffer(target, name)

    return restore


def pixel_storage(gl: GlApi) -> Callable[[], None]:
    """The layout of pixels in memory when they are uploaded or read."""
    values = {name: gl.integer(name) for name in _PIXEL_STORAGE}

    def restore() -> None:
        for name, value in values.items():
            gl.glPixelStorei(name, value)

    return restore


def texture(gl: GlApi) -> Callable[[], None]:
    """The 2-D texture on the active unit."""
    bound = gl.integer(GL.TEXTURE_BINDING_2D)
    return lambda: gl.glBindTexture(GL.TEXTURE_2D, bound)


def texture_units(count: int) -> Part:
    """The 2-D textures and samplers of the first units, and which unit is active."""

    def save(gl: GlApi) -> Callable[[], None]:
        active, bound = gl.integer(GL.ACTIVE_TEXTURE), list[tuple[int, int]]()
        for unit in range(count):
            gl.glActiveTexture(GL.TEXTURE0 + unit)
            bound.append((gl.integer(GL.TEXTURE_BINDING_2D), gl.integer(GL.SAMPLER_BINDING)))

        def restore() -> None:
            for unit, (name, sampler) in enumerate(bound):
                gl.glActiveTexture(GL.TEXTURE0 + unit)
                gl.glBindTexture(GL.TEXTURE_2D, name)
                gl.glBindSampler(unit, sampler)
            gl.glActiveTexture(active)

        gl.glActiveTexture(active)
        return restore

    return save


def storage_buffers(count: int) -> Part:
    """The first shader storage buffer bindings, and the one that belongs to no index."""
    return lambda gl: _save_indexed(gl, GL.SHADER_STORAGE_BUFFER, _STORAGE_BINDINGS, count)


def uniform_buffers(count: int) -> Part:
    """The first uniform buffer bindings, and the one that belongs to no index."""
    return lambda gl: _save_indexed(gl, GL.UNIFORM_BUFFER, _UNIFORM_BINDINGS, count)


def _save_indexed(gl: GlApi, target: int, names: tuple[int, int, int], count: int) -> Callable[[], None]:
    generic = gl.integer(names[0])
    bound = [tuple(_indexed(gl, name, index) for name in names) for index in range(count)]

    def restore() -> None:
        for index, (name, first, nbytes) in enumerate(bound):
            if nbytes:
                gl.glBindBufferRange(target, index, name, first, nbytes)
            else:
                gl.glBindBufferBase(target, index, name)
        gl.glBindBuffer(target, generic)

    return restore


def image_units(count: int) -> Part:
    """The textures that the first image units write."""

    def save(gl: GlApi) -> Callable[[], None]:
        bound = [tuple(_indexed(gl, name, unit) for name in _IMAGE) for unit in range(count)]

        def restore() -> None:
            for unit, values in enumerate(bound):
                gl.glBindImageTexture(unit, *values)

        return restore

    return save


def _indexed(gl: GlApi, name: int, index: int) -> int:
    value = ctypes.c_int64()
    gl.glGetInteger64i_v(name, index, ctypes.byref(value))
    return value.value
