"""Pictures of maps, pairs and tiles: OpenGL draws the same if OpenCL runs the model, and nothing else is copied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.video.model_options import ModelOptions
from framebind.video.session.session import Session
from framebind.video.work import Work
from support.demo_models import brightness, enlarger, flow_model, matting_model
from support.tiny_models import channels_first

Array = npt.NDArray[Any]
MODELS: dict[str, Callable[[], bytes]] = {
    "depth": lambda: brightness(1),
    "matte": matting_model,
    "optical_flow": flow_model,
    "super_resolution": lambda: enlarger(16, 24),
}


@pytest.mark.parametrize("task", MODELS)
def test_opencl_gives_the_same_picture(task: str, tmp_path: Path, cl_context: fb.cl.ClContext) -> None:
    (model := tmp_path / "model.tflite").write_bytes(channels_first(MODELS[task]()))
    (tmp_path / "frames").mkdir()
    for number in range(2):
        coarse = np.random.default_rng(number).integers(0, 256, (6, 8, 3), np.uint8)
        picture = cv2.resize(coarse, (48, 36), interpolation=cv2.INTER_LINEAR)
        cv2.imwrite(str(tmp_path / "frames" / f"{number}.png"), picture)
    found = list[tuple[Array, dict[Any, int]]]()
    for backend in ("gl", "cl"):
        work = Work(task, str(model), save=("video",), suffix=".png", options=ModelOptions(backend=backend))
        fb.transfers.reset()
        with Session(work) as session:
            list(session.frames(work, str(tmp_path / "frames"), tmp_path / backend))
        made = cv2.imread(str(tmp_path / f"{backend}.frames" / "000001.png"))
        assert made is not None
        found.append((made.astype(int), {key: count.bytes for key, count in fb.transfers.by_reason.items()}))
    (drawn, copied), (other, same) = found
    assert np.ptp(drawn) > 50 and copied == same
    np.testing.assert_allclose(drawn, other, atol=1)
