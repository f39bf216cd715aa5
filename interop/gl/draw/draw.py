"""Fragment programs: one triangle over all of a texture or window, coloured by the user's GLSL."""

from __future__ import annotations

import ctypes
import textwrap
import weakref
from collections.abc import Mapping
from typing import Protocol

from ....kernels.views import TEXTURE_CHANNELS
from ...errors import BindingError
from ...uncopied import Uncopied
from ..buffer import GlBuffer
from ..context import GlContext
from ..khronos import GL
from ..program import build_program
from ..state import (
    Part,
    clear_color,
    framebuffers,
    kept,
    pixel_operations,
    prepare_to_draw,
    program,
    storage_buffer_at,
    texture_units,
    vertex_array,
)
from ..texture import GlTexture, linear_sampler, nearest_sampler

_INTEGER_SETTERS = {GL.INT: "glUniform1i", GL.UNSIGNED_INT: "glUniform1ui", GL.BOOL: "glUniform1i"}
_VECTOR_TYPES = {GL.FLOAT: 1, GL.FLOAT_VEC2: 2, GL.FLOAT_VEC3: 3, GL.FLOAT_VEC4: 4}
_SETTERS = {1: "glUniform1f", 2: "glUniform2f", 3: "glUniform3f", 4: "glUniform4f"}

_VERTEX = """out vec2 uv;
uniform float framebind_top_down;
void main() {
  vec2 corner = vec2(float((gl_VertexID & 1) * 2), float((gl_VertexID >> 1) * 2));
  uv = vec2(corner.x, mix(1.0 - corner.y, corner.y, framebind_top_down));
  gl_Position = vec4(corner * 2.0 - 1.0, 0.0, 1.0);
}
"""
_COPY = "uniform sampler2D picture;\nvoid main() { color = texture(picture, uv); }\n"
_COPY_GRAY = "uniform sampler2D picture;\nvoid main() { color = vec4(texture(picture, uv).rrr, 1.0); }\n"

Value = float | tuple[float, ...]


class Surface(Protocol):
    """A window, or anything else with a default framebuffer. ``framebuffer_size`` is its width and height in pixels."""

    @property
    def framebuffer_size(self) -> tuple[int, int]: ...


class FragmentProgram(Uncopied):
    """A fragment shader that runs for every pixel of a texture or window.

    It belongs to the context that is current when it is made.

    Parameters
    ----------
    source : str
        GLSL with its own uniforms and ``void main()``. Version, precision, ``in vec2 uv`` and ``out vec4 color`` are
        declared before it. ``uv`` is (0, 0) at the top left of the picture (row 0 of a texture) and (1, 1) at the
        bottom right. It reads textures as ``uniform sampler2D name;`` and buffers as
        ``layout(std430, binding = 0) readonly buffer name { float values[]; };``, each with a binding of its own.

    Raises
    ------
    KernelError
        If it does not compile; with the compiler's log and the numbered text.

    Examples
    --------
    >>> with fb.GlContext.headless():
    ...     program = fb.FragmentProgram(
    ...         "uniform sampler2D picture; void main() { color = vec4(1.0 - texture(picture, uv).rgb, 1.0); }"
    ...     )
    ...     picture, negative = fb.GlTexture.from_array(np.full((2, 2, 3), 55, np.uint8)), fb.GlTexture(2, 2)
    ...     program.draw(negative, {"picture": picture})
    ...     negative.read()[0, 0]
    array([200, 200, 200, 255], dtype=uint8)
    """

    def __init__(self, source: str) -> None:
        self.context = GlContext.current()
        head = "#version 430 core\n"
        if self.context.is_es:
            head = "#version 310 es\n" + "".join(f"precision highp {t};\n" for t in ("float", "int", "sampler2D"))
        texts = {
            GL.VERTEX_SHADER: head + _VERTEX,
            GL.FRAGMENT_SHADER: f"{head}in vec2 uv;\nout vec4 color;\n#line 1\n{source}",
        }
        self._program = build_program(self.context, "fragment program", texts)
        weakref.finalize(self, self.context.objects.defer_delete, "program", self._program).atexit = False
        objects = self.context.objects
        self._vertex_array = objects.once("vertex array", "empty", lambda: objects.generate("vertex array"))
        self._top_down: bool | None = None
        self._top_down_location = self.context.gl.glGetUniformLocation(self._program, b"framebind_top_down")
        self._uniforms: dict[str, tuple[int, int]] = {}
        self._bindings: dict[str, int] = {}
        self._units: dict[str, int] = {}
        self._values: dict[str, Value] = {}
        self._source = source

    def __repr__(self) -> str:
        return f"<FragmentProgram: {textwrap.shorten(self._source, 80)}>"

    def draw(
        self,
        target: GlTexture | Surface,
        textures: Mapping[str, GlTexture] | None = None,
        buffers: Mapping[str, GlBuffer] | None = None,
        uniforms: Mapping[str, Value] | None = None,
        viewport: tuple[int, int, int, int] | None = None,
    ) -> None:
        """Draw to a texture or window.

        In a context of framebind's own it leaves changed: framebuffer, viewport, program, vertex array, texture and
        buffer bindings; blending and all that drops pixels is off. In somebody else's all GL state is as it was.

        Parameters
        ----------
        target : GlTexture or Window
            The picture that is drawn to.
        textures : mapping of str to GlTexture, optional
            By the names of the shader's samplers. They are sampled bilinearly and clamped to the edge; on OpenGL ES
            r32f and rgba32f are sampled with the nearest texel.
        buffers : mapping of str to GlBuffer, optional
            By the names of the shader's buffer blocks.
        uniforms : mapping of str to float, int, bool or tuple of 2 to 4 floats, optional
            A tuple is a vec2 to vec4. A uniform keeps its value until another one is given.
        viewport : (int, int, int, int), optional
            The rectangle to draw in: x and y of its top left corner, width and height in pixels. By default, all.

        Raises
        ------
        BindingError
            For a name that the shader does not use, a value of another type than the uniform's, a released object, or a
            texture that is both read and drawn to.
        """
        context, gl, textures, buffers = self.context, self.context.gl, textures or {}, buffers or {}
        context.check()
        self._check(target, textures, buffers)
        top_down = isinstance(target, GlTexture)
        size = target.size if isinstance(target, GlTexture) else target.framebuffer_size
        x, y, width, height = viewport or (0, 0, *size)
        parts = self._changed(textures, buffers) if context.is_foreign else ()
        with kept(context, *parts):
            self._bind(textures, buffers)
            if top_down is not self._top_down:
                gl.glUniform1f(self._top_down_location, float(top_down))  # -1, which GL ignores, if no uv is needed
                self._top_down = top_down
            for name, value in (uniforms or {}).items():
                self._set(name, value)
            gl.glBindFramebuffer(GL.FRAMEBUFFER, target.framebuffer() if isinstance(target, GlTexture) else 0)
            prepare_to_draw(context, x, y if top_down else size[1] - y - height, width, height, blended=False)
            gl.glBindVertexArray(self._vertex_array)
            gl.glDrawArrays(GL.TRIANGLES, 0, 3)
            for unit in range(len(textures)):
                gl.glBindSampler(unit, 0)
            gl.glActiveTexture(GL.TEXTURE0)

    def _check(
        self, target: GlTexture | Surface, textures: Mapping[str, GlTexture], buffers: Mapping[str, GlBuffer]
    ) -> None:
        """Raise BindingError for objects that cannot be used together, or not here."""
        for resource in (target, *textures.values(), *buffers.values()):
            if isinstance(resource, GlTexture | GlBuffer) and (
                resource.released or resource.context is not self.context
            ):
                raise BindingError(f"{resource.label} is released or belongs to another context")
        for name, texture in textures.items():
            if isinstance(target, GlTexture) and texture.handle == target.handle:
                raise BindingError(
                    f"{texture.label} cannot be read as '{name}' while it is drawn to: draw to another one"
                )

    def _changed(self, textures: Mapping[str, GlTexture], buffers: Mapping[str, GlBuffer]) -> list[Part]:
        """The parts of the GL state that a draw changes."""
        bindings = [storage_buffer_at(self._binding(name)) for name in buffers]
        units = texture_units(max(len(textures), 1))
        return [framebuffers, program, vertex_array, pixel_operations, units, *bindings]

    def _bind(self, textures: Mapping[str, GlTexture], buffers: Mapping[str, GlBuffer]) -> None:
        """Use the program with these objects. Call it inside a block that keeps what it binds."""
        gl = self.context.gl
        gl.glUseProgram(self._program)
        for unit, (name, texture) in enumerate(textures.items()):
            if self._units.get(name) != unit:
                gl.glUniform1i(self._uniform(name)[0], unit)
                self._units[name] = unit
            nearest = self.context.is_es and texture.format.endswith("32f")
            sampler = nearest_sampler(self.context) if nearest else linear_sampler(self.context)
            gl.glActiveTexture(GL.TEXTURE0 + unit)
            gl.glBindTexture(GL.TEXTURE_2D, texture.id)
            gl.glBindSampler(unit, sampler)
        for name, buffer in buffers.items():
            place = GL.SHADER_STORAGE_BUFFER, self._binding(name)
            gl.glBindBufferRange(*place, buffer.id, buffer.offset, buffer.bound_nbytes)

    def _set(self, name: str, value: Value) -> None:
        """Set a uniform of the program in use, unless it has that value already."""
        if self._values.get(name) == value:
            return
        location, gl_type = self._uniform(name)
        components = value if isinstance(value, tuple) else (value,)
        if gl_type in _INTEGER_SETTERS and len(components) == 1:
            getattr(self.context.gl, _INTEGER_SETTERS[gl_type])(location, int(components[0]))
        elif _VECTOR_TYPES.get(gl_type) == len(components):
            getattr(self.context.gl, _SETTERS[len(components)])(location, *components)
        else:
            raise BindingError(f"uniform '{name}' of the fragment program does not take {value!r}")
        self._values[name] = value

    def _uniform(self, name: str) -> tuple[int, int]:
        """Location and GL type of a uniform. GL is asked once."""
        if name not in self._uniforms:
            gl_type = self._property(GL.UNIFORM, name, GL.TYPE)
            self._uniforms[name] = (self.context.gl.glGetUniformLocation(self._program, name.encode()), gl_type)
        return self._uniforms[name]

    def _binding(self, name: str) -> int:
        """The binding of a buffer block. GL is asked once."""
        if name not in self._bindings:
            binding = self._property(GL.SHADER_STORAGE_BLOCK, name, GL.BUFFER_BINDING)
            if binding in self._bindings.values():
                raise BindingError(f"buffer '{name}' has binding {binding} like another one: give each its own binding")
            self._bindings[name] = binding
        return self._bindings[name]

    def _property(self, interface: int, name: str, wanted: int) -> int:
        gl = self.context.gl
        index = gl.glGetProgramResourceIndex(self._program, interface, name.encode())
        if index == GL.INVALID_INDEX:
            kind = "buffer block" if interface == GL.SHADER_STORAGE_BLOCK else "uniform"
            raise BindingError(f"the fragment program uses no {kind} '{name}': declare it and use it, or leave it out")
        value, asked = ctypes.c_int(), ctypes.c_uint(wanted)
        gl.glGetProgramResourceiv(self._program, interface, index, 1, ctypes.byref(asked), 1, None, ctypes.byref(value))
        return value.value


def letterbox(picture: tuple[int, int], into: tuple[int, int]) -> tuple[int, int, int, int]:
    """Largest rectangle (x, y, width, height) with the aspect of ``picture`` (width, height), centred in ``into``."""
    scale = min(into[0] / picture[0], into[1] / picture[1])
    width, height = max(round(picture[0] * scale), 1), max(round(picture[1] * scale), 1)
    return (into[0] - width) // 2, (into[1] - height) // 2, width, height


class Presenter:
    """Draws textures to a window's framebuffer, letterboxed in black, and one channel in gray."""

    def __init__(self) -> None:
        self._copy, self._copy_gray = FragmentProgram(_COPY), FragmentProgram(_COPY_GRAY)

    def draw(self, surface: Surface, texture: GlTexture, below: int = 0) -> None:
        """Draw the texture as large as fits above the lowest ``below`` pixels."""
        gl = texture.context.gl
        texture.context.check()
        with kept(texture.context, framebuffers, pixel_operations, clear_color):
            gl.glBindFramebuffer(GL.FRAMEBUFFER, 0)
            prepare_to_draw(texture.context, 0, 0, *surface.framebuffer_size, blended=False)
            gl.glClearColor(0.0, 0.0, 0.0, 1.0)
            gl.glClear(GL.COLOR_BUFFER_BIT)
            copy = self._copy_gray if TEXTURE_CHANNELS[texture.format] == 1 else self._copy
            width, height = surface.framebuffer_size
            room = width, max(height - below, 1)
            copy.draw(surface, {"picture": texture}, viewport=letterbox(texture.size, room))
