"""The task "blur": faces cannot be recognized, and stay so when the detector misses them for a moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.video.model_options import ModelOptions
from framebind.video.network import Network
from framebind.video.session.road import is_on_cuda
from framebind.video.task import Scene
from framebind.video.tasks import blur
from framebind.video.work import Work

Array = npt.NDArray[np.uint8]
SIZE = (240, 240)


def detail(pixels: Array) -> float:
    """Mean difference of neighbours: how sharp a picture is."""
    return float(np.abs(np.diff(pixels.astype(float), axis=0)).mean())


@pytest.fixture
def scene(context: fb.GlContext, model_path: Callable[[str], Path]) -> Scene:
    options, timer = fb.GpuDelegateOptions(backend="opengl"), fb.GlTimer()

    def load(model: str) -> Network:
        return Network(model_path(model), options, timer)

    return Scene(load("face_detection_front"), fb.GlTexture(*SIZE), load)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_faces_are_blurred_and_nothing_else(scene: Scene, photograph: Callable[..., Array]) -> None:
    rgb = photograph("astronaut", *SIZE)
    drawing = blur.TASK.prepare(scene)
    drawing.draw(fb.GlTexture.from_array(rgb))
    assert drawing.results is not None
    (face,) = drawing.results()
    left, top, right, bottom = (round(value) for value in face["box"])
    x, y, width, height = blur._area(np.array(face["box"], np.float32))
    shown = scene.picture.read()[..., :3]
    inside = np.s_[top:bottom, left:right]
    assert detail(shown[inside]) < 0.5 * detail(rgb[inside])
    outside = np.ones(SIZE[::-1], bool)
    outside[max(y, 0) : y + height, max(x, 0) : x + width] = False
    assert outside.mean() > 0.8
    np.testing.assert_array_equal(shown[outside], rgb[outside])


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_face_that_is_lost_stays_blurred_for_some_frames(scene: Scene, photograph: Callable[..., Array]) -> None:
    rgb = photograph("astronaut", *SIZE)
    drawing = blur.TASK.prepare(scene)
    drawing.draw(fb.GlTexture.from_array(rgb))
    assert drawing.results is not None
    x, y, width, height = blur._area(np.array(drawing.results()[0]["box"], np.float32))
    noise = np.random.default_rng(0).integers(0, 256, rgb.shape).astype(np.uint8)  # nobody is in it
    frame = fb.GlTexture.from_array(noise)
    middle = np.s_[y + height // 3 : y + 2 * height // 3, x + width // 3 : x + 2 * width // 3]
    for _ in range(blur.HELD_FRAMES):
        drawing.draw(frame)
        assert drawing.results() == [] and detail(scene.picture.read()[middle]) < 0.2 * detail(noise[middle])
    drawing.draw(frame)
    np.testing.assert_array_equal(scene.picture.read()[..., :3], noise)


@pytest.mark.parametrize("backend", ["auto", "cuda"])
def test_frames_are_never_shown_as_they_are(backend: str) -> None:
    """CUDA has no picture but the decoder's frames with marks: watch would show faces there."""
    work = Work("blur", save=("jsonl",), options=ModelOptions(backend=backend))
    assert not is_on_cuda(work) and is_on_cuda(replace(work, task="detect", options=ModelOptions(backend="cuda")))


def test_a_face_that_is_found_again_takes_the_place_of_the_one_that_was_held() -> None:
    first, moved, far = (np.array(box, np.float32) for box in ((10, 10, 50, 50), (14, 12, 54, 52), (90, 90, 120, 120)))
    held = blur._still_blurred([first], [])
    held = blur._still_blurred([moved], held)
    assert [face.box.tolist() for face in held] == [moved.tolist()]
    held = blur._still_blurred([far], held)
    assert [face.frames for face in held] == [blur.HELD_FRAMES, blur.HELD_FRAMES - 1]
