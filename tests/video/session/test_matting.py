"""Matting models, of alpha, foreground and states: people's own colours are mixed with what is behind them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.tools.player.options import Options
from framebind.tools.player.run import run
from framebind.video.apis import DECODING, GL
from framebind.video.copies import DETECTIONS, MASKS, RECORDING
from framebind.video.model_options import ModelOptions
from framebind.video.sampling import resample
from framebind.video.session.road import planes_api
from framebind.video.session.session import Session
from framebind.video.tasks import find_task
from framebind.video.work import Work, task_for
from support.demo_models import brightness, matting_model
from support.tiny_models import channels_first

Array = npt.NDArray[Any]
FRAMES, HEIGHT, WIDTH = 3, 24, 32
BEHIND = np.array([32, 80, 128])


@pytest.fixture(params=["nhwc", "nchw"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    content = matting_model()
    (path := tmp_path / "matting.tflite").write_bytes(channels_first(content) if request.param == "nchw" else content)
    return path


def pictures(folder: Path, scale: int) -> list[Array]:
    """Write frames of coloured places, ``scale`` times as large as the model's picture, and give them, RGB, 0 to 1."""
    folder.mkdir()
    made = list[Array]()
    for number in range(FRAMES):
        coarse = np.random.default_rng(number).integers(0, 256, (6, 8, 3), np.uint8)
        picture = cv2.resize(coarse, (scale * WIDTH, scale * HEIGHT), interpolation=cv2.INTER_LINEAR)
        cv2.imwrite(str(folder / f"{number}.png"), picture)
        made.append(picture[..., ::-1].astype(np.float32) / 255)
    return made


def alphas(seen: list[Array]) -> list[Array]:
    """The model's alpha for each picture that it sees; before the first one nothing was seen."""
    means = [np.zeros((HEIGHT, WIDTH)), *(each.mean(2) for each in seen)]
    return [(old + new) / 2 for old, new in pairwise(means)]


def exchanged(picture: Array) -> Array:
    """The model's foreground."""
    return picture[..., ::-1] * np.array([1, 0.5, 1], np.float32)


def load(path: Path) -> Array:
    found = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    assert found is not None
    return found.astype(np.float32)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_foreground_is_mixed_with_the_background_by_alpha(model: Path, tmp_path: Path) -> None:
    frames = pictures(tmp_path / "frames", 1)
    assert task_for("", str(model)) == "matte"
    work = Work("matte", str(model), save=("video", "masks"), masks="png", suffix=".png", background="#205080")
    fb.transfers.reset()
    with Session(work) as session:
        rows = [row for rows in session.frames(work, str(tmp_path / "frames"), tmp_path / "a") for row in rows]
    down = {reason: count.bytes for (way, reason), count in fb.transfers.by_reason.items() if way == "download"}
    pixels = FRAMES * HEIGHT * WIDTH
    assert down == {RECORDING: 4 * pixels, MASKS: pixels, DETECTIONS: pixels}
    for number, (frame, alpha) in enumerate(zip(frames, alphas(frames), strict=True)):
        # Alpha is kept in a byte, and the frame's own size needs no filter.
        np.testing.assert_allclose(load(tmp_path / "a.masks" / f"{number:06}.png"), 255 * alpha, atol=0.8)
        mixed = 255 * exchanged(frame) * alpha[..., None] + BEHIND * (1 - alpha[..., None])
        np.testing.assert_allclose(load(tmp_path / "a.frames" / f"{number:06}.png")[..., ::-1], mixed, atol=2)
        assert (rows[number]["share"] or 0.0) == pytest.approx((alpha >= 0.5).mean(), abs=0.03)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_a_larger_frame_keeps_its_details(model: Path, tmp_path: Path) -> None:
    frames = pictures(tmp_path / "frames", 2)
    work = Work("matte", str(model), save=("video",), suffix=".png", background="alpha")
    with Session(work) as session:
        list(session.frames(work, str(tmp_path / "frames"), tmp_path / "a"))
    for number, frame in enumerate(frames):
        low = resample(frame, (HEIGHT, WIDTH))
        expected = np.clip(frame + resample(exchanged(low) - low, (2 * HEIGHT, 2 * WIDTH)), 0, 1)
        made = load(tmp_path / "a.frames" / f"{number:06}.png")
        assert np.ptp(made[..., 3]) > 50, "it is transparent in parts"
        np.testing.assert_allclose(made[..., 2::-1], 255 * expected, atol=2)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_planes_give_the_same_rows_and_masks(model: Path, tmp_path: Path) -> None:
    frames = pictures(tmp_path / "frames", 1)
    work = Work("matte", str(model), save=("masks",), masks="png")
    with Session(work, road="planes") as session:
        list(session.frames(work, str(tmp_path / "frames"), tmp_path / "a"))
    for number, alpha in enumerate(alphas(frames)):
        # Luma and chroma are rounded to bytes.
        np.testing.assert_allclose(load(tmp_path / "a.masks" / f"{number:06}.png"), 255 * alpha, atol=2)


def test_the_cpu_paints_no_foreground(model: Path, tmp_path: Path) -> None:
    on_gl, on_cuda = ModelOptions(backend="gl"), ModelOptions(backend="cuda")
    (mask := tmp_path / "mask.tflite").write_bytes(brightness(1))
    assert planes_api(Work("matte", str(mask), save=("video",), options=on_gl)) is GL
    assert planes_api(Work("matte", str(model), save=("video",), options=on_gl)) is None
    assert planes_api(Work("matte", str(model), save=("jsonl",), options=on_gl)) is GL
    assert planes_api(Work("matte", str(model), save=("jsonl",), options=on_cuda)) is DECODING


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_a_demo_and_watch_copy_no_pixel(model: Path, tmp_path: Path) -> None:
    pictures(tmp_path / "frames", 1)
    options = Options(str(model), str(tmp_path / "frames"), [tmp_path / "a.png"], frames=3)
    report = run(find_task("matte").prepare, options)
    assert (report.frames, report.detected, report.copied) == (2, 0, 0)
    with fb.video.Watch([str(tmp_path / "frames")], model=model, backend="opengl") as watch:
        assert next(iter(watch)).found is not None
