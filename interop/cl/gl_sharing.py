"""OpenCL objects made of GL objects (cl_khr_gl_sharing), with contexts of GLX, EGL, WGL and CGL.

The functions are called through the ICD loader, because pyopencl's wheels are built without them.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from typing import Any

import pyopencl

from ..gl.khronos import GL
from ..gl.platform import current_platform, egl_library, handle_getter, load
from .api import check, extension, loader

log = logging.getLogger("framebind")

EXTENSIONS = ("cl_khr_gl_sharing", "cl_APPLE_gl_sharing")
_P, _UINT, _INT, _SIZE, _BITS = ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_size_t, ctypes.c_uint64
_CONTEXT_PLATFORM, _CONTEXT_PROPERTIES, _GL_CONTEXT = 0x1084, 0x1082, 0x2008
_DISPLAYS = {"EGL": 0x2009, "GLX": 0x200A, "WGL": 0x200B}
"""The property of a CL context that holds the display (WGL: device context) of the GL context, by platform."""
_CGL_SHAREGROUP_APPLE = 0x10000000
_DEVICES_FOR_GL_CONTEXT = 0x2007
_READ_WRITE = 1
_MAX_DEVICES = 64


def make_context(device: pyopencl.Device) -> pyopencl.Context | None:
    """A CL context of that device that shares objects with the GL context current on this thread.

    None if there is no GL context, or the two cannot share: ``why_not`` then gives the reason.
    """
    found = current_platform()
    if found is None:
        return None
    reason = _refusal(device)
    if reason is None:
        status, create = _INT(), ctypes.CFUNCTYPE(_P, _P, _UINT, _P, _P, _P, _P)(("clCreateContext", loader()))
        handles = (_P * 1)(device.int_ptr)
        handle = create(_properties(device), 1, handles, None, None, ctypes.byref(status))
        if handle and not status.value:
            return pyopencl.Context.from_int_ptr(handle, retain=False)
        reason = f"clCreateContext with the GL context gives {_status(status.value)}"
    log.debug(f"'{device.name.strip()}' shares no objects with the GL context: {reason}")
    return None


def why_not(context: pyopencl.Context, device: pyopencl.Device) -> str | None:
    """The reason why the CL context cannot use objects of the current GL context; None if it can."""
    found = current_platform()
    if found is not None and _shared_with(context) in (found[1], _sharegroup(found)):
        return None
    return _refusal(device) or (
        "the ClContext was made without this GL context: make it while the GL context is current on the thread"
    )


def from_gl_buffer(context: pyopencl.Context, name: int) -> pyopencl.Buffer:
    """The GL buffer of that name as an OpenCL buffer. Raises DeviceError if the driver refuses it."""
    handle = _create("clCreateFromGLBuffer", (_P, _BITS, _UINT, _P), context.int_ptr, _READ_WRITE, name)
    memory: Any = pyopencl.Buffer.from_int_ptr(handle, retain=False)
    return memory


def from_gl_texture(context: pyopencl.Context, name: int) -> pyopencl.Image:
    """Level 0 of the 2-D GL texture of that name as an OpenCL image. Raises DeviceError if the driver refuses it."""
    types = (_P, _BITS, _UINT, _INT, _UINT, _P)
    handle = _create("clCreateFromGLTexture", types, context.int_ptr, _READ_WRITE, GL.TEXTURE_2D, 0, name)
    memory: Any = pyopencl.Image.from_int_ptr(handle, retain=False)
    return memory


def acquire(queue: pyopencl.CommandQueue, memories: Sequence[int]) -> None:
    """Let kernels use these cl_mems, until ``release``."""
    _enqueue("clEnqueueAcquireGLObjects", queue, memories)


def release(queue: pyopencl.CommandQueue, memories: Sequence[int]) -> None:
    """Let GL use the objects again."""
    _enqueue("clEnqueueReleaseGLObjects", queue, memories)


def _create(function: str, types: tuple[Any, ...], *arguments: Any) -> int:
    status = _INT()
    handle = ctypes.CFUNCTYPE(_P, *types)((function, loader()))(*arguments, ctypes.byref(status))
    check(status.value, function)
    return handle


def _enqueue(function: str, queue: pyopencl.CommandQueue, memories: Sequence[int]) -> None:
    handles = (_P * len(memories))(*memories)
    call = getattr(loader(), function)
    check(call(_P(queue.int_ptr), _UINT(len(memories)), handles, _UINT(0), None, None), function)


def _refusal(device: pyopencl.Device) -> str | None:
    """The reason why no CL context of the device can share with the current GL context; None if there is none known."""
    name, found = device.name.strip(), current_platform()
    if not set(EXTENSIONS) & set(device.extensions.split()):
        return f"'{name}' has no cl_khr_gl_sharing"
    if found is None:
        return "no GL context is current on this thread"
    if found[0].name == "CGL":
        return None
    ask = extension(device.platform, "clGetGLContextInfoKHR", _INT, _P, _UINT, _SIZE, _P, _P)
    if ask is None:
        return f"the driver of '{name}' has no clGetGLContextInfoKHR"
    devices, size = (_P * _MAX_DEVICES)(), _SIZE()
    status = ask(_properties(device), _DEVICES_FOR_GL_CONTEXT, ctypes.sizeof(devices), devices, ctypes.byref(size))
    if status:
        return f"clGetGLContextInfoKHR gives {_status(status)} for this {found[0].name} context"
    if device.int_ptr not in devices[: size.value // ctypes.sizeof(_P)]:
        return f"the GL context is on another device than '{name}'"
    return None


def _properties(device: pyopencl.Device) -> Any:
    """The properties of a CL context that shares with the current GL context."""
    found = current_platform()
    assert found is not None
    platform, handle = found
    if platform.name == "CGL":
        values = (_CGL_SHAREGROUP_APPLE, _sharegroup(found))
    else:
        values = (_GL_CONTEXT, handle, _DISPLAYS[platform.name], _display(platform.name))
    values = (*values, _CONTEXT_PLATFORM, device.platform.int_ptr, 0)
    return (ctypes.c_ssize_t * len(values))(*values)


def _display(platform: str) -> int:
    if platform == "EGL":
        library, name = egl_library(), "eglGetCurrentDisplay"
    elif platform == "GLX":
        library, name = load("libGL.so.1", "libGLX.so.0"), "glXGetCurrentDisplay"
    else:
        library, name = load("opengl32.dll"), "wglGetCurrentDC"
    return handle_getter(library, name)() or 0 if library is not None else 0


def _sharegroup(found: tuple[Any, int]) -> int:
    """The share group of a CGL context; 0 on other platforms."""
    if found[0].name != "CGL":
        return 0
    library = load("/System/Library/Frameworks/OpenGL.framework/OpenGL")
    assert library is not None
    return ctypes.CFUNCTYPE(_P, _P)(("CGLGetShareGroup", library))(found[1]) or 0


def _shared_with(context: pyopencl.Context) -> int:
    """The GL context (CGL: share group) that the CL context was made with; 0: none."""
    values, size = (ctypes.c_ssize_t * 64)(), _SIZE()
    ask = loader().clGetContextInfo
    arguments = (_P(context.int_ptr), _UINT(_CONTEXT_PROPERTIES), _SIZE(ctypes.sizeof(values)))
    if ask(*arguments, values, ctypes.byref(size)):
        return -1
    pairs = dict(zip(values[0 : size.value // 8 : 2], values[1 : size.value // 8 : 2], strict=False))
    return pairs.get(_GL_CONTEXT) or pairs.get(_CGL_SHAREGROUP_APPLE) or -1


def _status(status: int) -> str:
    return f"{pyopencl.status_code.to_string(status, '%d')} ({status})"
