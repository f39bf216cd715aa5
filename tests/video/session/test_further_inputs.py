"""Inputs that are no picture and no state: their values in videos, streams and demos."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

import framebind as fb
from framebind.tools.commands import inspect
from framebind.tools.common.flags import DelegateFlags
from framebind.video.further_inputs import FurtherInputs, values_of
from framebind.video.model_options import ModelOptions
from framebind.video.network import Mode, Network
from framebind.video.sampling import Sampling
from framebind.video.session.session import Session
from framebind.video.tflite_writer import G, Op, T
from framebind.video.work import Work, check_model, task_for
from support.tiny_models import build


def gained(name: str, sides: tuple[int, int] = (6, 10), dtype: str = "float32", **quantized: Any) -> bytes:
    """A model that multiplies a picture by its second input, of one value."""
    picture = (1, *sides, 3)
    tensors = [T("x", picture), T(name, (1,), dtype=dtype, **quantized), T("y", picture)]
    operators = [Op("MUL", [0, 1], [2], schema.MulOptionsT())]
    if dtype != "float32":
        tensors.append(T("gain", (1,)))
        operators = [Op("DEQUANTIZE", [1], [3]), Op("MUL", [0, 3], [2], schema.MulOptionsT())]
    return build(G(tensors, operators, [0, 1], [2], signature="serve"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (path := tmp_path / "gain.tflite").write_bytes(gained("gain"))
    return path


@pytest.mark.parametrize(
    ("name", "sides", "option", "value"),
    [
        ("gain", (6, 10), "", None), ("gain", (6, 10), "gain=2", 2.0), ("gain", (6, 10), "1=-0.5", -0.5),
        ("downsample_ratio", (6, 10), "", 1.0), ("serving_default_downsample_ratio:0", (1080, 1920), "", 512 / 1920),
        ("downsample_ratio", (1080, 1920), "downsample_ratio=0.5", 0.5),
    ],
)  # fmt: skip
def test_the_rule(name: str, sides: tuple[int, int], option: str, value: float | None) -> None:
    interpreter = fb.Interpreter(model_content=gained(name, sides), delegate="cpu")
    assert values_of(interpreter, option, ()) == {1: value}


@pytest.mark.parametrize("option", ["gain", "gain=", "gain=x", "gain=inf", "other=1", "x=1", "0=1", "=1"])
def test_an_option_that_names_no_input_is_refused(option: str, model: Path) -> None:
    with pytest.raises(fb.ModelError, match=f"input '{option}' is no NAME=VALUE of the model: .* are gain"):
        task_for("", str(model), further=FurtherInputs(values=option))


def test_an_input_without_a_value_is_named(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert task_for("", str(model)) == "style", "the input is no picture"
    with pytest.raises(fb.ModelError, match=r"gain.tflite has the input 'gain', .* with --input gain=VALUE"):
        check_model(Work("raw", str(model), save=("npz",)))
    with pytest.raises(fb.ModelError, match="has the input 'gain'"), fb.GlContext.headless():
        Network(model, ModelOptions().options(model))
    inspect.inspect(str(model), flags=DelegateFlags())
    assert "Its input 'gain' is no picture and no state. It has no default" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize("mode", ["gpu", "copying", "cpu"])
def test_the_value_is_set_once(context: fb.GlContext, mode: Mode, model: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (6, 10, 4), np.uint8)
    network = Network(model, ModelOptions().options(model), further=FurtherInputs(values="gain=0.25"))
    assert list(network.inputs.values()) == [(1, 6, 10, 3)]
    network.mode = mode
    outputs, texture = network.bind_outputs(), fb.GlTexture.from_array(pixels)
    with contextlib.closing(network), fb.transfer_guard("disallow"):
        for _ in range(2):
            network.run_on(texture, Sampling(0.0, 1.0, None, 0.0))
            with fb.transfer_guard("allow"):
                found = outputs[0][0].copy()
            np.testing.assert_allclose(found, pixels[..., :3] / np.float32(1020), rtol=1e-5)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_a_video_gets_it_also_in_integers(tmp_path: Path) -> None:
    content = gained("gain", dtype="int8", scales=[0.25], zero_points=[3])
    (path := tmp_path / "gain.tflite").write_bytes(content)
    (folder := tmp_path / "clip").mkdir()
    pixels = np.random.default_rng(2).integers(0, 256, (6, 10, 3), np.uint8)
    cv2.imwrite(str(folder / "0.png"), pixels[..., ::-1])
    work = Work("raw", str(path), save=("npz",), options=ModelOptions(input="gain=1.5"))
    with Session(work, road="textures") as session:
        ((row,),) = session.frames(work, str(folder), None)
    np.testing.assert_allclose(row["outputs"]["y"][0], 1.5 * pixels / np.float32(255), rtol=1e-5)
