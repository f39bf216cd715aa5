"""The way of one clip through ``process`` stays short: a reader meets few files."""

from __future__ import annotations

import inspect
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from typer.testing import CliRunner

import framebind as fb
from framebind.__main__ import app
from support.demo_models import color_classifier
from support.video.clips import write_clip

ROOT = Path(fb.__file__).parent.resolve()
ROOMS = ("video", "tools", "interop/frames")
MOST = 60
"""Most files of ROOMS in which a function is entered, on any thread."""


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("save", ["video", "jsonl"])
def test_one_clip_enters_few_files(save: str, tmp_path: Path) -> None:
    (model := tmp_path / "model.tflite").write_bytes(color_classifier())
    clip, entered = write_clip(tmp_path / "clip.mp4", frames=4), set[str]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # no module's or class's body is
            entered.add(frame.f_code.co_filename)

    words = ["process", str(clip), "--output", str(tmp_path / "out"), "--task", "classify", "--model", str(model)]
    CliRunner().invoke(app, [*words, "--save", save])  # what is loaded once per process is no part of a clip's way
    words[1] = str(clip.rename(tmp_path / "next.mp4"))
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        done = CliRunner().invoke(app, [*words, "--save", save], catch_exceptions=False)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert done.exit_code == 0, done.output
    files = {Path(each).resolve() for each in entered}
    found = sorted(
        name
        for path in files
        if path.is_relative_to(ROOT) and (name := path.relative_to(ROOT).as_posix()).startswith(ROOMS)
    )
    assert "video/session/session.py" in found and "interop/frames/read/source.py" in found
    assert len(found) <= MOST, "\n".join(found)
