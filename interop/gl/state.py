"""Saves and restores the GL state that the library changes in a context that somebody else made.

Each call that changes GL state stands inside a ``with kept(...)`` or ``restored(...)`` block that names its part
(tests/house/test_gl_state_calls.py reads the sources), or is recorded with its parts (compute/recording.py).
In our own contexts (headless, Window) ``kept`` saves nothing: their users set the state that they need before each use.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .api import GlApi
from .context import GlContext
from .khronos import GL
from .settings import Setting, Work, settings_of

Part = Callable[[GlContext], Callable[[], None]]
"""A part of the state: calling it saves the part, and returns the function that restores it."""

_STORAGE_BINDINGS = (GL.SHADER_STORAGE_BUFFER_BINDING, GL.SHADER_STORAGE_BUFFER_START, GL.SHADER_STORAGE_BUFFER_SIZE)
_UNIFORM_BINDINGS = (GL.UNIFORM_BUFFER_BINDING, GL.UNIFORM_BUFFER_START, GL.UNIFORM_BUFFER_SIZE)
_IMAGE = (
    GL.IMAGE_BINDING_NAME, GL.IMAGE_BINDING_LEVEL, GL.IMAGE_BINDING_LAYERED, GL.IMAGE_BINDING_LAYER,
    GL.IMAGE_BINDING_ACCESS, GL.IMAGE_BINDING_FORMAT,
)  # fmt: skip
_COPY_BINDINGS = {
    GL.COPY_READ_BUFFER: GL.COPY_READ_BUFFER_BINDING,
    GL.COPY_WRITE_BUFFER: GL.COPY_WRITE_BUFFER_BINDING,
}
_PACK_BINDINGS = {GL.PIXEL_PACK_BUFFER: GL.PIXEL_PACK_BUFFER_BINDING}
_UNPACK_BINDINGS = {GL.PIXEL_UNPACK_BUFFER: GL.PIXEL_UNPACK_BUFFER_BINDING}
_PACK = (GL.PACK_ROW_LENGTH, GL.PACK_SKIP_ROWS, GL.PACK_SKIP_PIXELS, GL.PACK_ALIGNMENT)
_UNPACK = (GL.UNPACK_ROW_LENGTH, GL.UNPACK_SKIP_ROWS, GL.UNPACK_SKIP_PIXELS, GL.UNPACK_ALIGNMENT)
_DISABLED_TO_DRAW = (
    GL.DEPTH_TEST, GL.SCISSOR_TEST, GL.CULL_FACE, GL.STENCIL_TEST, GL.RASTERIZER_DISCARD, GL.SAMPLE_ALPHA_TO_COVERAGE,
    GL.SAMPLE_COVERAGE, GL.SAMPLE_MASK,
)  # fmt: skip
"""The tests and capabilities that could drop a pixel of ours, on every GL. Blending is switched as needed."""
_BLENDING = (
    GL.BLEND_SRC_RGB, GL.BLEND_DST_RGB, GL.BLEND_SRC_ALPHA, GL.BLEND_DST_ALPHA, GL.BLEND_EQUATION_RGB,
    GL.BLEND_EQUATION_ALPHA,
)  # fmt: skip
_BY_ALPHA = (GL.SRC_ALPHA, GL.ONE_MINUS_SRC_ALPHA, GL.ONE, GL.ONE_MINUS_SRC_ALPHA)
_NOTHING = contextlib.nullcontext()


def kept(context: GlContext, *parts: Part) -> contextlib.AbstractContextManager[None]:
    """Restore these parts of the state after the block, if somebody else made the context."""
    return restored(context, *parts) if context.is_foreign else _NOTHING


@contextlib.contextmanager
def restored(context: GlContext, *parts: Part) -> Iterator[None]:
    """Restore these parts of the state after the block. Parts that an outer block restores are left to that one."""
    added = [part for part in parts if part not in context.parts_kept]
    restores: list[Callable[[], None]] = []

    def restore() -> None:
        while restores:
            restores[-1]()
            restores.pop()
        context.parts_kept[:] = [part for part in context.parts_kept if part not in added]

    try:
        try:
            context.parts_kept += added
            odd = _odd_settings(context, added)
            restores.append(lambda: _set_back(context.gl, odd))  # the last, as transform feedback wants its program
            for setting, _ in odd:
                setting.set(context.gl, setting.needed)
            for part in added:
                restores.append(part(context))
            yield
        finally:
            restore()
    finally:
        restore()  # what is left, if an exception, as of a signal handler, came in the midst of it


def _odd_settings(context: GlContext, parts: Sequence[Part]) -> list[tuple[Setting, Any]]:
    """The settings of a host that work with these parts needs otherwise, and their values."""
    gl = context.gl
    values = [
        (setting, setting.get(gl)) for part in parts if part in _WORK for setting in settings_of(context, _WORK[part])
    ]
    return [(setting, value) for setting, value in values if value != setting.needed]


def _set_back(gl: GlApi, odd: list[tuple[Setting, Any]]) -> None:
    """Give settings the host's values, also if some have them already."""
    while odd:
        setting, value = odd[-1]
        if setting.get(gl) != value:
            setting.set(gl, value)
        odd.pop()


# Programs and buffers -------------------------------------------------------------------------------------------------


def program(context: GlContext) -> Callable[[], None]:
    """The program in use."""
    gl = context.gl
    used = gl.integer(GL.CURRENT_PROGRAM)
    return lambda: gl.glUseProgram(used)


def copied_buffers(context: GlContext) -> Callable[[], None]:
    """The buffers bound for copies between buffers."""
    return _save_buffers(context.gl, _COPY_BINDINGS)


def pinned_buffer(context: GlContext) -> Callable[[], None]:
    """The buffer bound to be pinned to the host's memory. Its extension has no query: what was bound is let go."""
    return lambda: context.gl.glBindBuffer(GL.EXTERNAL_VIRTUAL_MEMORY_BUFFER_AMD, 0)


def pixel_uploads(context: GlContext) -> Callable[[], None]:
    """The buffer that pixels are uploaded from, and their layout in memory."""
    return _save_transfer(context, _UNPACK_BINDINGS, _UNPACK, GL.UNPACK_SWAP_BYTES)


def pixel_reads(context: GlContext) -> Callable[[], None]:
    """The buffer that pixels are read to, and their layout in memory."""
    return _save_transfer(context, _PACK_BINDINGS, _PACK, GL.PACK_SWAP_BYTES)


def _save_buffers(gl: GlApi, bindings: dict[int, int]) -> Callable[[], None]:
    bound = {target: gl.integer(binding) for target, binding in bindings.items()}

    def restore() -> None:
        for target, name in bound.items():
            gl.glBindBuffer(target, name)

    return restore


def _save_transfer(
    context: GlContext, bindings: dict[int, int], layout: tuple[int, ...], swap: int
) -> Callable[[], None]:
    gl, restore_buffer = context.gl, _save_buffers(context.gl, bindings)
    values = {name: gl.integer(name) for name in (layout if context.is_es else (*layout, swap))}

    def restore() -> None:
        restore_buffer()
        for name, value in values.items():
            gl.glPixelStorei(name, value)

    return restore


def storage_buffers(count: int) -> Part:
    """The first ``count`` shader storage buffer bindings, and the generic binding point."""
    return lambda context: _save_indexed(context.gl, GL.SHADER_STORAGE_BUFFER, _STORAGE_BINDINGS, count)


def uniform_buffers(count: int) -> Part:
    """The first ``count`` uniform buffer bindings, and the generic binding point."""
    return lambda context: _save_indexed(context.gl, GL.UNIFORM_BUFFER, _UNIFORM_BINDINGS, count)


def storage_buffer_at(index: int) -> Part:
    """The shader storage buffer binding at ``index``, and the generic binding point."""
    return lambda context: _save_indexed(context.gl, GL.SHADER_STORAGE_BUFFER, _STORAGE_BINDINGS, 1, first=index)


def _save_indexed(
    gl: GlApi, target: int, names: tuple[int, int, int], count: int, *, first: int = 0
) -> Callable[[], None]:
    generic = gl.integer(names[0])
    bound = [tuple(_indexed(gl, name, index) for name in names) for index in range(first, first + count)]

    def restore() -> None:
        for index, (name, start, nbytes) in enumerate(bound, first):
            if nbytes:
                gl.glBindBufferRange(target, index, name, start, nbytes)
            else:
                gl.glBindBufferBase(target, index, name)
        gl.glBindBuffer(target, generic)

    return restore


# Textures and images --------------------------------------------------------------------------------------------------


def texture(context: GlContext) -> Callable[[], None]:
    """The 2-D texture on the active unit."""
    gl = context.gl
    bound = gl.integer(GL.TEXTURE_BINDING_2D)
    return lambda: gl.glBindTexture(GL.TEXTURE_2D, bound)


def texture_units(count: int) -> Part:
    """The 2-D textures and samplers of the first units, and which unit is active."""

    def save(context: GlContext) -> Callable[[], None]:
        gl = context.gl
        active, bound = gl.integer(GL.ACTIVE_TEXTURE), list[tuple[int, int]]()
        try:
            for unit in range(count):
                gl.glActiveTexture(GL.TEXTURE0 + unit)
                bound.append((gl.integer(GL.TEXTURE_BINDING_2D), gl.integer(GL.SAMPLER_BINDING)))
        finally:
            gl.glActiveTexture(active)

        def restore() -> None:
            for unit, (name, sampler) in enumerate(bound):
                gl.glActiveTexture(GL.TEXTURE0 + unit)
                gl.glBindTexture(GL.TEXTURE_2D, name)
                gl.glBindSampler(unit, sampler)
            gl.glActiveTexture(active)

        return restore

    return save


def image_units(count: int) -> Part:
    """The textures that the first image units write."""

    def save(context: GlContext) -> Callable[[], None]:
        gl = context.gl
        bound = [tuple(_indexed(gl, name, unit) for name in _IMAGE) for unit in range(count)]

        def restore() -> None:
            for unit, values in enumerate(bound):
                gl.glBindImageTexture(unit, *values)

        return restore

    return save


# Drawing --------------------------------------------------------------------------------------------------------------


def framebuffers(context: GlContext) -> Callable[[], None]:
    """The framebuffers that are drawn to and read from."""
    gl = context.gl
    drawn, read = gl.integer(GL.DRAW_FRAMEBUFFER_BINDING), gl.integer(GL.READ_FRAMEBUFFER_BINDING)

    def restore() -> None:
        gl.glBindFramebuffer(GL.DRAW_FRAMEBUFFER, drawn)
        gl.glBindFramebuffer(GL.READ_FRAMEBUFFER, read)

    return restore


def read_framebuffer(context: GlContext) -> Callable[[], None]:
    """The framebuffer that is read from."""
    gl = context.gl
    read = gl.integer(GL.READ_FRAMEBUFFER_BINDING)
    return lambda: gl.glBindFramebuffer(GL.READ_FRAMEBUFFER, read)


def vertex_array(context: GlContext) -> Callable[[], None]:
    """The vertex array in use."""
    gl = context.gl
    bound = gl.integer(GL.VERTEX_ARRAY_BINDING)
    return lambda: gl.glBindVertexArray(bound)


def clear_color(context: GlContext) -> Callable[[], None]:
    """The colour that clears a framebuffer."""
    gl, color = context.gl, (ctypes.c_float * 4)()
    gl.glGetFloatv(GL.COLOR_CLEAR_VALUE, color)
    return lambda: gl.glClearColor(*color)


def copied_pixels(context: GlContext) -> Callable[[], None]:
    """The capabilities that decide which pixels a copy between framebuffers writes."""
    return _save_capabilities(context, (GL.RASTERIZER_DISCARD, GL.SCISSOR_TEST))


def prepare_to_copy(context: GlContext) -> None:
    """Let a copy between framebuffers write all pixels. Call it inside a block that keeps ``copied_pixels``."""
    context.gl.glDisable(GL.RASTERIZER_DISCARD)  # NVIDIA 580 copies nothing otherwise
    _switch(context, GL.SCISSOR_TEST, on=False)


def pixel_operations(context: GlContext) -> Callable[[], None]:
    """Viewport, capabilities, colour mask, blending and polygon mode: all state that decides which pixels a triangle
    writes.

    If GL has a value for each viewport or draw buffer, only the first is saved: ``prepare_to_draw`` sets no other.
    """
    capabilities = (GL.BLEND, *_DISABLED_TO_DRAW, *(() if context.is_es else (GL.COLOR_LOGIC_OP,)))
    saved = [_save_capabilities(context, capabilities), _save_viewport(context), _save_colors(context)]
    if not context.is_es:
        saved.append(_save_polygon_mode(context))

    def restore() -> None:
        for each in saved:
            each()

    return restore


def _save_capabilities(context: GlContext, names: tuple[int, ...]) -> Callable[[], None]:
    enabled = {name: _is_on(context, name) for name in names}

    def restore() -> None:
        for name, on in enabled.items():
            _switch(context, name, on=on)

    return restore


def _save_viewport(context: GlContext) -> Callable[[], None]:
    gl, viewport, suffix = context.gl, (ctypes.c_float * 4)(), _viewports(context)
    if suffix is None:
        gl.glGetFloatv(GL.VIEWPORT, viewport)
        return lambda: gl.glViewport(*map(int, viewport))
    getattr(gl, _joined("glGetFloati_v", suffix))(GL.VIEWPORT, 0, viewport)
    return lambda: getattr(gl, _joined("glViewportIndexedf", suffix))(0, *viewport)


def _save_colors(context: GlContext) -> Callable[[], None]:
    """The colour mask and the blending of the first draw buffer, or of all if they have no others."""
    gl, mask, suffix = context.gl, (ctypes.c_ubyte * 4)(), _draw_buffers(context)
    factors = [gl.integer(name) for name in _BLENDING]
    if suffix is None:
        gl.glGetBooleanv(GL.COLOR_WRITEMASK, mask)
    else:
        gl.glGetBooleani_v(GL.COLOR_WRITEMASK, 0, mask)

    def restore() -> None:
        _set_of_draw_buffer(context, "glColorMask", *mask)
        _set_of_draw_buffer(context, "glBlendFuncSeparate", *factors[:4])
        _set_of_draw_buffer(context, "glBlendEquationSeparate", *factors[4:])

    return restore


def _save_polygon_mode(context: GlContext) -> Callable[[], None]:
    gl, mode = context.gl, (ctypes.c_int * 2)()
    gl.glGetIntegerv(GL.POLYGON_MODE, mode)
    if mode[1] in (0, mode[0]):
        return lambda: gl.glPolygonMode(GL.FRONT_AND_BACK, mode[0])

    def restore() -> None:  # a compatibility context has one mode for each face
        gl.glPolygonMode(GL.FRONT, mode[0])
        gl.glPolygonMode(GL.BACK, mode[1])

    return restore


def prepare_to_draw(context: GlContext, x: int, y: int, width: int, height: int, *, blended: bool) -> None:
    """Let all pixels of triangles in this viewport be written, blended with what is there by their alpha if
    ``blended``. Call it inside a block that keeps ``pixel_operations``.

    Only the first viewport and draw buffer is set, if they are many: a host may have set the others to other values.
    """
    gl, suffix = context.gl, _viewports(context)
    for capability in _DISABLED_TO_DRAW:
        _switch(context, capability, on=False)
    if not context.is_es:
        gl.glDisable(GL.COLOR_LOGIC_OP)
        gl.glPolygonMode(GL.FRONT_AND_BACK, GL.FILL)
    if suffix is None:
        gl.glViewport(x, y, width, height)
    else:
        getattr(gl, _joined("glViewportIndexedf", suffix))(0, x, y, width, height)
    _set_of_draw_buffer(context, "glColorMask", 1, 1, 1, 1)
    _switch(context, GL.BLEND, on=blended)
    if blended:
        _set_of_draw_buffer(context, "glBlendEquation", GL.FUNC_ADD)
        _set_of_draw_buffer(context, "glBlendFuncSeparate", *_BY_ALPHA)


# One of many viewports and draw buffers -------------------------------------------------------------------------------


def _viewports(context: GlContext) -> str | None:
    """The suffix of the calls for one of several viewports; None if there is only one."""
    return _suffix(context, "GL_OES_viewport_array")


def _draw_buffers(context: GlContext) -> str | None:
    """The suffix of the calls for one of several draw buffers; None if all share their colour mask and blending."""
    return "" if context.version >= (3, 2) else _suffix(context, "GL_OES_draw_buffers_indexed")


@functools.cache
def _joined(*words: str) -> str:
    """The name of a call. The same string each time: Python's cache of attributes keeps each that it is asked for."""
    return "".join(words)


def _suffix(context: GlContext, extension: str) -> str | None:
    if not context.is_es:
        return ""
    return "OES" if extension in context.extensions else None


def _set_of_draw_buffer(context: GlContext, name: str, *values: int) -> None:
    """Call a function for the first draw buffer, or for all if it has no form for one."""
    suffix = _draw_buffers(context)
    if suffix is None:
        getattr(context.gl, name)(*values)
    else:
        getattr(context.gl, _joined(name, "i", suffix))(0, *values)


def _capability_suffix(context: GlContext, name: int) -> str | None:
    """The suffix of the calls that switch a capability of the first viewport or draw buffer; None if it has no such."""
    if name == GL.SCISSOR_TEST:
        return _viewports(context)
    return _draw_buffers(context) if name == GL.BLEND else None


def _is_on(context: GlContext, name: int) -> bool:
    suffix = _capability_suffix(context, name)
    if suffix is None:
        return bool(context.gl.glIsEnabled(name))
    return bool(getattr(context.gl, _joined("glIsEnabledi", suffix))(name, 0))


def _switch(context: GlContext, name: int, *, on: bool) -> None:
    call, suffix = "glEnable" if on else "glDisable", _capability_suffix(context, name)
    if suffix is None:
        getattr(context.gl, call)(name)
    else:
        getattr(context.gl, _joined(call, "i", suffix))(name, 0)


# The compiler ---------------------------------------------------------------------------------------------------------


def compiler_threads(context: GlContext) -> Callable[[], None]:
    """The number of CPU threads on which the driver may compile."""
    gl = context.gl
    before = gl.integer(GL.MAX_SHADER_COMPILER_THREADS_KHR)
    return lambda: gl.glMaxShaderCompilerThreadsKHR(before)


def _indexed(gl: GlApi, name: int, index: int) -> int:
    value = ctypes.c_int64()
    gl.glGetInteger64i_v(name, index, ctypes.byref(value))
    return value.value


_WORK: dict[Part, Work] = {
    program: "program", pixel_operations: "draw", copied_pixels: "copy", pixel_reads: "read", pixel_uploads: "upload",
}  # fmt: skip
"""The work whose settings of the host (settings.py) go with a part of the state."""
