"""The examples in other libraries' programs: what is on their screen is what LiteRT makes of the picture."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import skimage.data
from ai_edge_litert.interpreter import Interpreter

from support import tiny_models
from support.screen import Screen

HOSTS = ("moderngl", "pyglet", "pygame", "pyside6", "vispy")
SIZE = (192, 128)


@pytest.mark.parametrize("host", HOSTS)
def test_a_model_reads_and_writes_the_textures_of(host: str, tool: Callable[[str], str], tmp_path: Path) -> None:
    picture, model, screen = (tmp_path / name for name in ("picture.png", "model.tflite", "screen.png"))
    rgb = skimage.data.astronaut()[20 : 20 + SIZE[1], 100 : 100 + SIZE[0]]
    cv2.imwrite(str(picture), rgb[:, :, ::-1])
    model.write_bytes(tiny_models.chain("NEG", "LOGISTIC", "NEG", "EXP", shape=(1, 64, 64, 3)))
    arguments = ["--picture", picture, "--model", model, "--frames", "3", "--output", screen]
    command = [sys.executable, "-m", f"framebind.demos.hosts.with_{host}", *map(str, arguments)]
    tool("xvfb-run")  # skips, or fails where it is promised
    with Screen(tmp_path) as server:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=server.environment)
    assert done.returncode == 0, done.stderr
    expected = run_on_cpu(model, rgb.astype(np.float32)[None] / 255)[0] * 255
    shown = cv2.imread(str(screen))[:, :, ::-1]
    assert shown.shape == rgb.shape
    assert np.abs(shown - expected).max() <= 1, "no row or column is elsewhere, and rounding is within a step"


def run_on_cpu(model: Path, x: np.ndarray) -> np.ndarray:
    interpreter = Interpreter(model_path=str(model))
    interpreter.resize_tensor_input(0, x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
