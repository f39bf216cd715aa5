"""The video that ``make demo`` writes is one that browsers play; Chromium plays it, if it is here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import av
import pytest

from support.browser import Browser

SIZE, FRAMES = (128, 96), 8


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "demo.mp4"
    words = f"demo style_transfer --frames {FRAMES} --size {SIZE[0]}x{SIZE[1]} --output".split()
    subprocess.run([sys.executable, "-m", "framebind", *words, str(path)], check=True, timeout=300)
    return path


def test_its_codec_is_one_that_browsers_have(video: Path) -> None:
    with av.open(str(video)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.format.name) == ("h264", "yuv420p")
        assert (stream.width, stream.height, stream.frames) == (*SIZE, FRAMES)


def test_chromium_plays_it(video: Path, tmp_path: Path, tool: Callable[[str], str]) -> None:
    with Browser(tool("chromium"), tmp_path) as browser:
        browser.open(video.as_uri(), (390, 844))

        def of_video(name: str) -> object:
            return browser.value(f"document.querySelector('video')?.{name}")

        browser.until(lambda: of_video("ended"), "the end of the video")
        assert of_video("error") is None
        assert (of_video("videoWidth"), of_video("videoHeight")) == SIZE
        assert of_video("duration") == pytest.approx(FRAMES / 30, abs=0.05)
