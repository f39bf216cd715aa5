"""Windows, on the display that is there or on an Xvfb of this file's own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import glfw
import numpy as np
import pytest

import framebind as fb
from framebind.interop.gl.draw.window import Window
from framebind.interop.gl.khronos import GL


def shown(window: Window) -> Any:
    """The window's pixels, row 0 the top, as ``show`` has drawn them last."""
    gl, (width, height) = window.context.gl, window.framebuffer_size
    pixels = np.empty((height, width, 4), np.uint8)
    gl.glBindFramebuffer(0x8D40, 0)
    gl.glBindBuffer(GL.PIXEL_PACK_BUFFER, 0)
    gl.glReadPixels(0, 0, width, height, 0x1908, 0x1401, pixels.ctypes.data)
    return pixels[::-1, :, :3]


def picture(height: int, width: int) -> Any:
    """Four quarters: red, green above blue, white."""
    image = np.zeros((height, width, 3), np.uint8)
    image[: height // 2, : width // 2] = (255, 0, 0)
    image[: height // 2, width // 2 :] = (0, 255, 0)
    image[height // 2 :, : width // 2] = (0, 0, 255)
    image[height // 2 :, width // 2 :] = 255
    return image


def test_a_window_shows_a_texture_letterboxed_with_row_0_on_top(display: None) -> None:
    with Window(120, 60, "test", vsync=False) as window:
        assert fb.GlContext.current() is window.context
        width, height = window.framebuffer_size
        texture = fb.GlTexture.from_array(picture(40, 40))
        window._presenter.draw(window, texture)
        pixels = shown(window)
        left = (width - height) // 2
        assert not pixels[:, : left - 1].any() and not pixels[:, left + height + 1 :].any(), "black beside the picture"
        quarter = height // 4
        assert pixels[quarter, left + quarter].tolist() == [255, 0, 0]
        assert pixels[quarter, left + 3 * quarter].tolist() == [0, 255, 0]
        assert pixels[3 * quarter, left + quarter].tolist() == [0, 0, 255]
        assert pixels[3 * quarter, left + 3 * quarter].tolist() == [255, 255, 255]
        assert window.context.gl.clear_errors() == []


def test_one_channel_is_shown_in_gray(display: None) -> None:
    with Window(40, 40, "test", vsync=False) as window:
        window._presenter.draw(window, fb.GlTexture.from_array(np.full((4, 4), 100, np.uint8)))
        assert np.all(shown(window) == 100)


def test_below_a_texture_room_is_left_for_the_overlay(display: None) -> None:
    with Window(40, 50, "test", vsync=False) as window:
        window._presenter.draw(window, fb.GlTexture.from_array(np.full((4, 4), 100, np.uint8)), below=10)
        assert np.all(shown(window)[:40] == 100) and not shown(window)[40:].any()


def test_a_window_is_not_larger_than_the_screen(display: None) -> None:
    with Window(20_000, 300, "test", vsync=False) as window:
        width, height = window.framebuffer_size
        assert 300 <= width < 20_000 and height == 300


def test_showing_many_frames_makes_nothing_new_and_moves_nothing(display: None) -> None:
    with Window(64, 48, "test", vsync=False) as window:
        texture = fb.GlTexture.from_array(picture(48, 64))
        window.show(texture)
        live = dict(window.context.objects.live)
        fb.transfers.reset()
        for _ in range(20):
            window.show(texture)
        assert dict(window.context.objects.live) == live and fb.transfers.calls == 0
        assert not window.should_close


def test_keys_are_named_in_the_order_pressed(display: None) -> None:
    with Window(64, 48, "test") as window:
        for key in (glfw.KEY_ESCAPE, glfw.KEY_SPACE, glfw.KEY_LEFT, glfw.KEY_F1):
            window._on_key(None, key, 0, glfw.PRESS, 0)
            window._on_key(None, key, 0, glfw.RELEASE, 0)
        assert window.keys() == ["escape", "space", "left", "f1"]
        assert window.keys() == []


def test_frames_for_a_window_end_when_it_is_closed(display: None) -> None:
    with Window(64, 48, "test", vsync=False) as window, fb.open_source("synthetic", size=(64, 48)) as source:
        for number, frame in enumerate(source.frames(window)):
            assert frame.texture.context is window.context
            window.show(frame.texture)
            if number == 3:
                glfw.set_window_should_close(window._handle, True)
        assert number == 3


def test_closing_gives_the_context_before_back(display: None) -> None:
    with fb.GlContext.headless() as headless:
        with Window(64, 48, "test") as window:
            with pytest.raises(fb.DeviceError, match="not current"):
                headless.check()
            texture = fb.GlTexture(4, 4, "rgba8")
            glfw.set_window_should_close(window._handle, True)
            assert window.should_close
        assert fb.GlContext.current() is headless
        assert texture.released and window.should_close and window.keys() == []
        uses = (lambda: window.show(texture), lambda: window.framebuffer_size, lambda: window.scale)
        for use in (*uses, window.toggle_full_screen):
            with pytest.raises(fb.DeviceError, match="is closed"):
                use()
        window.close()


def test_where_there_is_no_display_the_message_is_glfws_own_and_says_what_to_do(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR")}
    code = "import framebind as fb\ntry: fb.Window(64, 48)\nexcept fb.DeviceError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert re.fullmatch(r"GLFW cannot open a display: .* use GlContext\.headless\(\), .* \([^()']+\)\n", done.stdout), (
        done.stdout
    )


def test_two_windows_take_turns(display: None) -> None:
    with Window(64, 48, "first", vsync=False) as first:
        texture = fb.GlTexture.from_array(picture(48, 64))
        with Window(32, 24, "second", vsync=False) as second:
            with pytest.raises(fb.DeviceError, match="not current"):
                first.show(texture)
            second.show(fb.GlTexture.from_array(picture(24, 32)))
        first.show(texture)


def test_without_a_display_the_way_out_is_named() -> None:
    code = (
        "import framebind as fb\nfrom framebind.interop.gl.draw.window import Window\n"
        "try: Window(10, 10)\nexcept fb.DeviceError as error: print(error)"
    )
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "headless()" in done.stdout and "--" not in done.stdout, "a library's user has no command line"


def test_an_impossible_size_is_refused(display: None) -> None:
    with pytest.raises(fb.DeviceError, match="0 x 48 is impossible"):
        Window(0, 48)
