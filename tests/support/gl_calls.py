"""The GL calls that a context issues, counted, and all state that a host program may rely on."""

from __future__ import annotations

import contextlib
import ctypes
from collections import Counter
from collections.abc import Callable, Container, Iterator
from typing import Any

import framebind as fb
from framebind.interop.gl.api import GlApi
from framebind.interop.gl.texture import linear_sampler

TEXTURE_2D, TEXTURE0, STORAGE_BUFFER, UNIFORM_BUFFER, WRITE_ONLY, RGBA8 = 0x0DE1, 0x84C0, 0x90D2, 0x8A11, 0x88B9, 0x8058
_ENUMERANTS = range(0x0B00, 0x9580)
_CHANGING = frozenset({0x8E28, 0x9048, 0x9049, 0x904A, 0x904B, 0x87FB, 0x87FC, 0x87FD})
"""The GPU's clock, and free memory as NVIDIA and AMD tell it."""
_INDEXED = (
    *(0x90D3, 0x90D4, 0x90D5, 0x8F3A, 0x8F3B, 0x8F3C, 0x8F3D, 0x8F3E, 0x906E, 0x8A28, 0x8A29, 0x8A2A),
    *(0x92C1, 0x92C2, 0x92C3, 0x8C8F, 0x0BA2, 0x0C10, 0x0C23, 0x80C9, 0x80C8, 0x80CB, 0x80CA, 0x8009, 0x883D),
)
"""Buffers, images and transform feedback by index; viewport, scissor box, colour mask and blending of each."""
_OF_A_UNIT = (0x8068, 0x8069, 0x806A, 0x8514, 0x8C1C, 0x8C1D, 0x8C2C, 0x84F6, 0x9104, 0x9105, 0x900A, 0x8919)
_OF_A_TEXTURE = (0x2800, 0x2801, 0x2802, 0x2803, 0x813C, 0x813D, 0x884C, 0x884D)
UNITS = 6


# Calls ---------------------------------------------------------------------------------------------------------------


class _CountingApi(GlApi):
    """Entry points that add themselves to ``calls`` each time they are called."""

    def __init__(self, api: GlApi) -> None:
        super().__init__(api._find)
        self.version, self.calls = api.version, Counter[str]()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = self._counted(name, super().__getattr__(name))
        setattr(self, name, function)
        return function

    def prebound(self, name: str) -> Callable[..., Any]:
        return self._counted(name, super().prebound(name))

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.calls[name] += 1
            return function(*arguments)

        return call


@contextlib.contextmanager
def counted_calls(context: fb.GlContext) -> Iterator[Counter[str]]:
    """Count by name the calls made through the context within the block, and those that lists recorded there make.

    A command list keeps the entry points that it was recorded with: record it within the block.
    """
    plain = context.gl
    context.gl = counting = _CountingApi(plain)
    try:
        yield counting.calls
    finally:
        context.gl = plain


# State ---------------------------------------------------------------------------------------------------------------


class StateReader:
    """Reads all state of a context. It finds out once which enumerants the context has."""

    def __init__(self, context: fb.GlContext) -> None:
        self._gl = context.gl
        self._values = (ctypes.c_float * 4096)()
        self._known = [name for name in _ENUMERANTS if name not in _CHANGING and self._has(name)]

    def _has(self, name: int) -> bool:
        self._gl.glGetFloatv(name, self._values)
        return self._gl.glGetError() == 0

    def narrow(self, names: Container[str]) -> None:
        """Read less from now on: of the variables without an index only those that are named."""
        self._known = [name for name in self._known if f"0x{name:04X}" in names]

    def read(self) -> dict[str, object]:
        """The values by a name for people."""
        gl, values, found = self._gl, self._values, dict[str, object]()
        for name in self._known:
            ctypes.memset(values, 0, 64)
            gl.glGetFloatv(name, values)
            found[f"0x{name:04X}"] = ctypes.string_at(values, 64)  # as bytes NaN equals itself
        for name in _INDEXED:
            for index in range(8):
                number = (ctypes.c_int64 * 4)()
                gl.glGetInteger64i_v(name, index, number)
                if gl.glGetError() == 0:
                    found[f"0x{name:04X} {index}"] = number[:]
        self._read_units(found)
        assert gl.clear_errors() == []
        return found

    def _read_units(self, found: dict[str, object]) -> None:
        gl, active = self._gl, self._gl.integer(0x84E0)
        for unit in range(UNITS):
            gl.glActiveTexture(TEXTURE0 + unit)
            for name in _OF_A_UNIT:
                bound = gl.integer(name)
                if gl.glGetError() == 0:
                    found[f"unit {unit} 0x{name:04X}"] = bound
            for name in _OF_A_TEXTURE:
                value = ctypes.c_int()
                gl.glGetTexParameteriv(TEXTURE_2D, name, ctypes.byref(value))
                found[f"texture of unit {unit} 0x{name:04X}"] = value.value
        gl.glActiveTexture(active)


def differences(before: dict[str, object], after: dict[str, object]) -> dict[str, tuple[object, object]]:
    """The values that changed: before and after, by name."""
    return {name: (value, after.get(name)) for name, value in before.items() if after.get(name) != value}


def set_everything(context: fb.GlContext) -> list[object]:
    """Give everything that the library touches a value that is not the default. Returns what must stay alive."""
    gl = context.gl
    program = fb.FragmentProgram("void main() { color = vec4(1.0); }")
    target = fb.GlTexture(8, 8)
    textures = [fb.GlTexture(4, 4) for _ in range(UNITS)]
    buffers = [fb.GlBuffer(1024) for _ in range(UNITS)]
    vertex_array = ctypes.c_uint()
    gl.glGenVertexArrays(1, ctypes.byref(vertex_array))
    for index, (texture, buffer) in enumerate(zip(textures, buffers, strict=True)):
        gl.glActiveTexture(TEXTURE0 + index)
        gl.glBindTexture(TEXTURE_2D, texture.id)
        gl.glBindSampler(index, linear_sampler(context))
        if index < 4:
            gl.glBindImageTexture(index, texture.id, 0, 0, 0, WRITE_ONLY, RGBA8)
            gl.glBindBufferRange(STORAGE_BUFFER, index, buffer.id, 256, 512)
        gl.glBindBufferRange(UNIFORM_BUFFER, index, buffer.id, 512, 256)
    gl.glBindBufferBase(STORAGE_BUFFER, 1, buffers[0].id)
    for binding in (0x8F36, 0x8F37, 0x88EB, 0x88EC, STORAGE_BUFFER, UNIFORM_BUFFER, 0x8892):
        gl.glBindBuffer(binding, buffers[3].id)
    for name, value in ((0x0D05, 8), (0x0D02, 5), (0x0D03, 1), (0x0CF5, 2), (0x0CF2, 7), (0x0CF3, 3), (0x0CF4, 1)):
        gl.glPixelStorei(name, value)
    gl.glBindFramebuffer(0x8CA9, target.framebuffer())
    gl.glBindFramebuffer(0x8CA8, textures[0].framebuffer())
    gl.glBindVertexArray(vertex_array.value)
    gl.glUseProgram(program._program)
    gl.glViewport(1, 2, 3, 4)
    gl.glClearColor(0.25, 0.5, 0.75, 1.0)
    gl.glColorMask(1, 0, 1, 0)
    gl.glBlendFuncSeparate(0x0306, 0x0303, 1, 0)
    gl.glBlendEquation(0x8007)
    for capability in (0x0BE2, 0x0B71, 0x0C11, 0x0B44, 0x0B90, 0x8C89, 0x809E):  # also GL_RASTERIZER_DISCARD
        gl.glEnable(capability)
    if not context.is_es:
        gl.glPolygonMode(0x0408, 0x1B01)
        gl.glEnable(0x0BF2)
        gl.glLogicOp(0x150A)
        gl.glPixelStorei(0x0CF0, 1)
        gl.glPixelStorei(0x0D00, 1)
    suffix = "OES" if context.is_es else ""
    if not context.is_es or "GL_OES_viewport_array" in context.extensions:
        for index in range(2):
            getattr(gl, f"glViewportIndexedf{suffix}")(index, 1.5 + index, 2.5, 3.0, 4.0)
            getattr(gl, f"glEnablei{suffix}")(0x0C11, index)
    if context.version >= (3, 2):
        gl.glColorMaski(2, 0, 1, 0, 0)
    gl.glActiveTexture(TEXTURE0 + 2)
    return [program, target, *textures, *buffers]


_CHANGES_STATE = (
    "glBind", "glUseProgram", "glActiveTexture", "glPixelStore", "glEnable", "glDisable", "glViewport", "glScissor",
    "glColorMask", "glBlend", "glClearColor", "glPolygonMode", "glLogicOp", "glMaxShaderCompilerThreads",
    "glDrawBuffer", "glReadBuffer", "glDepth", "glStencil", "glCullFace", "glFrontFace", "glSampleMask",
    "glClipControl", "glClampColor", "glPixelTransfer", "glWindowRectangles", "glPauseTransform", "glResumeTransform",
)  # fmt: skip


def changes_state(name: str) -> bool:
    """Whether a GL entry point sets state of the context, not of an object."""
    return name.startswith(_CHANGES_STATE) and "Location" not in name


class GuardedApi(GlApi):
    """Entry points that refuse to change state outside the blocks that put it back."""

    def __init__(self, context: fb.GlContext) -> None:
        super().__init__(context.gl._find)
        self.version, self._context = context.gl.version, context

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = self._guarded(name, super().__getattr__(name))
        setattr(self, name, function)
        return function

    def prebound(self, name: str) -> Callable[..., Any]:
        return self._guarded(name, super().prebound(name))

    def _guarded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        if not changes_state(name):
            return function

        def call(*arguments: Any) -> Any:
            assert self._context.parts_kept, f"{name} outside a block that keeps the state"
            return function(*arguments)

        return call
