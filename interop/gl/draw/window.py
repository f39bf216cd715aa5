"""A window that shows textures, with a GL context of its own (GLFW)."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any, Protocol, cast

from ...errors import DeviceError
from ...uncopied import Uncopied
from ..context import GlContext
from ..texture import GlTexture
from .draw import Presenter


@contextlib.contextmanager
def _open_standard_streams() -> Iterator[None]:
    """Lends the null device to those of the descriptors 0 to 2 that are closed.

    The package glfw finds its library by a process that calls input(), which fails if standard error is closed.
    """
    lent: list[int] = []
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
        lent.append(descriptor)
    os.close(descriptor)
    try:
        yield
    finally:
        for descriptor in lent:
            os.close(descriptor)


with _open_standard_streams():
    import glfw

_KEY_NAMES = {
    getattr(glfw, name): name.removeprefix("KEY_").lower()
    for name in dir(glfw)
    if name.startswith("KEY_") and name not in ("KEY_LAST", "KEY_UNKNOWN")
}


class Drawable(Protocol):
    """An object that draws itself over a window, such as Overlay."""

    def draw(self, target: Window) -> None: ...


class Window(Uncopied):
    """A window with a GL context, which is current on the thread that made it.

    The context is desktop OpenGL 4.3 core or newer, else OpenGL ES 3.1 or newer. Use the window as a context manager,
    or call ``close()``.

    Parameters
    ----------
    width, height : int
        Size in screen units. A unit is one pixel, or several on a high-density display. A window that is larger than
        the screen is made as large as the screen has room for.
    title : str
        Title of the window.
    vsync : bool
        Whether ``show`` waits for the display.
    visible : bool
        Whether the window is on the screen.

    Attributes
    ----------
    context : GlContext
        The window's context.

    Raises
    ------
    DeviceError
        If there is no display, or no such context.

    Examples
    --------
    >>> with fb.Window(64, 48, vsync=False) as window:
    ...     window.show(fb.GlTexture.from_array(np.zeros((48, 64, 3), np.uint8)))
    ...     window.should_close, window.keys()
    (False, [])
    """

    def __init__(
        self, width: int, height: int, title: str = "framebind", vsync: bool = True, visible: bool = True
    ) -> None:
        if width <= 0 or height <= 0:
            raise DeviceError(f"a window of {width} x {height} is impossible: both are at least 1")
        with _glfw_errors(
            "GLFW cannot open a display: if there is none, use GlContext.headless(), which needs no window"
        ):
            if not glfw.init():
                raise DeviceError("glfw.init() failed")
        self._keys: list[str] = []
        self.context = GlContext.owned(lambda: _GlfwOwner(width, height, title, visible))
        assert isinstance(self.context._owner, _GlfwOwner)  # pyright: ignore[reportPrivateUsage]
        self._handle = self.context._owner.handle  # pyright: ignore[reportPrivateUsage]
        with _glfw_errors("setting up the window failed"):
            glfw.swap_interval(1 if vsync else 0)
            glfw.set_key_callback(self._handle, self._on_key)
            glfw.set_char_callback(self._handle, self._on_character)
        self._presenter = Presenter()
        self._placed: tuple[int, int, int, int] | None = None
        self._title = title

    def __repr__(self) -> str:
        state = "closed" if self.context.closed else "{}x{} pixels".format(*self.framebuffer_size)
        return f"<Window: '{self._title}', {state}>"

    def show(self, texture: GlTexture, overlay: Drawable | None = None, *, below: int = 0) -> None:
        """Show a texture as large as fits, with black around it, and process the window's events.

        Parameters
        ----------
        texture : GlTexture
            The picture, of the window's context.
        overlay : Overlay, optional
            Drawn over it, in pixels of the framebuffer.
        below : int, optional
            Height in pixels that is left free below the texture, for the overlay.

        Raises
        ------
        BindingError
            If the texture is of another context.
        DeviceError
            On another thread than the window's.
        """
        self.context.check()
        self._presenter.draw(self, texture, below)
        if overlay is not None:
            overlay.draw(self)
        glfw.swap_buffers(self._handle)
        glfw.poll_events()

    @property
    def should_close(self) -> bool:
        """Whether a person closed the window, or ``close()`` was called."""
        return self.context.closed or bool(glfw.window_should_close(self._handle))

    @property
    def framebuffer_size(self) -> tuple[int, int]:
        """Width and height in pixels. On a high-density display they are larger than the size in screen units."""
        return glfw.get_framebuffer_size(self._open_handle())

    @property
    def scale(self) -> float:
        """Pixels per screen unit: 2.0 on most high-density displays."""
        return glfw.get_window_content_scale(self._open_handle())[0]

    def _open_handle(self) -> Any:
        """GLFW's window. Raises DeviceError if it is closed: GLFW and X11 end the process then."""
        if self.context.closed:
            self.context.check()
        return self._handle

    def toggle_full_screen(self) -> None:
        """Fill the primary screen, or go back to the position and size before."""
        self._open_handle()
        with _glfw_errors("changing to or from full screen failed"):
            if self._placed is not None:
                glfw.set_window_monitor(self._handle, cast("Any", None), *self._placed, glfw.DONT_CARE)
                self._placed = None
                return
            monitor = glfw.get_primary_monitor()
            if not monitor:
                raise DeviceError("there is no screen to fill")
            mode = glfw.get_video_mode(monitor)
            self._placed = (*glfw.get_window_pos(self._handle), *glfw.get_window_size(self._handle))
            glfw.set_window_monitor(self._handle, monitor, 0, 0, *mode.size, mode.refresh_rate)

    def keys(self) -> list[str]:
        """Names of the keys pressed since the last call, in order: "a", "?", "escape", "space", "left", "f1" ..."""
        if not self.context.closed:
            glfw.poll_events()
        pressed, self._keys = self._keys, []
        return pressed

    def close(self) -> None:
        """Close the window and its context, with everything made in it. May be called more than once."""
        self.context.close()

    def __enter__(self) -> Window:
        self.context.make_current()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _on_key(self, _window: Any, key: int, scancode: int, action: int, _modifiers: int) -> None:
        if action == glfw.PRESS:
            name = glfw.get_key_name(key, scancode) or _KEY_NAMES.get(key)
            if name:
                self._keys.append(name)

    def _on_character(self, _window: Any, character: int) -> None:
        # Its key differs between keyboards, so it comes as a character and not as a key.
        if chr(character) == "?":
            self._keys.append("?")


class _GlfwOwner:
    """The GLFW window, as the owner of its context."""

    def __init__(self, width: int, height: int, title: str, visible: bool) -> None:
        tried: list[str] = []
        for hints in _HINTS:
            glfw.default_window_hints()
            glfw.window_hint(glfw.VISIBLE, int(visible))
            glfw.window_hint(glfw.SCALE_TO_MONITOR, glfw.TRUE)  # X11 and Windows count pixels, of any density
            for hint, value in hints.items():
                glfw.window_hint(hint, value)
            try:
                with _glfw_errors("opening a window with a GL context failed"):
                    self.handle: Any = glfw.create_window(*_within_screen(width, height), title, None, None)
            except DeviceError as error:
                tried.append(str(error))
                continue
            if self.handle:
                return
        raise DeviceError(
            f"no window with OpenGL 4.3 or OpenGL ES 3.1 can be opened ({'; '.join(tried)}): update the graphics "
            "driver, or use GlContext.headless(), which needs no window"
        )

    def make_current(self) -> None:
        with _glfw_errors("making the window's GL context current failed"):
            glfw.make_context_current(self.handle)

    def release(self) -> None:
        glfw.make_context_current(cast("Any", None))  # GLFW takes None, and its stub does not say so

    def destroy(self) -> None:
        handle, self.handle = self.handle, None
        if handle:
            glfw.destroy_window(handle)


def _within_screen(width: int, height: int) -> tuple[int, int]:
    """The size of a window in screen units, at most that of the primary screen without its panels."""
    monitor = glfw.get_primary_monitor()
    if not monitor:
        return width, height
    _, _, widest, highest = glfw.get_monitor_workarea(monitor)
    # X11 and Windows count pixels, and SCALE_TO_MONITOR multiplies the size; macOS counts screen units.
    scale = 1.0 if sys.platform == "darwin" else glfw.get_monitor_content_scale(monitor)[0]
    return min(width, int(widest / scale) or width), min(height, int(highest / scale) or height)


# Some drivers give exactly the version asked for, so the newest comes first.
_DESKTOP_HINTS = {
    glfw.CLIENT_API: glfw.OPENGL_API,
    glfw.CONTEXT_VERSION_MAJOR: 4,
    glfw.OPENGL_PROFILE: glfw.OPENGL_CORE_PROFILE,
    glfw.OPENGL_FORWARD_COMPAT: 1,
}
_ES_HINTS = {
    glfw.CLIENT_API: glfw.OPENGL_ES_API,
    glfw.CONTEXT_CREATION_API: glfw.EGL_CONTEXT_API,
    glfw.CONTEXT_VERSION_MAJOR: 3,
    glfw.CONTEXT_VERSION_MINOR: 1,
}
_HINTS = (*({**_DESKTOP_HINTS, glfw.CONTEXT_VERSION_MINOR: minor} for minor in (6, 5, 3)), _ES_HINTS)


@contextlib.contextmanager
def _glfw_errors(what: str) -> Iterator[None]:
    """Raise DeviceError if GLFW reports an error within the block, whichever way its reporting is set up."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", glfw.GLFWError)
        try:
            yield
        except glfw.GLFWError as error:
            raise DeviceError(f"{what} ({_text(error)})") from None
        except DeviceError:
            if not any(isinstance(w.message, glfw.GLFWError) for w in caught):
                raise
    messages = [_text(w.message) for w in caught if isinstance(w.message, glfw.GLFWError)]
    if messages:
        raise DeviceError(f"{what} ({'; '.join(messages)})")


def _text(error: glfw.GLFWError) -> str:
    """GLFW's message, which its Python side shows as number and bytes: "(65550) b'...'"."""
    return re.sub(r"^\(\d+\) b(['\"])(.*)\1$", r"\2", str(error))
