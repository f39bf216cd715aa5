"""Signatures and enumerants of OpenGL and EGL: ``GL.TEXTURE_2D``, ``EGL.NONE``, ``signature("glFinish")``.

They come from the raw modules of PyOpenGL, which PyOpenGL generates from the Khronos registry. The modules are read as
text, not imported. An import would load a GL library, choose PyOpenGL's platform (GLX, EGL ...) and fix PyOpenGL's
flags for the whole process; these are the user's to choose, and ``import framebind`` needs no GL library.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
from pathlib import Path
from typing import Any

Signature = tuple[Any, ...]
"""The ctypes types of a function: the result, then each argument. None is void, and every pointer is a c_void_p."""

_MODULES = (
    *(f"GL/VERSION/GL_{version}" for version in ("1_0", "1_1", "1_2", "1_3", "1_4", "1_5", "2_0", "2_1")),
    *(f"GL/VERSION/GL_{version}" for version in ("3_0", "3_1", "3_2", "3_3", "4_0", "4_1", "4_2", "4_3", "4_4", "4_5")),
    *(f"GL/EXT/{name}" for name in ("memory_object", "memory_object_fd", "semaphore", "semaphore_fd")),
    *(
        "GL/KHR/parallel_shader_compile",
        "GL/NV/shader_thread_group",
        "GL/NV/timeline_semaphore",
        "GL/AMD/pinned_memory",
        "GL/EXT/EGL_image_storage",
    ),
    *("GLES2/EXT/buffer_storage", "GLES2/EXT/disjoint_timer_query", "GLES2/EXT/clip_control"),
    *("GLES2/OES/viewport_array", "GLES2/OES/draw_buffers_indexed", "GL/EXT/window_rectangles", "GL/MESA/pack_invert"),
    *(f"EGL/VERSION/EGL_{version}" for version in ("1_0", "1_2", "1_3", "1_4", "1_5")),
    *("EGL/EXT/platform_base", "EGL/EXT/platform_device", "EGL/EXT/device_base", "EGL/EXT/image_dma_buf_import"),
    *("EGL/MESA/image_dma_buf_export", "EGL/ANDROID/native_fence_sync"),
)
_ENUMERANT = re.compile(r"^(\w+)=_C\('\w+',(-?\w+)\)", re.MULTILINE)
_FUNCTION = re.compile(r"^@_p\.types\((.*)\)\ndef (\w+)\(", re.MULTILINE)
_TYPES = {
    "None": None,
    "_cs.GLboolean": ctypes.c_ubyte,
    **dict.fromkeys(("_cs.GLenum", "_cs.GLbitfield", "_cs.GLuint", "_cs.EGLBoolean", "_cs.EGLenum"), ctypes.c_uint),
    **dict.fromkeys(("_cs.GLint", "_cs.GLsizei", "_cs.EGLint"), ctypes.c_int),
    **dict.fromkeys(("_cs.GLfloat", "_cs.GLclampf"), ctypes.c_float),
    **dict.fromkeys(("_cs.GLintptr", "_cs.GLsizeiptr"), ctypes.c_ssize_t),
    "_cs.GLint64": ctypes.c_int64,
    "_cs.GLuint64": ctypes.c_uint64,
    **dict.fromkeys(("_cs.GLsync", "_cs.EGLDisplay", "_cs.EGLConfig", "_cs.EGLContext"), ctypes.c_void_p),
    **dict.fromkeys(("_cs.EGLSurface", "_cs.EGLDeviceEXT", "_cs.EGLNativeDisplayType"), ctypes.c_void_p),
    **dict.fromkeys(("_cs.EGLImage", "_cs.EGLImageKHR", "_cs.EGLClientBuffer", "_cs.GLeglImageOES"), ctypes.c_void_p),
    **dict.fromkeys(("_cs.EGLSync", "_cs.EGLSyncKHR"), ctypes.c_void_p),
}


class Enumerants:
    """The enumerants with one prefix, as attributes; a value is looked up once."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> int:
        text = _enumerants().get(self._prefix + name)
        if text is None:
            raise AttributeError(f"PyOpenGL's raw modules have no {self._prefix}{name}")
        value = int(text, 0)
        setattr(self, name, value)
        return value


GL, EGL = Enumerants("GL_"), Enumerants("EGL_")


@functools.cache
def gl_name(value: int) -> str:
    """The name of one of GL's enumerants for a message, such as "GL_RGBA8UI"; its number if it has no name here."""
    names = [name for name, text in _enumerants().items() if name.startswith("GL_") and int(text, 0) == value]
    return min(names, key=len, default=f"0x{value:04x}")


@functools.cache
def signature(name: str) -> Signature:
    """The result type and the argument types of a function. Raises AttributeError if no raw module has it."""
    declared = _functions().get(name)
    if declared is None:
        raise AttributeError(f"PyOpenGL's raw modules have no {name}")
    result, *arguments = declared.split(",")
    # The functions that return "GLubyte *" return text.
    text = result in ("arrays.GLubyteArray", "ctypes.c_char_p")
    return (ctypes.c_char_p if text else _type(result), *(_type(argument) for argument in arguments if argument))


def _type(declared: str) -> Any:
    return ctypes.c_void_p if declared.startswith(("arrays.", "ctypes.")) else _TYPES[declared]


@functools.cache
def _text() -> str:
    """The text of all modules in ``_MODULES``."""
    package = importlib.util.find_spec("OpenGL")  # of a top-level package: this finds it without importing it
    if package is None or package.origin is None:
        raise ImportError("framebind needs PyOpenGL: pip install PyOpenGL")
    raw = Path(package.origin).parent / "raw"
    return "\n".join((raw / f"{module}.py").read_text("utf-8") for module in _MODULES)


@functools.cache
def _enumerants() -> dict[str, str]:
    return dict(_ENUMERANT.findall(_text()))


@functools.cache
def _functions() -> dict[str, str]:
    return {name: types for types, name in _FUNCTION.findall(_text())}
