"""GL contexts: made without a window, made by a window, or found current; and the check of the calling thread."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import secrets
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from ..contexts import BaseContext
from ..errors import DeviceError
from ..forks import check_process
from . import egl
from .api import GlApi
from .khronos import GL
from .owned_objects import OwnedObjects
from .platform import Platform, current_platform

_SOFTWARE = ("llvmpipe", "softpipe", "swrast", "swiftshader", "software rasterizer", "gdi generic")
_LABEL_BYTES = 16

_contexts: weakref.WeakValueDictionary[tuple[str, int], GlContext] = weakref.WeakValueDictionary()


class ContextOwner(Protocol):
    """The maker of a context: EGL or a window."""

    def make_current(self) -> None: ...
    def release(self) -> None: ...
    def destroy(self) -> None: ...


class _Thread(threading.local):
    """The contexts that are kept alive for each thread, as GL keeps them too."""

    context: GlContext | None = None
    """The context that was last made current through us."""
    found: GlContext | None = None
    """Another library's context that was last found current, kept because each caller would make and mark it anew."""


_thread = _Thread()


class GlContext(BaseContext):
    """A GL context: desktop OpenGL 4.3 or newer, or OpenGL ES 3.1 or newer.

    ``GlContext.headless()`` makes one without a window, and ``fb.Window`` makes one with a window. ``current()`` gives
    the one that is current on this thread; if somebody else made it, it is borrowed and never destroyed.

    A context belongs to the thread on which it is current: using it from another thread is a DeviceError. Use it as a
    context manager, or call ``close()``.

    Attributes
    ----------
    is_es : bool
        Whether it is OpenGL ES.
    version : (int, int)
        Version of OpenGL or OpenGL ES.
    vendor, renderer : str
        The driver's names of itself and of the GPU.
    software : bool
        Whether the renderer is the CPU (llvmpipe, for instance).
    closed : bool
        Whether ``close()`` was called.

    Examples
    --------
    >>> with fb.GlContext.headless() as context:
    ...     fb.GlContext.current() is context
    True
    >>> context.closed
    True
    """

    def __init__(self, platform: Platform, handle: int, owner: ContextOwner | None) -> None:
        """Adopt the context that is current on the calling thread; for the library's own use.

        ``owner`` made the context and destroys it; None: it is somebody else's.
        """
        self._platform, self._handle, self._owner = platform, handle, owner
        self._find_current = platform.current
        self._thread_id = threading.get_ident()
        self._previous: GlContext | None = None
        super().__init__()
        self.is_foreign = owner is None
        """True if another library made the context. We then restore its state after each call, and never destroy it."""
        self.is_private = False
        """True if it was made for a model that runs in no context of the user. Calls of the model make it current.
        """
        self.parts_kept: list[object] = []
        """The parts of the state that enclosing blocks will restore: see state.py."""
        self.settings: dict[str, tuple[Any, ...]] = {}
        """The host's settings that each kind of work has here, once it was asked for: see settings.py."""
        self.gl = GlApi(platform.find)
        self.objects = OwnedObjects(self.gl, self.parts_kept)
        self._mark: int | None = None
        """A GL object in another library's context. It exists as long as that context does."""
        self._label, self._label_found = b"", ctypes.create_string_buffer(_LABEL_BYTES + 1)
        """The object's label, which is random: another context may have an object of its number."""
        text = self._string(GL.VERSION)
        self.is_es = "OpenGL ES" in text
        self.version = _version(text)
        self.gl.version = text
        self.vendor, self.renderer = self._string(GL.VENDOR), self._string(GL.RENDERER)
        self.software = any(name in self.renderer.lower() for name in _SOFTWARE)
        if self.version < ((3, 1) if self.is_es else (4, 3)):
            raise DeviceError(
                f"the {platform.name} context is '{text}' on '{self.renderer}'; framebind needs OpenGL 4.3 or "
                "OpenGL ES 3.1. Ask for a core profile of that version where it is made, or update the graphics driver"
            )
        if self.is_foreign:
            self._make_mark()

    @functools.cached_property
    def extensions(self) -> frozenset[str]:
        """The names of the driver's extensions."""
        gl = self.gl
        names = (gl.glGetStringi(GL.EXTENSIONS, i) for i in range(gl.integer(GL.NUM_EXTENSIONS)))
        return frozenset(name.decode(errors="replace") for name in names)

    def _make_mark(self) -> None:
        self._mark = self.gl.glCreateProgram()  # sync objects exist in all contexts of NVIDIA's driver
        if not self.is_es or self.version >= (3, 2):
            self._label = secrets.token_hex(_LABEL_BYTES // 2).encode()
            self.gl.glObjectLabel(GL.PROGRAM, self._mark, _LABEL_BYTES, self._label)

    @staticmethod
    def headless(es: bool = False, device_index: int | None = None) -> GlContext:
        """Make a context without a window, current on the calling thread. Linux only (EGL).

        Parameters
        ----------
        es : bool
            Make it OpenGL ES instead of desktop OpenGL.
        device_index : int, optional
            Number of the EGL device (GPU). By default the first one that works is taken.

        Raises
        ------
        DeviceError
            If there is no such context. The message says what was tried and which packages to install.

        Examples
        --------
        >>> with fb.GlContext.headless(es=True) as context:
        ...     context.is_es, context.version >= (3, 1)
        (True, True)
        """
        context = GlContext.owned(lambda: egl.create(es, device_index))
        assert context._owner is not None
        # Dropped without close(): EGL may destroy a context from any thread.
        weakref.finalize(context, context._owner.destroy).atexit = False
        return context

    @staticmethod
    def owned(make: Callable[[], ContextOwner]) -> GlContext:
        """Make a context with ``make``, current on the calling thread; for the library's own use."""
        check_process()
        previous = _ours_that_is_current()
        try:
            if previous is not None:
                previous.release()
            owner = make()
            try:
                owner.make_current()
                found = current_platform()
                if found is None:
                    raise DeviceError(
                        "the new GL context did not become current: the driver is not installed correctly"
                    )
                context = GlContext(*found, owner)
                context._previous = previous
                _contexts[found[0].name, found[1]] = context
                _thread.context = context
            except BaseException:  # also that of a signal handler
                owner.release()
                owner.destroy()
                _thread.context = None
                raise
        except BaseException:
            if previous is not None:
                previous.make_current()
            raise
        return context

    @staticmethod
    def current() -> GlContext:
        """The context that is current on the calling thread: one of ours, or somebody else's, which is borrowed.

        Raises
        ------
        DeviceError
            If there is none, or if it is too old.
        """
        check_process()
        found = current_platform()
        if found is None:
            raise DeviceError(
                "no GL context is current on this thread: open a fb.Window, use 'with fb.GlContext.headless():', "
                "or make your own context current first"
            )
        platform, handle = found
        context = _contexts.get((platform.name, handle))
        if context is not None and not context.exists():
            context.closed, context = True, None
        if context is None:
            context = GlContext(platform, handle, None)
            _contexts[platform.name, handle] = context
        if context.is_foreign:
            _thread.found = context
        context._thread_id = threading.get_ident()
        return context

    def exists(self) -> bool:
        """Whether the context that is current under this handle is still this one. Call it while that one is current.

        A platform may give the handle of a destroyed context to a new one, and objects in it may have the same names.
        """
        if self._mark is None:
            return True
        if not self.gl.glIsProgram(self._mark):
            return False
        if self._label:
            found = self._label_found
            self.gl.glGetObjectLabel(GL.PROGRAM, self._mark, len(found), None, found)
        return self._label_found.value == self._label

    def check_exists(self) -> None:
        """Raise DeviceError if its maker destroyed it, and another context has its handle."""
        if not self.exists():
            self.closed = True
            raise DeviceError(
                f"{self} was destroyed by the library that made it: apply a new delegate in the context that is "
                "current now, and make the objects there anew"
            )

    @staticmethod
    def is_current() -> bool:
        """Whether any GL context, ours or somebody else's, is current on the calling thread."""
        return current_platform() is not None

    def check(self) -> None:
        """Raise DeviceError unless this context is alive and current on the calling thread. Costs one driver call."""
        if self._find_current() == self._handle and threading.get_ident() == self._thread_id and not self.closed:
            return
        if self.closed:
            self._raise_closed()
        if threading.get_ident() != self._thread_id:
            raise DeviceError(
                f"{self} is current on thread {self._thread_id}, and this call came from thread "
                f"{threading.get_ident()}: call from that thread, or release() it there and make_current() here"
            )
        raise DeviceError(
            f"{self} is not current on this thread (another context is, or none): call its make_current()"
        )

    def make_current(self) -> None:
        """Make it current on the calling thread.

        Raises
        ------
        DeviceError
            If it is closed, current on another thread, or somebody else's: then only its maker can do it.
        """
        if self.closed:
            self.check()
        if self._find_current() != self._handle:
            if self._owner is None:
                raise DeviceError(f"{self} is foreign: make it current with the library that made it")
            previous = _ours_that_is_current()
            if previous is not None:
                previous.release()
            self._owner.make_current()
        self._thread_id = threading.get_ident()
        _thread.context = self

    @contextlib.contextmanager
    def made_current(self) -> Iterator[None]:
        """Within the block it is current on the calling thread. Afterwards the previous context is current again,
        whoever made it.

        Raises DeviceError if it is closed, current on another thread, or somebody else's.
        """
        if self.closed or self._owner is None or self._find_current() == self._handle:
            self.check()
            yield
            return
        owner, found, before = self._owner, current_platform(), _thread.context
        restore = found[0].hold() if found is not None and found[0].hold is not None else None

        def leave() -> None:
            if not self.closed:
                owner.release()
            _thread.context = before
            if restore is not None:
                restore()

        has_left = False
        try:
            try:
                owner.make_current()
                self._thread_id, _thread.context = threading.get_ident(), self
                yield
            finally:
                leave()
                has_left = True
        finally:
            if not has_left:
                leave()  # once more: an exception, as of a signal handler, came in the midst of it

    def release(self) -> None:
        """Make it not current on the calling thread, so that another thread may make it current."""
        self.check()
        if self._owner is not None:
            self._owner.release()
        if _thread.context is self:
            _thread.context = None

    def finish(self) -> None:
        """Wait until the GPU has done everything submitted in this context."""
        self.check()
        self.gl.glFinish()

    def _close(self) -> None:
        if self._find_current() == self._handle and threading.get_ident() == self._thread_id:
            self.objects.delete_all()
            if self._mark is not None:
                self.gl.glDeleteProgram(self._mark)
            if self._owner is not None:
                self._owner.release()
        self.closed = True
        _contexts.pop((self._platform.name, self._handle), None)
        if self._owner is not None:
            self._owner.destroy()
        if _thread.found is self:
            _thread.found = None
        if _thread.context is self:
            _thread.context = None
            if self._owner is not None and self._previous is not None and not self._previous.closed:
                self._previous.make_current()
        self._previous = None

    def __str__(self) -> str:
        return f"the GL context '{self.gl.version}' ({self.renderer})"

    def _described(self) -> str:
        made_by = ", somebody else's" if self.is_foreign else ""
        return f"{self.gl.version}, {self.renderer}{made_by}"

    def _string(self, name: int) -> str:
        text = self.gl.glGetString(name)
        if text is None:
            raise DeviceError(
                f"the {self._platform.name} context does not answer glGetString: it is lost or not usable"
            )
        return text.decode(errors="replace")


def _ours_that_is_current() -> GlContext | None:
    """The context that this thread made current through us, if it is current still and not closed.

    A context of EGL cannot replace one of GLX, nor the reverse: the current one must be released first.
    """
    context = _thread.context
    if context is None or context.closed or context._find_current() != context._handle:
        return None
    return context


def _version(text: str) -> tuple[int, int]:
    """Version in a text such as "4.5 (Core Profile) Mesa ..." or "OpenGL ES 3.2 Mesa ..."; (0, 0) without one."""
    words = text.removeprefix("OpenGL ES").removeprefix("-CM").split()
    major, _, minor = words[0].partition(".") if words else ("0", "", "0")
    return int(major), int(minor.split(".")[0])
