"""The bytes of outputs that demos read per frame, with their real models: those that README and docs/demos.md say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import framebind as fb
from framebind.__main__ import app

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize(
    ("demo", "model", "said"),
    [
        ("detection", "face_detection_front", "60,928 bytes of `detection`"),
        ("face", "face_landmarker.task", "5,948 of `face`"),
    ],
    ids=["detection", "face"],
)
def test_a_demo_reads_as_many_bytes_as_the_pages_say(
    demo: str, model: str, said: str, model_path: Callable[[str], Path], context: fb.GlContext
) -> None:
    words = ["demo", demo, "--model", str(model_path(model)), "--headless", "--frames", "2", "--size", "160x160"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    nbytes = said.partition(" ")[0] or "256"
    assert f" {nbytes} bytes of results, nothing else" in " ".join(done.output.split())
    readme, page = (" ".join((ROOT / name).read_text("utf-8").split()) for name in ("README.md", "docs/demos.md"))
    assert said in readme and nbytes in page
