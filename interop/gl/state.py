"""Saves and restores the GL state that the library changes in a context that somebody else made.

Each call that changes GL state stands inside a ``with kept(...)`` or ``restored(...)`` block that names its part
(tests/house/test_gl_state_calls.py reads the sources), or is recorded with its parts (compute/recording.py).
In our own contexts (headless, Window) ``kept`` saves nothing: their users set the state that they need before each use.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator

from .api import GlApi
from .context import GlContext
from .khronos import GL

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
            for part in added:
                restores.append(part(context))
            yield
        finally:
            restore()
    finally:
        restore()  # what is left, if an exception, as of a signal handler, came in the midst of it


# Programs and buffers -------------------------------------------------------------------------------------------------


def program(context: GlContext) -> Callable[[], None]:
    """The program in use."""
    gl = context.gl
    used = gl.integer(GL.CURRENT_PROGRAM)
    return lambda: gl.glUseProgram(used)


def copied_buffers(context: GlContext) -> Callable[[], None]:
    """The buffers bound for copies between buffers."""
    return _save_buffers(context.gl, _COPY_BINDINGS)


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


def pixel_operations(context: GlContext) -> Callable[[], None]:
    """Viewport, capabilities, colour mask, blending and polygon mode: all state that decides which pixels a triangle
    writes.

    If GL has a value for each viewport or draw buffer, only the first is saved: ``prepare_to_draw`` sets no other.
    """
    gl, indexed = context.gl, not context.is_es
    viewport, mask, mode = (ctypes.c_float * 4)(), (ctypes.c_ubyte * 4)(), (ctypes.c_int * 2)()
    factors = [gl.integer(name) for name in _BLENDING]
    single = (GL.SCISSOR_TEST, GL.BLEND) if indexed else ()
    capabilities = (GL.BLEND, *_DISABLED_TO_DRAW, *((GL.COLOR_LOGIC_OP,) if indexed else ()))
    enabled = {
        name: bool(gl.glIsEnabledi(name, 0) if name in single else gl.glIsEnabled(name)) for name in capabilities
    }
    if indexed:
        gl.glGetFloati_v(GL.VIEWPORT, 0, viewport)
        gl.glGetBooleani_v(GL.COLOR_WRITEMASK, 0, mask)
        gl.glGetIntegerv(GL.POLYGON_MODE, mode)
    else:
        gl.glGetFloatv(GL.VIEWPORT, viewport)
        gl.glGetBooleanv(GL.COLOR_WRITEMASK, mask)

    def restore() -> None:
        for name, on in enabled.items():
            if name in single:
                (gl.glEnablei if on else gl.glDisablei)(name, 0)
            else:
                (gl.glEnable if on else gl.glDisable)(name)
        if indexed:
            gl.glViewportIndexedf(0, *viewport)
            gl.glColorMaski(0, *mask)
            if mode[1] in (0, mode[0]):
                gl.glPolygonMode(GL.FRONT_AND_BACK, mode[0])
            else:  # a compatibility context has one mode for each face
                gl.glPolygonMode(GL.FRONT, mode[0])
                gl.glPolygonMode(GL.BACK, mode[1])
            gl.glBlendFuncSeparatei(0, *factors[:4])
            gl.glBlendEquationSeparatei(0, *factors[4:])
        else:
            gl.glViewport(*map(int, viewport))
            gl.glColorMask(*mask)
            gl.glBlendFuncSeparate(*factors[:4])
            gl.glBlendEquationSeparate(*factors[4:])

    return restore


def prepare_to_draw(context: GlContext, x: int, y: int, width: int, height: int, *, blended: bool) -> None:
    """Let all pixels of triangles in this viewport be written, blended with what is there by their alpha if
    ``blended``. Call it inside a block that keeps ``pixel_operations``.
    """
    gl = context.gl
    for capability in _DISABLED_TO_DRAW:
        if capability != GL.SCISSOR_TEST or context.is_es:
            gl.glDisable(capability)
    (_prepare_first if context.is_es else _prepare_indexed)(gl, x, y, width, height, blended=blended)


def _prepare_first(gl: GlApi, x: int, y: int, width: int, height: int, *, blended: bool) -> None:
    gl.glViewport(x, y, width, height)
    gl.glColorMask(1, 1, 1, 1)
    (gl.glEnable if blended else gl.glDisable)(GL.BLEND)
    if blended:
        gl.glBlendEquation(GL.FUNC_ADD)
        gl.glBlendFuncSeparate(*_BY_ALPHA)


def _prepare_indexed(gl: GlApi, x: int, y: int, width: int, height: int, *, blended: bool) -> None:
    """Set the first viewport and draw buffer only: the host program may have set the others to other values."""
    gl.glDisablei(GL.SCISSOR_TEST, 0)
    gl.glDisable(GL.COLOR_LOGIC_OP)
    gl.glPolygonMode(GL.FRONT_AND_BACK, GL.FILL)
    gl.glViewportIndexedf(0, x, y, width, height)
    gl.glColorMaski(0, 1, 1, 1, 1)
    (gl.glEnablei if blended else gl.glDisablei)(GL.BLEND, 0)
    if blended:
        gl.glBlendEquationi(0, GL.FUNC_ADD)
        gl.glBlendFuncSeparatei(0, *_BY_ALPHA)


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
