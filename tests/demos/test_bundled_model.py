"""The style model that comes with the package: at any size as LiteRT has it, and as its training's figures say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pooch
import pytest
import typer
from typer.testing import CliRunner

import framebind as fb
from framebind.demos.style_transfer import command
from framebind.tools.player.options import Options
from framebind.tools.player.run import run
from framebind.video import assets, models
from framebind.video.models import DEFAULT_STYLE, find_model
from framebind.video.tasks import style
from training import measure, scenes, teachers
from training.student import Convolution, DepthToSpace, Logistic, Modulation
from training.write_tflite import write_tflite

Picture = npt.NDArray[np.uint8]
Photograph = Callable[..., Picture]
ROOT = Path(__file__).parents[2]
SIZES = [(128, 128), (256, 256), (384, 384), (512, 288)]
"""Width, height."""


@pytest.fixture
def no_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a folder of models nor a network."""

    def no_network(address: str, *_: object, **__: object) -> str:
        raise AssertionError(f"the network was asked for {address}")

    monkeypatch.delenv("FRAMEBIND_MODELS", raising=False)
    monkeypatch.setattr(models, "SHARED", tmp_path / "nothing")
    monkeypatch.setattr(pooch, "retrieve", no_network)


@pytest.mark.usefixtures("no_models")
def test_it_is_small_and_in_the_package() -> None:
    path = find_model(DEFAULT_STYLE)
    assert path.parent == Path(assets.__file__).parent
    assert 100_000 < path.stat().st_size <= 400_000
    assert '"framebind.video.assets" = ["*.tflite", "*.jpg"]' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize("width, height", SIZES)
def test_it_runs_on_the_gpu_at_any_size_as_on_the_cpu(
    context: fb.GlContext, photograph: Photograph, width: int, height: int
) -> None:
    picture = photograph("astronaut", width, height)
    interpreter = fb.Interpreter(model_path=str(find_model(DEFAULT_STYLE)))
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl")))
    interpreter.resize_tensor_input(interpreter.inputs()[0], (1, height, width, 3))
    interpreter.allocate_tensors()
    assert {operator.runs_on for operator in interpreter.delegated_ops()} == {"gpu"}
    interpreter.set_tensor(interpreter.inputs()[0], picture[None].astype(np.float32) / 255)
    interpreter.invoke()
    result = interpreter.get_tensor(interpreter.outputs()[0])
    expected = teachers.model(find_model(DEFAULT_STYLE))(picture)
    assert result.shape == (1, height, width, 3) and expected.std() > 0.15
    np.testing.assert_allclose(result[0], expected, atol=1e-4)


def _paint(picture: Picture, folder: Path) -> npt.NDArray[np.float32]:
    """The demo's result for a picture, if no model is named."""
    cv2.imwrite(str(folder / "frame.png"), picture[..., ::-1])
    options = Options(DEFAULT_STYLE, str(folder / "frame.png"), [folder / "painted.png"])
    run(style.TASK.prepare, options)
    painted = cv2.imread(str(folder / "painted.png"))
    assert painted is not None
    return painted[..., ::-1].astype(np.float32)


@pytest.mark.usefixtures("context", "no_models")
@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_the_demo_paints_with_it_in_the_pictures_proportions(tmp_path: Path, photograph: Photograph) -> None:
    picture = photograph("astronaut", 512, 288)  # as many pixels as the model has of its own, so nothing is scaled
    expected = teachers.model(find_model(DEFAULT_STYLE))(picture) * 255
    np.testing.assert_allclose(_paint(picture, tmp_path), expected, atol=0.6)


@pytest.mark.usefixtures("context", "no_models")
@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_the_demo_needs_neither_a_folder_of_models_nor_a_network(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(command)
    painted = tmp_path / "painted.png"
    profile = tmp_path / "trace.json"
    arguments = ["--frames", "2", "--size", "160x96", "--output", str(painted), "--profile", str(profile)]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    picture = cv2.imread(str(painted))
    assert picture is not None and picture.shape == (96, 160, 3)
    blue, _, red = picture.reshape(-1, 3).mean(axis=0)
    assert blue > red + 20 and picture.std() > 30, "a night in blue, with lights"
    frames = {event["args"].get("frame") for event in json.loads(profile.read_text())}
    assert frames >= {0, 1}, "the timer gives the last frames late"


def test_it_is_as_near_to_its_teacher_as_its_figures_say(
    model_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRAMEBIND_MODELS", str(model_path("style_transfer_f16_384").parent))
    found = measure.style_transfer(find_model(DEFAULT_STYLE))
    written = json.loads(measure.FIGURES.read_text(encoding="utf-8"))["style_transfer"]
    for group, figures in written.items():
        tolerance = {key: 0.05 if key == "psnr_db" else 1e-3 for key in figures}
        assert found[group].keys() == figures.keys()
        wrong = {key: found[group][key] for key in figures if abs(found[group][key] - figures[key]) > tolerance[key]}
        assert not wrong, f"{group}: figures.json says {figures}"
    similarity, student, teacher = found["similarity"], found["student"], found["teacher"]
    assert similarity["mean_error"] < 0.5 * similarity["unchanged_mean_error"] and similarity["color_shift"] < 0.03
    assert student["moved_by_1"] < 0.5 * teacher["moved_by_1"], "steadier on moving pictures"
    assert student["grid"] < 1 / 255


def test_scenes_repeat_and_differ() -> None:
    photographs = scenes.load(scenes.HELD_BACK)
    first, again, other = (scenes.scene((1, n), photographs, [], 96) for n in (0, 0, 1))
    assert first.shape == (96, 96, 3) and first.dtype == np.uint8
    np.testing.assert_array_equal(first, again)
    assert np.abs(first.astype(int) - other).mean() > 5


def test_the_writer_writes_what_the_layers_say(tmp_path: Path) -> None:
    """Against the same in NumPy, on convolutions of one pixel, at a size that is not the file's."""
    layers = [
        Convolution(3, 4, kernel=1), Convolution(4, 4, kernel=1), Convolution(4, 4, kernel=1, relu=False, skip=True),
        Modulation(4), Convolution(4, 12, kernel=1, relu=False), DepthToSpace(), Logistic(),
    ]  # fmt: skip
    rng, weights = np.random.default_rng(4), dict[str, npt.NDArray[np.float32]]()
    parts = {"0": (4, 3), "1": (4, 4), "2": (4, 4), "4": (12, 4)}
    parts |= {f"3.{part}": (4, 4) for part in ("hidden", "scale", "shift")}
    for name, (outputs, inputs) in parts.items():
        weights[f"{name}.weight"] = rng.normal(0, 1, (outputs, inputs, 1, 1)).astype(np.float16).astype(np.float32)
        weights[f"{name}.bias"] = rng.normal(0, 1, outputs).astype(np.float32)

    def convolve(name: str, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return value @ weights[f"{name}.weight"][:, :, 0, 0].T + weights[f"{name}.bias"]

    path = tmp_path / "written.tflite"
    path.write_bytes(write_tflite(layers, weights, "a test"))
    picture = rng.integers(0, 256, (6, 10, 3), dtype=np.uint8)
    first = np.maximum(convolve("0", picture / 255), 0)
    second = convolve("2", np.maximum(convolve("1", first), 0)) + first
    hidden = np.maximum(convolve("3.hidden", second.mean(axis=(0, 1))), 0)
    blocks = convolve("4", second * convolve("3.scale", hidden) + convolve("3.shift", hidden)).reshape(6, 10, 2, 2, 3)
    expected = 1 / (1 + np.exp(-blocks.transpose(0, 2, 1, 3, 4).reshape(12, 20, 3)))
    np.testing.assert_allclose(teachers.model(path)(picture), expected, atol=1e-5)
