"""What is behind people in the videos of the task "matte": a colour, a picture, or the frame's own background."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.tools.common.flags import VideoFlags
from framebind.tools.common.work_options import WorkOptions
from support.demo_models import brightness

Array = npt.NDArray[np.uint8]
pytestmark = [pytest.mark.usefixtures("context"), pytest.mark.parametrize("context", ["gl"], indirect=True)]


def painted(folder: Path, background: str, dark: int = 20, suffix: str = ".png") -> Array:
    """The only frame (RGB): its right half is bright, and a person for this model; the left half is ``dark``."""
    (model := folder / "bright.tflite").write_bytes(brightness(1))
    picture = np.full((48, 64, 4), dark, np.uint8)
    picture[:, 32:] = 255
    with fb.video.VideoWriter(folder / "a.mkv", quality=0) as video:
        video.put(picture)
    out = folder / "out"
    with fb.video.VideoStage("matte", model, save="video", suffix=suffix, output=out, background=background) as stage:
        stage.rows(folder / "a.mkv")
    (file,) = out.rglob("000000.png" if suffix == ".png" else f"*{suffix}")
    read, frame = cv2.VideoCapture(str(file)).read()
    assert read
    return frame[..., ::-1].astype(np.uint8)


@pytest.mark.parametrize(("suffix", "tolerance"), [(".png", 1), (".mp4", 12)])
def test_a_colour_is_behind_people(suffix: str, tolerance: int, tmp_path: Path) -> None:
    """OpenGL draws pictures; the CPU paints the frames of a video, which is compressed."""
    frame = painted(tmp_path, "#00c000", suffix=suffix).astype(int)
    assert np.abs(frame[:, :24] - (0, 192, 0)).max() <= tolerance and frame[:, 40:].min() >= 255 - tolerance


def test_a_picture_is_behind_people(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "red.png"), np.full((30, 40, 3), (0, 0, 200), np.uint8))
    frame = painted(tmp_path, str(tmp_path / "red.png"))
    assert np.abs(frame[:, :24].astype(int) - (200, 0, 0)).max() <= 1 and (frame[:, 40:] == 255).all()


def test_the_frame_s_own_background_is_blurred(tmp_path: Path) -> None:
    frame = painted(tmp_path, "blur", dark=60)
    assert np.abs(frame[:, :20].astype(int) - 60).max() <= 2 and (frame[:, 40:] == 255).all()


def test_backgrounds_that_cannot_be_read_are_one_error_before_the_first_video(tmp_path: Path) -> None:
    for background, message in (("#12", "is no colour: write it as #rrggbb"), ("gone.png", "is no picture")):
        with pytest.raises(fb.SourceError, match=message):
            WorkOptions(task="matte", background=background).work(VideoFlags())
