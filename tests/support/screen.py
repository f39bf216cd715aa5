"""A screen without hardware (Xvfb): what is on it, real key presses, and the button that closes a window."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import glfw
import numpy as np
import numpy.typing as npt
import pytest

Picture = npt.NDArray[np.uint8]
WAIT_SECONDS = 90.0
"""Time that a window may take to show what a test expects: a software GPU that other programs share is slow."""


@pytest.fixture(scope="module")
def display(tool: Callable[[str], str]) -> Iterator[None]:
    """A display to open windows on. Starts Xvfb on a free number if there is none."""
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform != "linux":
        yield
        return
    tool("xvfb-run")  # skips, or fails if it is promised
    reading, writing = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writing), "-screen", "0", "800x600x24", "-nolisten", "tcp"],
        pass_fds=(writing,),
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    with os.fdopen(reading) as answer:
        os.environ["DISPLAY"] = ":" + answer.readline().strip()
    try:
        yield
    finally:
        glfw.terminate()
        del os.environ["DISPLAY"]
        server.terminate()
        server.wait(10)


class _ClientMessage(ctypes.Structure):
    """Xlib's XClientMessageEvent, as large as an XEvent."""

    _fields_ = (
        ("type", ctypes.c_int), ("serial", ctypes.c_ulong), ("send_event", ctypes.c_int), ("display", ctypes.c_void_p),
        ("window", ctypes.c_ulong), ("message_type", ctypes.c_ulong), ("format", ctypes.c_int),
        ("data", ctypes.c_long * 5), ("pad", ctypes.c_long * 24),
    )  # fmt: skip


def load_x11() -> Any:
    x11: Any = ctypes.CDLL("libX11.so.6")
    x11.XOpenDisplay.restype = ctypes.c_void_p
    return x11


class Screen:
    """An Xvfb of 800 x 600 pixels, with the density that desktops write into Xft.dpi. Use it as a context manager."""

    def __init__(self, folder: Path, dots_per_inch: int | None = None) -> None:
        reading, writing = os.pipe()
        self._file = folder / "Xvfb_screen0"
        options = ("-screen", "0", "800x600x24", "-noreset", "-nolisten", "tcp", "-fbdir", folder)
        self._server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(writing), *options], pass_fds=(writing,), stderr=subprocess.DEVNULL
        )
        os.close(writing)
        with os.fdopen(reading) as answer:
            self.display = ":" + answer.readline().strip()
        if dots_per_inch is not None:
            self._set_density(dots_per_inch)
        self.environment = {k: v for k, v in os.environ.items() if k not in ("EGL_PLATFORM", "WAYLAND_DISPLAY")}
        self.environment["DISPLAY"] = self.display

    def _set_density(self, dots_per_inch: int) -> None:
        """Do what ``xrdb`` does: write the X resource that GLFW and other toolkits read when they start."""
        x11, text = load_x11(), f"Xft.dpi:\t{dots_per_inch}\n".encode()
        display = ctypes.c_void_p(x11.XOpenDisplay(self.display.encode()))
        x11.XDefaultRootWindow.restype = ctypes.c_ulong
        root = ctypes.c_ulong(x11.XDefaultRootWindow(display))
        resource_manager, string = ctypes.c_ulong(23), ctypes.c_ulong(31)  # atoms of Xatom.h
        x11.XChangeProperty(display, root, resource_manager, string, 8, 0, text, len(text))
        x11.XCloseDisplay(display)

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.terminate()
        self._server.wait(10)

    def picture(self) -> Picture:
        """The picture on the screen: RGB, (600, 800, 3). It may be torn, if something is being drawn."""
        data = self._file.read_bytes()
        header = struct.unpack(">25I", data[:100])  # the xwd format, version 7
        size, width, height, line, colours = header[0], header[4], header[5], header[12], header[19]
        pixels = np.frombuffer(data, np.uint8, line * height, size + colours * 12).reshape(height, line // 4, 4)
        return pixels[:, :width, 2::-1]

    def run(self, *command: object, cwd: Path) -> Program:
        """Start a program that opens a window."""
        return Program(self, [str(part) for part in command], cwd)


class Program:
    """A program with a window on a screen. ``wait`` ends it; ``stderr`` is what it printed."""

    def __init__(self, screen: Screen, command: list[str], cwd: Path) -> None:
        self.screen, self._window = screen, ""
        self._process = subprocess.Popen(
            command, cwd=cwd, env=screen.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def __enter__(self) -> Program:
        self._window = self.until(lambda: self._xdotool("search", "--onlyvisible", "--name", "framebind"), "window")
        self._window = self._window.split()[-1]
        self._xdotool("windowfocus", "--sync", self._window)
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.wait(10)

    def press(self, *keys: str) -> None:
        """Press and release keys, by their X names, on the screen's keyboard."""
        self._xdotool("key", *keys)

    def resize(self, width: int, height: int) -> None:
        self._xdotool("windowsize", "--sync", self._window, str(width), str(height))

    def click_close(self) -> None:
        """Do what a window manager does when the close button is clicked: send WM_DELETE_WINDOW."""
        x11 = load_x11()
        x11.XInternAtom.restype = ctypes.c_ulong
        display = ctypes.c_void_p(x11.XOpenDisplay(self.screen.display.encode()))
        message = _ClientMessage(type=33, window=int(self._window), format=32)
        message.message_type = x11.XInternAtom(display, b"WM_PROTOCOLS", 0)
        message.data[0] = x11.XInternAtom(display, b"WM_DELETE_WINDOW", 0)
        x11.XSendEvent(display, ctypes.c_ulong(int(self._window)), 0, ctypes.c_long(0), ctypes.byref(message))
        x11.XCloseDisplay(display)

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait until ``condition`` is true, and give its value; an AssertionError if it does not come."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not (value := condition()):
            assert self._process.poll() is None, f"no {what}, but the end: {self._process.communicate()[0]}"
            assert time.monotonic() < deadline, f"no {what}"
            time.sleep(0.05)
        return value

    def wait(self) -> tuple[int, str]:
        """Exit code and output."""
        output = self._process.communicate(timeout=WAIT_SECONDS)[0]
        return self._process.returncode, " ".join(output.split())

    def _xdotool(self, *arguments: str) -> str:
        done = subprocess.run(["xdotool", *arguments], env=self.screen.environment, capture_output=True, text=True)
        return done.stdout.strip()
