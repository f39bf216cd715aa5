"""Backgrounds behind people in videos of the task "matte": a colour, a picture, the frame's own background, or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import numpy.typing as npt
import pytest
import typer

import framebind as fb
from framebind.tools.common.flags import VideoFlags
from framebind.tools.common.work_options import WorkOptions
from framebind.video.vision.masks import NOBODY, PERSON_FROM
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


@pytest.mark.parametrize(
    ("suffix", "pixel_format"), [(".webm", "yuva420p"), (".mkv", "yuva420p"), (".mov", "yuva444p"), (".png", "rgba")]
)
def test_what_is_behind_people_may_be_transparent(suffix: str, pixel_format: str, tmp_path: Path) -> None:
    """The alpha that is read back is that of the matte; colours near people are not multiplied by it."""
    (model := tmp_path / "bright.tflite").write_bytes(brightness(1))
    picture = np.full((48, 64, 4), 20, np.uint8)
    picture[:, 24:40] = np.linspace(60, 200, 16, dtype=np.uint8)[:, None]  # from nobody to a person
    picture[:, 40:] = (255, 250, 245, 255)
    with fb.video.VideoWriter(tmp_path / "a.mkv", quality=0) as video:
        for _ in range(3):
            video.put(picture)
    stage = fb.video.VideoStage(
        "matte", model, save=["video", "masks"], masks="png", background="alpha", output=tmp_path / "out",
        suffix="" if suffix == ".mov" else suffix,
    )  # fmt: skip
    with stage:
        stage.rows(tmp_path / "a.mkv")
    format, frames = rgba_of(tmp_path / "out" / ("a.frames" if suffix == ".png" else f"a{suffix}"))
    assert format.startswith(pixel_format) and len(frames) == 3
    for number, frame in enumerate(frames):
        mask = (
            cv2.imread(str(tmp_path / "out" / "a.masks" / f"{number:06}.png"), cv2.IMREAD_UNCHANGED).astype(float) / 255
        )
        person = np.clip((mask - NOBODY) / (PERSON_FROM - NOBODY), 0, 1)
        matte = 255 * person * person * (3 - 2 * person)
        assert (matte == 0).any() and (matte == 255).any() and ((matte > 40) & (matte < 215)).any()
        np.testing.assert_allclose(frame[..., 3], matte, atol=2 if suffix in (".mov", ".png") else 12)
        np.testing.assert_allclose(
            frame[:, 28:40, :3], picture[:, 28:40, :3], atol=4 if suffix in (".mov", ".png") else 12
        )
        assert np.abs(frame[:, 44:, :3].astype(int) - (255, 250, 245)).max() <= 6 and frame[:, :16, :3].max() <= 3


def rgba_of(path: Path) -> tuple[str, list[Array]]:
    """The pixel format and the frames of a video or a folder of pictures. FFmpeg's own VP9 decoder leaves alpha out."""
    if path.is_dir():
        pictures = [cv2.imread(str(each), cv2.IMREAD_UNCHANGED) for each in sorted(path.iterdir())]
        return "rgba", [cv2.cvtColor(each, cv2.COLOR_BGRA2RGBA).astype(np.uint8) for each in pictures]
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        decoder: Any = stream.codec_context
        if decoder.name == "vp9":
            decoder = av.CodecContext.create("libvpx-vp9", "r")
        frames = [
            each for packet in container.demux(stream) for each in decoder.decode(packet if packet.size else None)
        ]
    return frames[0].format.name, [each.reformat(format="rgba").to_ndarray() for each in frames]


def test_transparent_photographs(tmp_path: Path) -> None:
    """A format without alpha gives a PNG file beside it."""
    (model := tmp_path / "bright.tflite").write_bytes(brightness(1))
    picture = np.full((48, 64, 3), 20, np.uint8)
    picture[:, 32:] = 255
    with fb.video.VideoStage("matte", model, save="video", background="alpha", output=tmp_path / "out") as stage:
        for name in ("a.jpg", "b.bmp", "c.png", "d.tif", "e.webp"):
            cv2.imwrite(str(tmp_path / name), picture)
            stage.rows(tmp_path / name)
    made = sorted((tmp_path / "out").iterdir())
    assert [path.name for path in made] == ["a.jpg.png", "b.bmp.png", "c.png", "d.tif", "e.webp"]
    for path in made:
        frame = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
        assert frame is not None and frame.shape == (48, 64, 4), path.name
        assert (frame[:, 40:] >= 250).all() and not frame[:, :24].any(), path.name


@pytest.mark.parametrize(
    ("suffix", "codec", "message"),
    [
        (".mp4", "", r"\.mp4 keeps no alpha"), (".mkv", "prores", r"prores in \.mkv keeps no alpha"),
        (".mov", "h264", r"h264 in \.mov keeps no alpha"), ("", "vp9", r"vp9 in \.mov keeps no alpha"),
    ],
)  # fmt: skip
def test_videos_without_alpha_are_refused(suffix: str, codec: str, message: str, tmp_path: Path) -> None:
    keeping = r".*\.mov \(prores\), \.mkv \(vp9\), \.webm \(vp9\) (or|and) \.png"
    with pytest.raises(typer.BadParameter, match=message + keeping):
        WorkOptions(task="matte", background="alpha", suffix=suffix, codec=codec or None).work(VideoFlags())
    with pytest.raises(fb.SourceError, match=message + keeping):
        fb.video.VideoWriter(tmp_path / f"a{suffix or '.mov'}", (64, 48), codec=codec or None, alpha=True)
    assert list(tmp_path.iterdir()) == []


def test_backgrounds_that_cannot_be_read_are_one_error_before_the_first_video(tmp_path: Path) -> None:
    for background, message in (("#12", "is no colour: write it as #rrggbb"), ("gone.png", "is no picture")):
        with pytest.raises(fb.SourceError, match=message):
            WorkOptions(task="matte", background=background).work(VideoFlags())
