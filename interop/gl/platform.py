"""The window-system APIs (EGL, GLX, WGL, CGL): they tell which GL context is current. Nothing is created here."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass

GetHandle = Callable[[], int | None]


@dataclass(frozen=True)
class Platform:
    """One window-system API. ``current()`` is the handle of the calling thread's context; None or 0 without one."""

    name: str
    current: GetHandle
    find: Callable[[str], int]
    """The API's get_proc_address: it returns the address of a GL entry point, or 0."""
    hold: Callable[[], Callable[[], object]] | None = None
    """Prepares the thread for another context of EGL. Returns a function that makes the previous context current again.
    """


@functools.cache
def platforms() -> tuple[Platform, ...]:
    """The APIs that this machine has, in the order in which they are asked for a current context."""
    makers = {"win32": (_wgl, _egl), "darwin": (_cgl,)}.get(sys.platform, (_egl, _glx))
    return tuple(platform for make in makers if (platform := make()) is not None)


def current_platform() -> tuple[Platform, int] | None:
    """The API whose context is current on the calling thread, and the context's handle; None if there is none."""
    for platform in platforms():
        if handle := platform.current():
            return platform, handle
    return None


def load(*names: str) -> ctypes.CDLL | None:
    """Load the first of the shared libraries that the system has."""
    for name in names:
        try:
            return getattr(ctypes, "WinDLL", ctypes.CDLL)(name)
        except OSError:
            continue
    return None


def egl_library() -> ctypes.CDLL | None:
    """The EGL library, which may have no driver."""
    names = {"win32": ("libEGL.dll",), "darwin": ("libEGL.dylib",)}
    return load(*names.get(sys.platform, ("libEGL.so.1", "libEGL.so")))


def handle_getter(library: ctypes.CDLL, name: str) -> GetHandle:
    """A library's function without arguments that returns a handle."""
    function = getattr(library, name)
    function.restype, function.argtypes = ctypes.c_void_p, ()
    return function


def proc_getter(library: ctypes.CDLL, name: str) -> Callable[[str], int]:
    """A library's get_proc_address."""
    function = getattr(library, name)
    function.restype, function.argtypes = ctypes.c_void_p, (ctypes.c_char_p,)
    return lambda entry: function(entry.encode()) or 0


def _egl() -> Platform | None:
    library = egl_library()
    if library is None:
        return None
    find = proc_getter(library, "eglGetProcAddress")
    return Platform("EGL", handle_getter(library, "eglGetCurrentContext"), find, lambda: _hold_egl(library))


def _glx() -> Platform | None:
    library = load("libGL.so.1", "libGLX.so.0")
    if library is None or not hasattr(library, "glXGetCurrentContext"):
        return None
    find = proc_getter(library, "glXGetProcAddressARB")
    return Platform("GLX", handle_getter(library, "glXGetCurrentContext"), find, lambda: _hold_glx(library))


_P, _DRAW, _READ = ctypes.c_void_p, 0x3059, 0x305A


def _hold_egl(library: ctypes.CDLL) -> Callable[[], object]:
    surface = ctypes.CFUNCTYPE(_P, ctypes.c_int)(("eglGetCurrentSurface", library))
    make_current = ctypes.CFUNCTYPE(ctypes.c_uint, _P, _P, _P, _P)(("eglMakeCurrent", library))
    display, handle = (handle_getter(library, f"eglGetCurrent{what}")() for what in ("Display", "Context"))
    place = display, surface(_DRAW), surface(_READ), handle
    return lambda: make_current(*place)


def _hold_glx(library: ctypes.CDLL) -> Callable[[], object]:
    """Leave the current context of GLX, which EGL cannot replace. Returns the function that makes it current again."""
    make_current = ctypes.CFUNCTYPE(ctypes.c_int, _P, ctypes.c_ulong, ctypes.c_ulong, _P)(
        ("glXMakeContextCurrent", library)
    )
    names = ("Display", "Drawable", "ReadDrawable", "Context")
    place = [handle_getter(library, f"glXGetCurrent{name}")() or 0 for name in names]
    make_current(place[0], 0, 0, None)
    return lambda: make_current(*place)


def _wgl() -> Platform | None:
    library = load("opengl32.dll")
    if library is None:
        return None
    extension = proc_getter(library, "wglGetProcAddress")

    def find(entry: str) -> int:
        # WGL hands out only what is newer than GL 1.1. For the rest it returns a small number or -1.
        address = extension(entry)
        if address not in (0, 1, 2, 3, ctypes.c_void_p(-1).value):
            return address
        return _exported(library, entry)

    return Platform("WGL", handle_getter(library, "wglGetCurrentContext"), find)


def _cgl() -> Platform | None:
    library = load("/System/Library/Frameworks/OpenGL.framework/OpenGL")
    if library is None:
        return None
    return Platform("CGL", handle_getter(library, "CGLGetCurrentContext"), lambda entry: _exported(library, entry))


def _exported(library: ctypes.CDLL, entry: str) -> int:
    function = getattr(library, entry, None)
    return ctypes.cast(function, ctypes.c_void_p).value or 0 if function is not None else 0
