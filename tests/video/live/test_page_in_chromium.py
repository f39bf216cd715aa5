"""The page of ``watch`` in Chromium: on a phone, on a desktop, with lost streams, without its program, in a frame."""

from __future__ import annotations

import contextlib
import http.server
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from framebind.video.live.figures import Snapshot
from framebind.video.live.pictures import Pictures
from framebind.video.live.server import Page
from support.browser import Browser

ADDRESS = "rtsp://192.168.1.20:554/Streaming/Channels"
STATUS = "no packet came for 5 seconds: connecting again (attempt 3): Connection refused"
RED = 230, 20, 20
CUT = """[...document.querySelectorAll("*")].filter((each) => each.clientWidth && each.scrollWidth > each.clientWidth)
    .map((each) => `${each.tagName} ${each.className}`)"""
"""The elements whose contents have no room."""


def snapshot(name: str, state: str, status: str = "", since: float | None = None, recorded: bool = False) -> Snapshot:
    counts = (123_456, 1_234, 12)
    return Snapshot(
        name, state, status, (1920, 1080), "nvdec", 99_999, 1388.1, 1234.5, 2345.6, *counts, since, recorded
    )


@pytest.fixture
def browser(tmp_path: Path, tool: Callable[[str], str]) -> Iterator[Browser]:
    with Browser(tool("chromium"), tmp_path) as browser:
        yield browser


def red_pictures(count: int) -> list[Pictures]:
    pictures = [Pictures() for _ in range(count)]
    for each in pictures:
        each.put(np.full((36, 64, 4), (*RED, 255), np.uint8))
    return pictures


def red_pixels(browser: Browser) -> int:
    shown = cv2.imdecode(np.frombuffer(browser.picture(), np.uint8), cv2.IMREAD_COLOR)
    assert shown is not None
    return int((np.abs(shown[..., ::-1].astype(int) - RED).max(-1) < 24).sum())


@pytest.mark.parametrize("size", [(390, 844), (1280, 800)], ids=["phone", "desktop"])
def test_nothing_is_cut_and_a_lost_stream_is_dim(browser: Browser, size: tuple[int, int]) -> None:
    since = time.mktime((2026, 11, 26, 11, 7, 39, 0, 0, -1))
    streams = [
        snapshot(f"{ADDRESS}/101", "live", recorded=True), snapshot(f"{ADDRESS}/102", "waiting", STATUS, since),
        snapshot("clip.mp4", "ended", since=since), snapshot("rtsp://10.0.0.9/door", "opening", STATUS),
        snapshot("yard", "failed", STATUS, since),
    ]  # fmt: skip
    page = Page("127.0.0.1", 0, lambda: [each.as_dict() for each in streams], red_pictures(5))
    with contextlib.closing(page):
        browser.open(page.address, size)
        browser.until(lambda: browser.value("document.querySelectorAll('.lost').length") == 3, "streams")
        assert browser.value("document.documentElement.scrollWidth") == size[0] and not browser.value(CUT)
        texts = browser.value("[...document.querySelectorAll('.since')].map((each) => each.textContent)")
        assert texts == ["", "lost since 11:07:39", "ended at 11:07:39", "", "lost since 11:07:39"]
        filters = browser.value("[...document.querySelectorAll('img')].map((each) => getComputedStyle(each).filter)")
        assert ["brightness(0.35)" in each for each in filters] == [False, True, True, False, True]
        assert "recording" in browser.value("getComputedStyle(document.querySelector('.state'), '::before').content")
        browser.until(lambda: red_pixels(browser) > 10_000, "the picture of the live stream")
    browser.until(lambda: "has ended" in browser.value("document.getElementById('summary').textContent"), "the end")
    assert browser.value("document.querySelectorAll('.lost').length") == 5, "no picture is new any more"


def test_a_named_site_shows_it_in_a_frame(browser: Browser, tmp_path: Path) -> None:
    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f'<iframe src="{page.address}" style="width: 100%; height: 80vh"></iframe>'.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing of requests."""

    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=site.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{site.server_address[1]}"
    figures = [snapshot("door", "live").as_dict()]
    for embed in ([address], []):
        page = Page("127.0.0.1", 0, lambda: figures, red_pictures(1), embed=embed)
        with contextlib.closing(page):
            browser.open(address, (800, 600))
            if embed:
                browser.until(lambda: red_pixels(browser) > 10_000, "the page in its frame")
            else:
                browser.until(lambda: browser.value("document.readyState") == "complete", "its own page")
                assert not red_pixels(browser)
    site.shutdown()
    site.server_close()
    thread.join()
