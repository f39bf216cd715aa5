"""GL contexts: made without a window, made by a window, or found current; and which thread may use them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Protocol

from ..errors import DeviceError
from . import egl
from .api import GlApi
from .khronos import GL
from .owned_objects import OwnedObjects
from .platform import Platform, current_platform

_SOFTWARE = ("llvmpipe", "softpipe", "swrast", "swiftshader", "software rasterizer", "gdi generic")

_contexts: weakref.WeakValueDictionary[tuple[str, int], GlContext] = weakref.WeakValueDictionary()


class ContextOwner(Protocol):
    """The maker of a context: EGL or a window."""

    def make_current(self) -> None: ...
    def release(self) -> None: ...
    def destroy(self) -> None: ...


class _Thread(threading.local):
    """The context that each thread last made current through us. It stays alive, as GL itself keeps it."""

    context: GlContext | None = None


_thread = _Thread()


class GlContext:
    """A GL context: desktop OpenGL 4.3 or newer, or OpenGL ES 3.1 or newer.

    Get one with ``GlContext.headless()`` (new, without a window), ``fb.Window(...)`` or ``GlContext.current()`` (the
    one that is current on this thread, whoever made it; it is then borrowed and never destroyed). Use it as a context
    manager, or call ``close()``. It belongs to the thread where it is current: any use from elsewhere is a DeviceError.
    """

    def __init__(self, platform: Platform, handle: int, owner: ContextOwner | None) -> None:
        """For the library: adopt the context that is current on the calling thread. ``owner`` None: it is foreign."""
        self._platform, self._handle, self._owner = platform, handle, owner
        self._find_current = platform.current
        self._thread_id = threading.get_ident()
        self._previous: GlContext | None = None
        self.closed = False
        self.closing: list[Callable[[], None]] = []
        """Functions that ``close`` calls first: they stop threads that write to memory that is freed then."""
        self.gl = GlApi(platform.find)
        self.objects = OwnedObjects(self.gl)
        text = self._string(GL.VERSION)
        self.is_es = "OpenGL ES" in text
        self.version = _version(text)
        self.gl.version = text
        self.vendor, self.renderer = self._string(GL.VENDOR), self._string(GL.RENDERER)
        self.software = any(name in self.renderer.lower() for name in _SOFTWARE)
        """The renderer is the CPU."""
        if self.version < ((3, 1) if self.is_es else (4, 3)):
            raise DeviceError(
                f"the {platform.name} context is '{text}' on '{self.renderer}'; framebind needs OpenGL 4.3 or "
                "OpenGL ES 3.1. Ask for a core profile of that version where it is made, or update the graphics driver"
            )

    @staticmethod
    def headless(es: bool = False, device_index: int | None = None) -> GlContext:
        """A new context without a window, current on the calling thread: desktop OpenGL, or with ``es`` OpenGL ES.

        ``device_index`` counts EGL devices (GPUs); by default the first one that works is taken. Raises DeviceError,
        saying what was tried and which packages to install.
        """
        context = GlContext.owned(lambda: egl.create(es, device_index))
        assert context._owner is not None
        # Dropped without close(): EGL may destroy a context from any thread.
        weakref.finalize(context, context._owner.destroy).atexit = False
        return context

    @staticmethod
    def owned(make: Callable[[], ContextOwner]) -> GlContext:
        """For the library: make a context, make it current on the calling thread and wrap it."""
        previous = _leave_current()
        try:
            owner = make()
            try:
                owner.make_current()
                found = current_platform()
                if found is None:
                    raise DeviceError(
                        "the new GL context did not become current: the driver is not installed correctly"
                    )
                context = GlContext(*found, owner)
            except DeviceError:
                owner.release()
                owner.destroy()
                raise
        except DeviceError:
            if previous is not None:
                previous.make_current()
            raise
        context._previous = previous
        _contexts[found[0].name, found[1]] = context
        _thread.context = context
        return context

    @staticmethod
    def current() -> GlContext:
        """The context that is current on the calling thread: one of ours, or a foreign one, which is then borrowed.

        Raises DeviceError where there is none, or where it is too old.
        """
        found = current_platform()
        if found is None:
            raise DeviceError(
                "no GL context is current on this thread: open a fb.Window, use 'with fb.GlContext.headless():', "
                "or make your own context current first"
            )
        platform, handle = found
        context = _contexts.get((platform.name, handle))
        if context is None:
            context = GlContext(platform, handle, None)
            _contexts[platform.name, handle] = context
        context._thread_id = threading.get_ident()
        return context

    @property
    def is_foreign(self) -> bool:
        """Somebody else made it: its state is theirs, and it is never destroyed here."""
        return self._owner is None

    @staticmethod
    def is_current() -> bool:
        """Whether any GL context, ours or foreign, is current on the calling thread."""
        return current_platform() is not None

    def check(self) -> None:
        """Raise DeviceError unless this context is alive and current on the calling thread. One cheap driver call."""
        if self._find_current() == self._handle and threading.get_ident() == self._thread_id and not self.closed:
            return
        if self.closed:
            raise DeviceError(f"{self} is closed: make a new context, and the objects and programs in it anew")
        if threading.get_ident() != self._thread_id:
            raise DeviceError(
                f"{self} is current on thread {self._thread_id}, and this call came from thread "
                f"{threading.get_ident()}: call from that thread, or release() it there and make_current() here"
            )
        raise DeviceError(
            f"{self} is not current on this thread (another context is, or none): call its make_current()"
        )

    def make_current(self) -> None:
        """Make it current on the calling thread. Of a foreign context only its own library can do that."""
        if self.closed:
            self.check()
        if self._find_current() != self._handle:
            if self._owner is None:
                raise DeviceError(f"{self} is foreign: make it current with the library that made it")
            _leave_current()
            self._owner.make_current()
        self._thread_id = threading.get_ident()
        _thread.context = self

    def release(self) -> None:
        """Leave the calling thread without this context, so that another thread may make it current."""
        self.check()
        if self._owner is not None:
            self._owner.release()
        if _thread.context is self:
            _thread.context = None

    def finish(self) -> None:
        """Wait until the GPU has done everything submitted in this context."""
        self.check()
        self.gl.glFinish()

    def close(self) -> None:
        """Delete what the library made in it, destroy it if it is ours, and make the one before it current again."""
        if self.closed:
            return
        for stop in tuple(self.closing):
            stop()
        if self._find_current() == self._handle and threading.get_ident() == self._thread_id:
            self.objects.delete_all()
            if self._owner is not None:
                self._owner.release()
        self.closed = True
        _contexts.pop((self._platform.name, self._handle), None)
        if self._owner is not None:
            self._owner.destroy()
        if _thread.context is self:
            _thread.context = None
            if self._owner is not None and self._previous is not None and not self._previous.closed:
                self._previous.make_current()
        self._previous = None

    def __enter__(self) -> GlContext:
        self.make_current()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __str__(self) -> str:
        return f"the GL context '{self.gl.version}' ({self.renderer})"

    def _string(self, name: int) -> str:
        text = self.gl.glGetString(name)
        if text is None:
            raise DeviceError(
                f"the {self._platform.name} context does not answer glGetString: it is lost or not usable"
            )
        return text.decode(errors="replace")


def _leave_current() -> GlContext | None:
    """Leave the context that this thread made current through us; it is returned, if it is still usable.

    A context of one window-system API cannot replace one of another (EGL, GLX): that one must be left first.
    """
    context = _thread.context
    if context is None or context.closed or context._find_current() != context._handle:
        return None
    context.release()
    return context


def _version(text: str) -> tuple[int, int]:
    """Of "4.5 (Core Profile) Mesa ..." or "OpenGL ES 3.2 Mesa ..."."""
    words = text.removeprefix("OpenGL ES").removeprefix("-CM").split()
    major, _, minor = words[0].partition(".") if words else ("0", "", "0")
    return int(major), int(minor.split(".")[0])
