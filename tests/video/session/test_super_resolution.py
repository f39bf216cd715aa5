"""Super-resolution: a model of one size enlarges whole frames in tiles, as one of any size does at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.tools.player.options import Options
from framebind.tools.player.run import run
from framebind.video.copies import RECORDING
from framebind.video.model_options import ModelOptions
from framebind.video.network import Network
from framebind.video.session.session import Session
from framebind.video.task import Scene
from framebind.video.tasks import find_task
from framebind.video.tasks.super_resolution import Grid
from framebind.video.work import Work, task_for
from support.demo_models import KERNELS, enlarger
from support.gl_calls import counted_calls
from support.tiny_models import chain, channels_first

Array = npt.NDArray[Any]
MODELS: dict[str, Callable[[], bytes]] = {
    "tiles": lambda: enlarger(16, 24),
    "tiles, nchw": lambda: channels_first(enlarger(16, 24)),
    "larger than the frame": lambda: enlarger(60, 80),
    "any size": lambda: enlarger(8, 8, any_size=True),
}


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """A photograph of 64 x 48 pixels of all colours."""
    pixels = np.random.default_rng(0).integers(0, 256, (12, 16, 3), np.uint8)
    cv2.imwrite(str(path := tmp_path / "a.png"), cv2.resize(pixels, (64, 48), interpolation=cv2.INTER_CUBIC))
    return path


def enlarged(frame: Array, mode: Literal["constant", "edge"] = "constant") -> Array:
    """The whole frame by the model's formula: each pixel becomes four means of the pixels around it.

    Zeros are above it and on its left, as the model pads them, and below and on the right what ``mode`` of np.pad says.
    """
    padded = np.pad(np.pad(frame, ((1, 0), (1, 0), (0, 0))), ((0, 1), (0, 1), (0, 0)), mode)
    around = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (0, 1))
    made = np.zeros((2 * frame.shape[0], 2 * frame.shape[1], 3), np.float32)
    for number, kernel in enumerate(KERNELS):
        made[number // 2 :: 2, number % 2 :: 2] = np.einsum("abcyx,yx->abc", around, kernel)
    return made


def load(path: Path) -> Array:
    found = cv2.imread(str(path))
    assert found is not None
    return found.astype(np.float32)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_the_picture_is_that_of_the_whole_frame(kind: str, tmp_path: Path, picture: Path) -> None:
    (model := tmp_path / "model.tflite").write_bytes(MODELS[kind]())
    assert task_for("", str(model)) == "super_resolution"
    work = Work("super_resolution", str(model)).of(picture)
    fb.transfers.reset()
    with Session(work) as session:
        list(session.frames(work, str(picture), tmp_path / "out.png"))
    made = load(tmp_path / "out.png")
    down = {reason: count.bytes for (way, reason), count in fb.transfers.by_reason.items() if way == "download"}
    assert down == {RECORDING: 4 * 96 * 128}, "the saved picture alone comes back"
    # The edge of a frame in a larger tile continues. Tiles are kept in bytes.
    expected = enlarged(load(picture), "edge" if kind == "larger than the frame" else "constant")
    assert made.shape == expected.shape == (96, 128, 3)
    np.testing.assert_allclose(made, expected, atol=1.01)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_a_demo_shows_the_mean_of_the_pixels_at_the_frames_size(tmp_path: Path, picture: Path) -> None:
    (model := tmp_path / "model.tflite").write_bytes(enlarger(16, 24))
    options = Options(str(model), str(picture), [tmp_path / "out.png"], frames=1)
    assert run(find_task("super_resolution").prepare, options).copied == 0
    expected = enlarged(load(picture)).reshape(48, 2, 64, 2, 3).mean((1, 3))
    # Half a step each for the tile's bytes and the picture's, and one for a sampler that filters bytes as bytes.
    np.testing.assert_allclose(load(tmp_path / "out.png"), expected, atol=2)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_nothing_waits_between_tiles(context: fb.GlContext, tmp_path: Path) -> None:
    """A frame of 12 tiles is issued as a whole: no call of it waits for the GPU, or asks for its state."""
    (model := tmp_path / "model.tflite").write_bytes(enlarger(16, 24))
    frame, picture = fb.GlTexture(64, 48), fb.GlTexture(128, 96)
    with counted_calls(context) as calls:
        network = Network(model, ModelOptions().options(model))
        scene = Scene(network, picture, lambda name: network, 2)
        draw = find_task("super_resolution").prepare(scene).draw
        for _ in range(2):
            draw(frame)
        calls.clear()
        draw(frame)
        tiles = len(Grid((24, 16), (64, 48)).tiles())
        assert tiles > 8 and calls["glDispatchCompute"] >= tiles and calls["glDrawArrays"] >= tiles
        asks = [name for name in calls if name.startswith(("glGet", "glClientWait", "glFinish", "glMap", "glRead"))]
        assert not asks, asks
        network.close()


@pytest.mark.parametrize("tile", [(64, 64), (24, 16), (5, 3), (1, 1)])
@pytest.mark.parametrize("frame", [(640, 360), (65, 64), (64, 100), (7, 3), (2, 1)])
def test_tiles_cover_the_frame_and_overlap_enough(tile: tuple[int, int], frame: tuple[int, int]) -> None:
    grid, covered = Grid(tile, frame), np.zeros(frame, int)
    for axis in range(2):
        starts = grid.starts(axis)
        assert starts[0] == 0 and starts[-1] == max(frame[axis] - tile[axis], 0)
        steps = np.diff(starts)
        assert all(0 < step <= tile[axis] - grid.overlap for step in steps)
        assert all(step >= 0.75 * grid.overlap for step in steps[1:]), "the blend ends before the next tile begins"
    for each in grid.tiles():
        x, y, width, height = each.cell
        covered[x : x + width, y : y + height] += 1
    assert (covered == 1).all(), "each pixel is drawn once"


def test_tiles_of_a_video_of_640_by_360() -> None:
    """The cost per frame that docs/video-folders.md says."""
    assert len(Grid((64, 64), (640, 360)).tiles()) == 104 and len(Grid((256, 256), (640, 360)).tiles()) == 6


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_model_that_does_not_enlarge_is_refused(tmp_path: Path, picture: Path) -> None:
    (model := tmp_path / "model.tflite").write_bytes(chain("ABS", shape=(1, 24, 32, 3)))
    work = Work("super_resolution", str(model))
    with Session(work) as session, pytest.raises(fb.ModelError, match="enlarges no picture"):
        list(session.frames(work, str(picture), None))
