"""GL contexts without a window, through EGL: on a GPU device, on Mesa without a surface, or on the default display.

For Linux, and other systems that have a libEGL. Displays are never terminated: all users in a process share one EGL
display, and terminating it would destroy the contexts of the others.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import DeviceError
from .khronos import EGL, signature
from .platform import egl_library

PACKAGES = "on Debian or Ubuntu: apt-get install libegl1 libgl1 libgl1-mesa-dri (or the GPU vendor's driver)"

_PLATFORM_SURFACELESS_MESA = 0x31DD
"""EGL_PLATFORM_SURFACELESS_MESA, of EGL_MESA_platform_surfaceless, which PyOpenGL 3.1 does not have."""

_ERRORS = (
    "EGL_SUCCESS", "EGL_NOT_INITIALIZED", "EGL_BAD_ACCESS", "EGL_BAD_ALLOC", "EGL_BAD_ATTRIBUTE", "EGL_BAD_CONFIG",
    "EGL_BAD_CONTEXT", "EGL_BAD_CURRENT_SURFACE", "EGL_BAD_DISPLAY", "EGL_BAD_MATCH", "EGL_BAD_NATIVE_PIXMAP",
    "EGL_BAD_NATIVE_WINDOW", "EGL_BAD_PARAMETER", "EGL_BAD_SURFACE", "EGL_CONTEXT_LOST",
)  # fmt: skip
"""Names of the errors of EGL 1.5, section 3.1: their numbers are consecutive."""
_ERROR_NAMES = dict(enumerate(_ERRORS, 0x3000))


class Egl:
    """The EGL functions as ctypes functions with signatures; extension functions through eglGetProcAddress."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("egl"):
            raise AttributeError(name)
        result, *arguments = signature(name)
        if name.endswith(("EXT", "MESA", "ANDROID")):
            address = self.eglGetProcAddress(name.encode())
            if not address:
                raise DeviceError(f"this EGL has no {name}. {PACKAGES}")
            function = ctypes.CFUNCTYPE(result, *arguments)(address)
        else:
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, tuple(arguments)
        setattr(self, name, function)
        return function

    def failed(self, what: str) -> DeviceError:
        """The error for a call that failed; ``what`` says which."""
        number = self.eglGetError()
        if number == EGL.SUCCESS:
            return DeviceError(f"{what} failed, and EGL gives no reason")
        return DeviceError(f"{what} failed with {_ERROR_NAMES.get(number, f'EGL error 0x{number:04x}')}")


@dataclass
class EglContext:
    """A context of ours on one display. ``surface`` is a 1x1 pbuffer if the driver needs one, else None."""

    egl: Egl
    display: int
    handle: int
    surface: int | None

    def make_current(self) -> None:
        if not self.egl.eglMakeCurrent(self.display, self.surface, self.surface, self.handle):
            raise DeviceError(
                f"{self.egl.failed('making the headless GL context current')}. It may be current on another thread, or "
                "a context of another API (GLX) is current on this one: release that first, or use GlContext.current()"
            )

    def release(self) -> None:
        self.egl.eglMakeCurrent(self.display, None, None, None)

    def destroy(self) -> None:
        """Destroy it, from any thread, more than once. EGL keeps a context while it is current on some thread."""
        handle, surface, self.handle, self.surface = self.handle, self.surface, 0, None
        if handle:
            self.egl.eglDestroyContext(self.display, handle)
        if surface:
            self.egl.eglDestroySurface(self.display, surface)


def create(es: bool, device_index: int | None) -> EglContext:
    """Make a context: desktop GL 4.3 core or newer, or GL ES 3.1 or newer. It is not current yet.

    ``device_index`` picks an EGL device; by default the first display that gives such a context is taken. Raises
    DeviceError with a list of what was tried.
    """
    library = egl_library()
    if library is None:
        raise DeviceError(f"there is no EGL library (libEGL.so.1), so no headless GL context can be made. {PACKAGES}")
    egl, tried = Egl(library), []
    for name, display in _displays(egl, device_index):
        try:
            return _create_on(egl, display, es)
        except DeviceError as error:
            tried.append(f"{name}: {error}")
    wanted = "OpenGL ES 3.1" if es else "OpenGL 4.3"
    found = "; ".join(tried) or "EGL found no display at all"
    raise DeviceError(f"no EGL display gives a context with {wanted} ({found}). {PACKAGES}")


def count_devices() -> int:
    """The number of devices that EGL lists; 0 if it cannot list them, or if there is no EGL."""
    library = egl_library()
    return len(_devices(Egl(library))) if library is not None else 0


def _displays(egl: Egl, device_index: int | None) -> Iterator[tuple[str, int | None]]:
    """Name and handle of every display worth trying, best first."""
    extensions = (egl.eglQueryString(None, EGL.EXTENSIONS) or b"").decode().split()
    devices = _devices(egl) if "EGL_EXT_platform_device" in extensions else []
    if device_index is not None:
        if not 0 <= device_index < len(devices):
            raise DeviceError(f"there is no EGL device {device_index}: this machine has {len(devices)}, counted from 0")
        devices = [devices[device_index]]
    for number, device in enumerate(devices):
        yield f"EGL device {number}", egl.eglGetPlatformDisplayEXT(EGL.PLATFORM_DEVICE_EXT, device, None)
    if device_index is not None:
        return
    if "EGL_MESA_platform_surfaceless" in extensions:
        yield "Mesa surfaceless", egl.eglGetPlatformDisplayEXT(_PLATFORM_SURFACELESS_MESA, None, None)
    yield "default display", egl.eglGetDisplay(None)


def _devices(egl: Egl) -> list[int]:
    devices, count = (ctypes.c_void_p * 64)(), ctypes.c_int()
    with contextlib.suppress(DeviceError):
        if egl.eglQueryDevicesEXT(64, devices, ctypes.byref(count)):
            return [device for device in devices[: count.value] if device]
    return []


def _create_on(egl: Egl, display: int | None, es: bool) -> EglContext:
    if not display:
        raise egl.failed("opening the display")
    if not egl.eglInitialize(display, None, None):
        raise egl.failed("eglInitialize")
    if not egl.eglBindAPI(EGL.OPENGL_ES_API if es else EGL.OPENGL_API):
        raise egl.failed("choosing OpenGL ES" if es else "choosing desktop OpenGL")
    config = _config(egl, display, EGL.OPENGL_ES3_BIT if es else EGL.OPENGL_BIT)
    # Some drivers give exactly the version asked for, so the newest comes first.
    profile = () if es else (EGL.CONTEXT_OPENGL_PROFILE_MASK, EGL.CONTEXT_OPENGL_CORE_PROFILE_BIT)
    # A context that is not told to be lost after a reset of the GPU goes on silently, with garbage in its buffers.
    told = (EGL.CONTEXT_OPENGL_RESET_NOTIFICATION_STRATEGY, EGL.LOSE_CONTEXT_ON_RESET)
    for reset, (major, minor) in itertools.product((told, ()), ((3, 2), (3, 1)) if es else ((4, 6), (4, 5), (4, 3))):
        version = (EGL.CONTEXT_MAJOR_VERSION, major, EGL.CONTEXT_MINOR_VERSION, minor)
        handle = egl.eglCreateContext(display, config, None, _attributes(*version, *profile, *reset))
        if handle:
            break
    else:
        raise egl.failed("creating the context")
    surface = None
    if b"EGL_KHR_surfaceless_context" not in (egl.eglQueryString(display, EGL.EXTENSIONS) or b""):
        surface = egl.eglCreatePbufferSurface(display, config, _attributes(EGL.WIDTH, 1, EGL.HEIGHT, 1))
        if not surface:
            egl.eglDestroyContext(display, handle)
            raise egl.failed("creating a pbuffer")
    return EglContext(egl, display, handle, surface)


def _config(egl: Egl, display: int, api_bit: int) -> int:
    config, count = (ctypes.c_void_p * 1)(), ctypes.c_int()
    for surface_type in (EGL.PBUFFER_BIT, 0):
        wanted = _attributes(EGL.SURFACE_TYPE, surface_type, EGL.RENDERABLE_TYPE, api_bit)
        found = egl.eglChooseConfig(display, wanted, config, 1, ctypes.byref(count))
        if found and count.value and config[0]:
            return config[0]
    raise egl.failed("finding a framebuffer configuration")


def pointer_attributes(*values: int) -> Any:
    """Attributes as the functions of EGL 1.5 take them (EGLAttrib), ended by EGL_NONE."""
    return (ctypes.c_ssize_t * (len(values) + 1))(*values, EGL.NONE)


def _attributes(*values: int) -> Any:
    return (ctypes.c_int * (len(values) + 1))(*values, EGL.NONE)
