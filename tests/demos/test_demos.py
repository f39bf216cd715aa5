"""The demos as a person runs them: the pictures they make against LiteRT's CPU interpreter, the copies they count."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import ai_edge_litert.interpreter as litert
import cv2
import numpy as np
import numpy.typing as npt
import pytest
import typer
from typer.testing import CliRunner

import framebind as fb
from framebind.tools.player.options import Options
from framebind.tools.player.report import Report
from framebind.tools.player.run import run
from framebind.video.task import Drawing, Scene
from framebind.video.tasks import matte, style
from support.screen import Screen

Picture = npt.NDArray[np.uint8]
Photograph = Callable[..., Picture]
ModelPath = Callable[[str], Path]


# There is a GL driver; the demos then make a desktop context of their own.
pytestmark = [pytest.mark.usefixtures("context"), pytest.mark.parametrize("context", ["gl"], indirect=True)]


def on_cpu(path: Path, **inputs: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """The model's output for inputs given by "c" + their number of channels."""
    interpreter = litert.Interpreter(model_path=str(path))
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], inputs[f"c{detail['shape'][-1]}"].reshape(detail["shape"]))
    interpreter.invoke()
    return np.array(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))[0]


def save(path: Path, rgb: Picture) -> Path:
    cv2.imwrite(str(path), rgb[..., ::-1])
    return path


def load(path: Path) -> npt.NDArray[np.float32]:
    picture = cv2.imread(str(path))
    assert picture is not None
    return picture[..., ::-1].astype(np.float32)


def test_style_transfer_paints_as_the_cpu_does(tmp_path: Path, photograph: Photograph, model_path: ModelPath) -> None:
    rgb = photograph("astronaut", 384, 384)
    path = model_path("style_transfer_f16_384")
    options = Options(str(path), str(save(tmp_path / "frame.png", rgb)), [tmp_path / "painted.png"])
    run(partial(style.TASK.prepare, styles=style.STYLES[:1]), options)
    vector = style.style_vector(style.STYLES[0])
    expected = on_cpu(path, c3=rgb.astype(np.float32) / 255, c100=vector) * 255
    assert expected.std() > 40, "a picture, not a plain colour"
    # Rounding to 256 steps is half a step.
    np.testing.assert_allclose(load(tmp_path / "painted.png"), expected, atol=0.6)


def test_styles_are_blended_over_half_a_second(monkeypatch: pytest.MonkeyPatch, model_path: ModelPath) -> None:
    model_path("style_predict_quantized_256")
    now = 100.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    pictures = style.STYLES[:2]
    one, two = (style.style_vector(picture) for picture in pictures)
    assert np.abs(one - two).max() > 0.1
    current, variants = style.prepare_styles(pictures)
    assert [variant.name for variant in variants] == ["coffee cup", "night sky"]
    np.testing.assert_array_equal(current().read(), one)
    fb.transfers.reset()
    variants[1].choose()
    assert fb.transfers.by_reason["upload", "style"].bytes == fb.transfers.bytes == 16 * 100 * 4
    for seconds, share in ((0.0, 1 / 16), (0.05, 2 / 16), (0.25, 9 / 16), (0.5, 1.0), (7.0, 1.0)):
        now = 100 + seconds
        np.testing.assert_allclose(current().read(), one + share * (two - one), atol=1e-6)
    np.testing.assert_array_equal(current().read(), two)
    variants[0].choose()
    now += 0.25
    half = two + 9 / 16 * (one - two)
    np.testing.assert_allclose(current().read(), half, atol=1e-6)
    variants[1].choose()  # in the middle of a blend: from where it is
    np.testing.assert_allclose(current().read(), half + (two - half) / 16, atol=1e-6)


def test_another_style_is_chosen_while_frames_are_painted(
    tmp_path: Path, photograph: Photograph, model_path: ModelPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    rgb, path, now = photograph("astronaut", 384, 384), model_path("style_transfer_f16_384"), 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)

    def prepare(scene: Scene) -> Drawing:
        task, number = style.TASK.prepare(scene, styles=style.STYLES[:2]), 0

        def draw(frame: fb.GlTexture) -> None:
            nonlocal number, now
            number += 1
            if number == 2:
                with fb.transfer_guard("allow"):
                    task.variants[1].choose()
                now = 1.0
            task.draw(frame)

        return Drawing(draw, task.variants)

    (tmp_path / "frames").mkdir()
    for name in ("1.png", "2.png"):
        save(tmp_path / "frames" / name, rgb)
    report = run(prepare, Options(str(path), str(tmp_path / "frames"), output=[tmp_path / "painted.png"]))
    assert (report.frames, report.copied) == (1, 16 * 100 * 4)
    vector = style.style_vector(style.STYLES[1])
    expected = on_cpu(path, c3=rgb.astype(np.float32) / 255, c100=vector) * 255
    np.testing.assert_allclose(load(tmp_path / "painted.png"), expected, atol=0.6)


def test_the_steady_state_copies_only_camera_and_recording(tmp_path: Path, model_path: ModelPath) -> None:
    options = Options(
        str(model_path("selfie_segmentation")), "synthetic", [tmp_path / "a.avi", tmp_path / "a.png"],
        frames=5, size="128x96",
    )  # fmt: skip
    report = run(matte.TASK.prepare, options)
    pixels = 128 * 96
    assert (report.frames, report.uploaded, report.recorded, report.copied) == (4, 4 * pixels * 3, 4 * pixels * 4, 0)
    assert f"Copied per frame: {pixels * 3:,} bytes of the source, {pixels * 4:,} bytes of the recording" in str(report)
    capture = cv2.VideoCapture(str(tmp_path / "a.avi"))
    assert capture.get(cv2.CAP_PROP_FRAME_COUNT) == 5
    frames = [capture.read()[1] for _ in range(5)]
    assert np.abs(frames[-1].astype(int) - cv2.imread(str(tmp_path / "a.png"))).mean() < 5, "the PNG is the last frame"
    assert (frames[0] != frames[-1]).any()


def test_a_copy_in_the_steady_state_ends_the_demo(tmp_path: Path, model_path: ModelPath) -> None:
    def prepare(scene: Any) -> Drawing:
        draw = matte.TASK.prepare(scene).draw
        return Drawing(lambda frame: (draw(frame), scene.picture.read(reason="a careless look"))[0])

    options = Options(str(model_path("selfie_segmentation")), "synthetic", [tmp_path / "a.png"], frames=3, size="64x64")
    with pytest.raises(fb.TransferError, match="a careless look"):
        run(prepare, options)


def test_a_run_of_one_frame_has_no_figures() -> None:
    assert "too few" in str(Report())


def command_line(demo: str, *arguments: object) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(import_module(f"framebind.demos.{demo}").command)
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    return result.exit_code, " ".join(result.output.split())


def test_mistakes_on_the_command_line(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    for arguments, message in (
        (["--source", "99", "--output", picture], "SourceError: camera 99 cannot be opened"),
        (["--source", tmp_path / "missing.mp4", "--output", picture], "there is no file or folder"),
        (
            ["--model", "missing.tflite", "--output", picture, "--frames", 1],
            "ModelError: there is no model file 'missing.tflite'",
        ),
        (
            ["--model", "nonsense", "--output", picture, "--frames", 1],
            "none of the known models style_transfer, ",
        ),
        (["--output", picture], "has no end: say how many --frames"),
    ):
        code, output = command_line("segmentation", *arguments)
        assert code == 1 and message in output, output
    code, output = command_line("style_transfer", "--output", tmp_path / "a.xyz", "--frames", 1)  # its model is bundled
    assert code == 1 and "no known format" in output, output
    code, output = command_line("segmentation", "--size", "large", "--output", picture)
    assert code == 2 and "WIDTHxHEIGHT" in output
    code, output = command_line("segmentation", "--camera", 0, "--source", picture)
    assert code == 2 and "--camera and --source exclude each other" in output
    for given, says in (
        (["--source", picture, "--source", "synthetic"], "--source is given 2 times: a run has one source"),
        (["--source", picture, "--size", "64x48"], "--size is for cameras and synthetic motion"),
        (["--source", picture, "--fps", "30"], "--fps is for cameras"),
        (["--fourcc", "YUYV"], "--fourcc is for cameras: 'synthetic' has its own"),
        (["--source", "http://me:hidden@a/b?c=hidden", "--fps", "30"], "'http://***@a/b?c=***' has its own"),
    ):
        code, output = command_line("segmentation", *given, "--output", tmp_path / "b.png")
        assert code == 2 and says in output, output
    given = ("--model", "style_transfer", "--style", style.STYLES[0])
    code, output = command_line("style_transfer", *given, "--output", picture, "--frames", 1)
    assert code == 1 and "has one style of its own: leave out --style" in output


@pytest.mark.parametrize(
    ("old", "new"), [("poses", "take 'pose', with"), ("landmarks", "take 'pose' or 'hands', with")]
)
def test_demos_that_were_replaced_name_what_did(old: str, new: str) -> None:
    done = CliRunner().invoke(import_module("framebind.demos.command").demo, [old, "--camera", "0"])
    shown = " ".join(done.output.replace("│", "").split())
    assert done.exit_code == 2 and f"the demo '{old}' was replaced in framebind 0.2.0: {new}" in shown


def test_mistakes_with_models_that_are_not_bundled(tmp_path: Path, model_path: ModelPath) -> None:
    picture = tmp_path / "a.png"
    for name in (
        "style_transfer_f16_384",
        "style_predict_quantized_256",
        "selfie_segmentation",
        "face_detection_front",
    ):
        model_path(name)
    code, output = command_line("style_transfer", "--style", picture / "no", "--output", picture, "--frames", 1)
    assert code == 1 and "is no picture that can be read" in output
    code, output = command_line("style_transfer", "--model", "selfie_segmentation", "--output", picture, "--frames", 1)
    assert code == 1 and "the model's output (1, 256, 256, 1) is no picture of 3 channels" in output
    code, output = command_line("style_transfer", "--model", "face_detection_front", "--output", picture, "--frames", 1)
    assert code == 1 and "face_detection_front.tflite paints no pictures: it takes [(1, 128, 128, 3)]" in output
    many = ["--style", style.STYLES[0]] * 10
    code, output = command_line("style_transfer", *many, "--output", picture, "--frames", 1)
    assert code == 1 and "10 pictures of a style are too many" in output


def test_a_window_shows_the_picture(tmp_path: Path, model_path: ModelPath, tool: Callable[[str], str]) -> None:
    command = [sys.executable, "-m", "framebind.demos.segmentation", "--model", str(model_path("selfie_segmentation"))]
    command += ["--window", "--frames", "4", "--size", "96x64", "--output", str(tmp_path / "a.png")]
    tool("xvfb-run")  # skips, or fails if it is promised
    with Screen(tmp_path) as screen:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=screen.environment)
    assert done.returncode == 0, done.stderr
    assert "3 frames after the first" in done.stderr and "nothing else." in " ".join(done.stderr.split())
    assert load(tmp_path / "a.png").std() > 20
