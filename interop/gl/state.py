"""A host's GL state, put back: what the library changes while a model runs in a context that somebody else made.

In contexts of the library's own (headless, Window) nothing is saved: whoever uses those sets what he needs.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator

from .api import GlApi
from .context import GlContext

Part = Callable[[GlApi], Callable[[], None]]
"""A part of the state: called, it saves the part and returns what puts it back."""

_CURRENT_PROGRAM, _ACTIVE_TEXTURE, _TEXTURE0 = 0x8B8D, 0x84E0, 0x84C0
_TEXTURE_2D, _TEXTURE_BINDING_2D, _SAMPLER_BINDING = 0x0DE1, 0x8069, 0x8919
_STORAGE_BUFFER, _STORAGE_BINDINGS = 0x90D2, (0x90D3, 0x90D4, 0x90D5)
UNIFORM_BUFFER, _UNIFORM_BINDINGS = 0x8A11, (0x8A28, 0x8A29, 0x8A2A)
"""Target; and the name, start and size of what is bound there."""
_IMAGE = (0x8F3A, 0x8F3B, 0x8F3C, 0x8F3D, 0x8F3E, 0x906E)  # name, level, layered, layer, access, format
_BUFFERS = {0x8F36: 0x8F36, 0x8F37: 0x8F37, 0x88EB: 0x88ED, 0x88EC: 0x88EF}
"""Target and the name of its binding: copy read, copy write, pixel pack, pixel unpack."""
_STORAGE = (0x0D02, 0x0D03, 0x0D04, 0x0D05, 0x0CF2, 0x0CF3, 0x0CF4, 0x0CF5)
"""Row length, skipped rows, skipped pixels and alignment of reading and of uploading."""


@contextlib.contextmanager
def kept(context: GlContext, *parts: Part) -> Iterator[None]:
    """Within the block these parts of the context's state may be changed; after it they are as before, if it is
    foreign.
    """
    restores = [part(context.gl) for part in parts] if context.is_foreign else []
    try:
        yield
    finally:
        for restore in reversed(restores):
            restore()


def program(gl: GlApi) -> Callable[[], None]:
    """The program in use."""
    used = gl.integer(_CURRENT_PROGRAM)
    return lambda: gl.glUseProgram(used)


def buffers(gl: GlApi) -> Callable[[], None]:
    """What is bound for copies between buffers and for pixel transfers."""
    bound = {target: gl.integer(binding) for target, binding in _BUFFERS.items()}

    def restore() -> None:
        for target, name in bound.items():
            gl.glBindBuffer(target, name)

    return restore


def pixel_storage(gl: GlApi) -> Callable[[], None]:
    """How pixels lie in memory when they are uploaded or read."""
    values = {name: gl.integer(name) for name in _STORAGE}

    def restore() -> None:
        for name, value in values.items():
            gl.glPixelStorei(name, value)

    return restore


def texture(gl: GlApi) -> Callable[[], None]:
    """The 2-D texture on the active unit."""
    bound = gl.integer(_TEXTURE_BINDING_2D)
    return lambda: gl.glBindTexture(_TEXTURE_2D, bound)


def texture_units(count: int) -> Part:
    """The 2-D textures and samplers of the first units, and which unit is active."""

    def save(gl: GlApi) -> Callable[[], None]:
        active, bound = gl.integer(_ACTIVE_TEXTURE), list[tuple[int, int]]()
        for unit in range(count):
            gl.glActiveTexture(_TEXTURE0 + unit)
            bound.append((gl.integer(_TEXTURE_BINDING_2D), gl.integer(_SAMPLER_BINDING)))

        def restore() -> None:
            for unit, (name, sampler) in enumerate(bound):
                gl.glActiveTexture(_TEXTURE0 + unit)
                gl.glBindTexture(_TEXTURE_2D, name)
                gl.glBindSampler(unit, sampler)
            gl.glActiveTexture(active)

        gl.glActiveTexture(active)
        return restore

    return save


def storage_buffers(count: int) -> Part:
    """The first shader storage buffer bindings, and the one that belongs to no index."""
    return lambda gl: _save_indexed(gl, _STORAGE_BUFFER, _STORAGE_BINDINGS, count)


def uniform_buffers(count: int) -> Part:
    """The first uniform buffer bindings, and the one that belongs to no index."""
    return lambda gl: _save_indexed(gl, UNIFORM_BUFFER, _UNIFORM_BINDINGS, count)


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
