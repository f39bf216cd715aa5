"""The programs of other libraries: what is on their screen is what LiteRT makes of the moving photograph."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest
import skimage.data
from ai_edge_litert.interpreter import Interpreter

from framebind.video.assets import PHOTOGRAPH
from support import tiny_models
from support.environment import CUDA_DEVICES, ROOT
from support.screen import Screen

FOLDER = ROOT / "demos" / "hosts"
CUDA_HOSTS = {"cupy": "CuPy", "jax": "JAX", "torch": "PyTorch"}
"""Programs that need a GPU of NVIDIA, by the package that they import, and what its name is."""
NVDEC = FOLDER / "with_nvdec.py"
"""The program that needs such a GPU and PyAV."""
HOSTS = sorted({path.stem.removeprefix("with_") for path in FOLDER.glob("with_*.py")} - {"nvdec", *CUDA_HOSTS})
SIZE = (192, 128)
FRAMES, STEP = 3, 2
"""Frames that are shown, and the pixels by which each shows the photograph farther to the right."""

Picture = npt.NDArray[np.uint8]


def moved(rgb: Picture, frame: int) -> Picture:
    """The photograph in a frame. Beyond its edge it is mirrored."""
    return np.roll(np.hstack([rgb, rgb[:, ::-1]]), -STEP * frame, axis=1)[:, : rgb.shape[1]]


def arguments(host: str, rgb: Picture, folder: Path) -> list[str]:
    """The program's picture; of OpenCV's, numbered pictures, which VideoCapture reads as a video."""
    if host == "opencv":
        for frame in range(FRAMES):
            cv2.imwrite(str(folder / f"frame{frame}.png"), moved(rgb, frame)[:, :, ::-1])
        return ["--source", str(folder / "frame%d.png")]
    cv2.imwrite(str(folder / "picture.png"), rgb[:, :, ::-1])
    return ["--picture", str(folder / "picture.png"), *(["--device", "pocl"] if host == "pyopencl" else [])]


def test_the_programs_that_people_ask_for_are_there() -> None:
    assert HOSTS == ["moderngl", "opencv", "pygame", "pyglet", "pyopencl", "pyopengl", "pyside6", "vispy"]
    assert all((FOLDER / f"with_{host}.py").exists() for host in ["nvdec", *CUDA_HOSTS])


@pytest.mark.parametrize("host", HOSTS)
def test_a_model_reads_and_writes_the_textures_of(
    host: str, tool: Callable[[str], str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Started as a plain script, from another folder."""
    if host == "pyopencl":
        request.getfixturevalue("gl_and_cl")  # skips, or fails if they are promised
    model, screen = tmp_path / "model.tflite", tmp_path / "screen.png"
    rgb = skimage.data.astronaut()[20 : 20 + SIZE[1], 100 : 100 + SIZE[0]]
    model.write_bytes(tiny_models.chain("NEG", "LOGISTIC", "NEG", "EXP", shape=(1, 64, 64, 3)))
    options = ["--model", str(model), "--frames", str(FRAMES), "--output", str(screen)]
    command = [sys.executable, str(FOLDER / f"with_{host}.py"), *arguments(host, rgb, tmp_path), *options]
    tool("xvfb-run")  # skips, or fails if it is promised
    with Screen(tmp_path) as server:
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=server.environment, check=False
        )
    assert done.returncode == 0, done.stderr
    expected = run_on_cpu(model, (moved(rgb, FRAMES - 1)[None] / 255).astype(np.float32))[0] * 255
    shown = cv2.imread(str(screen))
    assert shown is not None and shown.shape == rgb.shape
    assert np.abs(shown[:, :, ::-1] - expected).max() <= 1, "no row or column is elsewhere, rounding is within a step"


def test_the_program_that_draws_shows_a_photograph_beside_its_painting(
    tool: Callable[[str], str], tmp_path: Path
) -> None:
    """Left of the divider is the photograph; this model's painting, to its right, has few different values."""
    (tmp_path / "model.tflite").write_bytes(tiny_models.chain("NEG", "LOGISTIC", "NEG", "EXP", shape=(1, 64, 64, 3)))
    command = [
        sys.executable,
        str(FOLDER / "drawing.py"),
        "--model",
        "model.tflite",
        "--frames",
        "2",
        "--output",
        "a.png",
    ]
    tool("xvfb-run")
    with Screen(tmp_path) as server:
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=server.environment, check=False
        )
    assert done.returncode == 0, done.stderr
    shown = cv2.imread(str(tmp_path / "a.png"))
    assert shown is not None and shown.shape == (480, 640, 3)
    left, right = (shown[160:320, columns].astype(np.float32) for columns in (slice(150, 290), slice(350, 490)))
    assert left.std() > 3 * right.std() and (shown[240, 325] == 255).all(), "the point on the divider is white"


@pytest.mark.parametrize("host", CUDA_HOSTS)
def test_a_program_says_which_package_it_needs(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, host, None)  # importing it fails
    with pytest.raises(SystemExit, match=f"^This program needs {CUDA_HOSTS[host]}: pip install "):
        runpy.run_path(str(FOLDER / f"with_{host}.py"), run_name="__main__")


def test_the_program_of_nvdec_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    if not CUDA_DEVICES:
        monkeypatch.setattr(sys, "argv", [str(NVDEC), "--source", "missing.mp4"])
        with pytest.raises(SystemExit, match=r"^This program needs a video, and a GPU of NVIDIA that decodes it: "):
            runpy.run_path(str(NVDEC), run_name="__main__")
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(SystemExit, match=r"^This program needs PyAV: pip install av$"):
        runpy.run_path(str(NVDEC), run_name="__main__")


def test_the_program_of_nvdec_compares_frames_that_the_cpu_decodes(tmp_path: Path) -> None:
    """The program makes its video and compares the last frame, with LiteRT's result in place of the GPU's."""
    program = runpy.run_path(str(NVDEC))
    (tmp_path / "model.tflite").write_bytes(tiny_models.chain("NEG", "LOGISTIC", shape=(1, 64, 64, 3)))
    video = program["moving_photograph"](tmp_path / "photograph.mp4")
    rgb = cv2.cvtColor(cv2.imread(str(PHOTOGRAPH)), cv2.COLOR_BGR2RGB)
    expected = run_on_cpu(tmp_path / "model.tflite", (moved(rgb, 1)[None] / 255).astype(np.float32))
    program["compare"](expected, tmp_path / "model.tflite", video, 2)
    with pytest.raises(SystemExit, match="not what LiteRT computes"):
        program["compare"](expected + 0.05, tmp_path / "model.tflite", video, 2)


@pytest.mark.parametrize("host", CUDA_HOSTS)
def test_a_model_reads_and_writes_the_arrays_of(host: str, tmp_path: Path) -> None:
    """The program's picture is what LiteRT makes of the moved photograph; without a GPU one sentence says so."""
    if not CUDA_DEVICES:
        pytest.skip("the program needs NVIDIA's GPU: name cuda in FRAMEBIND_DEVICES")
    pytest.importorskip(host)
    model, painting = tmp_path / "model.tflite", tmp_path / "painting.png"
    rgb = skimage.data.astronaut()[20 : 20 + SIZE[1], 100 : 100 + SIZE[0]]
    model.write_bytes(tiny_models.chain("NEG", "LOGISTIC", "NEG", "EXP", shape=(1, 64, 64, 3)))
    options = ["--model", str(model), "--frames", str(FRAMES), "--output", str(painting), "--check"]
    command = [sys.executable, str(FOLDER / f"with_{host}.py"), *arguments(host, rgb, tmp_path), *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "copies between CPU and GPU: 0 bytes" in done.stdout
    expected = run_on_cpu(model, (moved(rgb, FRAMES - 1)[None] / 255).astype(np.float32))[0] * 255
    shown = cv2.imread(str(painting))
    assert shown is not None and np.abs(shown[:, :, ::-1] - expected).max() <= 1
    nowhere = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=nowhere, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith(f"{CUDA_HOSTS[host]} finds no GPU of CUDA")


def run_on_cpu(model: Path, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    interpreter = Interpreter(model_path=str(model))
    interpreter.resize_tensor_input(0, x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
