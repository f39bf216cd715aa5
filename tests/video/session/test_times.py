"""The time of a video: stages and waits of each thread and of the GPU are all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import framebind as fb
from framebind.video.session.session import Session
from framebind.video.work import Work
from support.demo_models import color_classifier
from support.video.clips import write_clip


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_every_second_of_a_drawn_video_is_in_each_track(context: fb.GlContext, tmp_path: Path) -> None:
    context.check()
    (model := tmp_path / "model.tflite").write_bytes(color_classifier())
    with Session(Work("classify", str(model)), road="textures") as session:
        result = session.process(write_clip(tmp_path / "a.mp4", frames=6), tmp_path / "out")
    times = result["times"]
    assert list(times) == ["decoder", "thread", "GPU", "encoder"]
    wholes = {track: sum(each for name, each in parts.items() if name != "cpu") for track, parts in times.items()}
    assert wholes["thread"] <= result["seconds"] + 0.01 and times["thread"]["cpu"] > 0
    for track, whole in wholes.items():
        assert track == "encoder" or whole == pytest.approx(wholes["thread"], rel=0.02, abs=0.02), track
    assert {"upload", "model", "draw", "read back"} <= {name for name, each in times["thread"].items() if each}
    assert times["encoder"]["encode"] > 0 and times["decoder"]["decode"] > 0
