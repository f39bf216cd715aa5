"""A camera's page in Chromium: it shows the picture by WebRTC, in its colours, and decodes all frames."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
import pytest

import framebind as fb
from support.browser import Browser

RATE = 30.0
COLOUR = (200, 60, 30)
STATE = "document.getElementById('state')?.textContent ?? 'connecting'"
DECODED = "document.getElementById('video').getVideoPlaybackQuality().totalVideoFrames"


class Shown(threading.Thread):
    """Shows a picture at RATE to whoever watches, and counts."""

    def __init__(self, camera: fb.video.VideoWriter, size: tuple[int, int]) -> None:
        super().__init__(daemon=True)
        self.count, self.is_over = 0, False
        self._camera, self._picture = camera, np.full((size[1], size[0], 4), (*COLOUR, 255), np.uint8)

    def run(self) -> None:
        due = time.monotonic()
        while not self.is_over:
            self.count += self._camera.is_watched
            self._camera.put(self._picture)
            due = max(due + 1 / RATE, time.monotonic())
            time.sleep(max(due - time.monotonic(), 0))


@contextmanager
def shown(size: tuple[int, int]) -> Iterator[tuple[str, Shown]]:
    """The address of a camera's page, and the thread that shows pictures there."""
    pytest.importorskip("aiortc")
    with fb.video.VideoWriter("http://:0", size, RATE) as camera:
        thread = Shown(camera, size)
        thread.start()
        try:
            yield camera.address, thread
        finally:
            thread.is_over = True
            thread.join()


@pytest.mark.parametrize(("size", "count"), [((96, 64), 60), ((1280, 720), 300)])
def test_it_shows_and_decodes_the_frames(
    tmp_path: Path, tool: Callable[[str], str], size: tuple[int, int], count: int
) -> None:
    with Browser(tool("chromium"), tmp_path) as browser, shown(size) as (address, thread):
        browser.open(address, (640, 480))
        browser.until(lambda: browser.value(STATE) != "connecting", "the camera")
        assert browser.value(STATE) == "WebRTC", "within three seconds, or the page would show MJPEG"
        put, decoded = thread.count, browser.value(DECODED)
        browser.until(lambda: thread.count >= put + count, "pictures")
        thread.is_over = True
        thread.join()
        wanted = (thread.count - put) * 290 // 300
        browser.until(lambda: browser.value(DECODED) - decoded >= wanted, f"{wanted} of {thread.count - put} frames")
        screen = cv2.imdecode(np.frombuffer(browser.picture(), np.uint8), cv2.IMREAD_COLOR)
        assert screen is not None
        assert np.abs(screen[240, 320, ::-1].astype(int) - COLOUR).max() < 8


def test_without_webrtc_it_shows_jpegs(tmp_path: Path, tool: Callable[[str], str]) -> None:
    with Browser(tool("chromium"), tmp_path) as browser, shown((96, 64)) as (address, _):
        browser.call("Page.enable")
        browser.call("Page.addScriptToEvaluateOnNewDocument", source="delete window.RTCPeerConnection")
        browser.open(address, (640, 480))
        browser.until(lambda: browser.value(STATE).startswith("MJPEG: RTCPeerConnection is not defined"), "MJPEG")
        browser.until(lambda: browser.value("document.getElementById('pictures').naturalWidth") == 96, "a picture")
