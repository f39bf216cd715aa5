"""Recordings of the player last as long as they took, however slow the GPU is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest

import framebind as fb
from framebind.tools.player.recorder import Recorder

pytestmark = pytest.mark.parametrize("context", ["gl"], indirect=True)


class Clock:
    """The seconds that a test says."""

    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(
    context: fb.GlContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> Iterator[Recorder]:
    monkeypatch.chdir(tmp_path)
    picture = fb.GlTexture.from_array(np.full((48, 64, 4), 90, np.uint8))
    with contextlib.closing(Recorder(picture, fps=25.0, live=False, now=clock)) as recorder:
        yield recorder


def play(recorder: Recorder, clock: Clock, seconds: float, frames: int) -> None:
    for _ in range(frames):
        clock.seconds += seconds / frames
        recorder.put()


def times(path: Path) -> list[float]:
    """The times of the frames of a video, which is one that browsers play."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.format.name) == ("h264", "yuv420p")
        assert container.duration is not None
        return [*(float(frame.pts * frame.time_base) for frame in container.decode(stream)), container.duration / 1e6]


@pytest.mark.parametrize("frames", [3, 60, 150, 2000])
def test_six_seconds_give_six_seconds(recorder: Recorder, clock: Clock, frames: int) -> None:
    play(recorder, clock, 5.0, 10)
    recorder.toggle_recording()
    play(recorder, clock, 6.0, frames)
    clock.seconds += 0.3
    recorder.toggle_recording()
    play(recorder, clock, 5.0, 10)
    (path,) = recorder.written
    first, *shown, length = times(path)
    assert first == 0 and length == pytest.approx(6.3, abs=0.05)
    assert len(shown) <= 6.3 * 60 and (frames > 300 or len(shown) == frames + 1), "the last one until the end"


def test_pauses_are_left_out(recorder: Recorder, clock: Clock) -> None:
    recorder.toggle_recording()
    play(recorder, clock, 2.0, 4)
    for _ in range(50):
        clock.seconds += 1.0
        recorder.hold()
    play(recorder, clock, 2.0, 4)
    recorder.toggle_recording()
    *shown, length = times(recorder.written[0])
    assert shown == pytest.approx([0.5 * number for number in range(9)], abs=1e-3)
    assert length == pytest.approx(4.0, abs=0.05)


def test_other_files_have_a_frame_for_each_picture(recorder: Recorder, clock: Clock, tmp_path: Path) -> None:
    recorder.open(tmp_path / "all.mp4")
    play(recorder, clock, 60.0, 3)
    recorder.toggle_recording()
    play(recorder, clock, 1.0, 2)
    recorder.close()
    shown = {path.name: times(path)[:-1] for path in recorder.written}
    assert shown.pop("all.mp4") == pytest.approx([number / 25 for number in range(5)], abs=1e-3)
    assert next(iter(shown.values())) == pytest.approx([0.0, 0.5, 1.0], abs=1e-3)


def test_the_file_of_a_live_source_has_its_own_times(context: fb.GlContext, tmp_path: Path, clock: Clock) -> None:
    picture = fb.GlTexture.from_array(np.zeros((48, 64, 4), np.uint8))
    with contextlib.closing(Recorder(picture, fps=30.0, live=True, now=clock)) as recorder:
        recorder.open(tmp_path / "camera.mp4")
        clock.seconds += 20.0  # the first frame compiles
        play(recorder, clock, 12.0, 6)
    *shown, length = times(tmp_path / "camera.mp4")
    assert shown == pytest.approx([0.0, 2.0, 4.0, 6.0, 8.0, 10.0], abs=1e-3) and length < 10.1
