"""Depth: colours, places and values of 16 bits are those of the formulas in NumPy, and the range follows smoothly."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.tools.player.options import Options
from framebind.tools.player.run import run
from framebind.video.apis import DECODING
from framebind.video.copies import DETECTIONS, MASKS, RECORDING
from framebind.video.model_options import ModelOptions
from framebind.video.session.road import planes_api
from framebind.video.session.session import Session
from framebind.video.tasks import find_task
from framebind.video.work import Work, task_for
from support.demo_models import brightness
from support.tiny_models import channels_first

Array = npt.NDArray[Any]
FRAMES = 3


@pytest.fixture(params=["nhwc", "nchw"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A model whose depth is the brightness of each pixel, 64 x 48, known by its file's name."""
    content = brightness(1)
    (path := tmp_path / "tiny_depth.tflite").write_bytes(
        channels_first(content) if request.param == "nchw" else content
    )
    return path


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Frames of 64 x 48 pixels: the second one is brighter and of less contrast."""
    (folder := tmp_path / "pictures").mkdir()
    for number in range(FRAMES):
        coarse = np.random.default_rng(number).integers(0, 200, (6, 8, 3), np.uint8)
        picture = cv2.resize(coarse, (64, 48), interpolation=cv2.INTER_CUBIC)
        picture = 128 + picture // 4 if number == 1 else picture
        picture[20, 30 + number], picture[40, 50 - number] = 250, 0  # no other place is as near, or as far
        cv2.imwrite(str(folder / f"{number}.png"), picture)
    return folder


def depths(pictures: Path) -> list[Array]:
    """The model's output for each frame: the mean of the colours, normalized as MiDaS and Depth Anything do."""
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    frames = [cv2.imread(str(pictures / f"{number}.png")) for number in range(FRAMES)]
    return [((frame[..., ::-1] / 255 - mean) / std).mean(2) for frame in frames if frame is not None]


def nearnesses(values: list[Array]) -> list[Array]:
    """The place of each value in the range, of which a frame's own has a share of a tenth."""
    low, high, found = values[0].min(), values[0].max(), list[Array]()
    for each in values:
        low, high = low + 0.1 * (each.min() - low), high + 0.1 * (each.max() - high)
        found.append(np.clip((each - low) / (high - low), 0, 1))
    return found


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_pictures_masks_and_places_are_those_of_the_formulas(model: Path, tmp_path: Path, pictures: Path) -> None:
    assert task_for("", str(model)) == "depth"
    work = Work("depth", str(model), save=("video", "masks"), masks="png", suffix=".png")
    fb.transfers.reset()
    with Session(work) as session:
        rows = [row for rows in session.frames(work, str(pictures), tmp_path / "a") for row in rows]
    down = {reason: count.bytes for (way, reason), count in fb.transfers.by_reason.items() if way == "download"}
    assert down == {RECORDING: FRAMES * 64 * 48 * 4, MASKS: FRAMES * 64 * 48 * 4, DETECTIONS: FRAMES * 32}
    values = depths(pictures)
    for number, near in enumerate(nearnesses(values)):
        mask = cv2.imread(str(tmp_path / "a.masks" / f"{number:06}.png"), cv2.IMREAD_UNCHANGED)
        assert mask is not None and mask.dtype == np.uint16
        np.testing.assert_allclose(mask / 65535, near, atol=1e-4)
        picture = cv2.imread(str(tmp_path / "a.frames" / f"{number:06}.png"))
        assert picture is not None
        expected = cv2.applyColorMap(np.rint(255 * near).astype(np.uint8), cv2.COLORMAP_INFERNO)
        is_seen = np.ones((48, 64), bool)
        nearest, farthest = rows[2 * number : 2 * number + 2]
        assert (nearest["class"], farthest["class"]) == ("nearest", "farthest")
        for row, extreme in ((nearest, values[number].max()), (farthest, values[number].min())):
            (x, y), *_ = row["points"] or []
            assert values[number][int(y), int(x)] == pytest.approx(extreme, abs=1e-4)
            is_seen[max(int(y) - 15, 0) : int(y) + 15, max(int(x) - 10, 0) :] = False  # a mark
        assert is_seen.sum() > 200 and np.ptp(expected[is_seen], 0).max() > 30
        np.testing.assert_allclose(picture[is_seen].astype(int), expected[is_seen], atol=3)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("road", ["textures", "planes"])
def test_metres_exchange_near_and_far(road: Literal["textures", "planes"], tmp_path: Path, pictures: Path) -> None:
    (path := tmp_path / "tiny_depth.tflite").write_bytes(brightness(1))
    found = list[Any]()
    for depth in ("inverse", "metres"):
        work = Work("depth", str(path), save=("masks",), masks="png", depth=depth)
        with Session(work, road=road) as session:
            rows = [row for rows in session.frames(work, str(pictures), tmp_path / depth) for row in rows]
        mask = cv2.imread(str(tmp_path / f"{depth}.masks" / "000001.png"), cv2.IMREAD_UNCHANGED)
        found.append(([row["points"] for row in rows], np.asarray(mask, np.float64)))
    (places, inverse), (others, metres) = found
    assert places[::2] == others[1::2] and places[1::2] == others[::2] and places != others
    np.testing.assert_allclose(inverse + metres, np.full((48, 64), 65535), atol=1)
    assert np.ptp(metres) > 30000
    with pytest.raises(ValueError, match="depth is for the task depth, not for 'segment'"):
        Work("segment", str(path), depth="metres")
    with pytest.raises(ValueError, match="depth 'feet' is none of"):
        Work("depth", str(path), depth="feet")


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_planes_give_the_same_as_textures(model: Path, tmp_path: Path, pictures: Path) -> None:
    found = list[Any]()
    for road in ("textures", "planes"):
        work = Work("depth", str(model), save=("masks",), masks="png")
        with Session(work, road=road) as session:
            rows = [row for rows in session.frames(work, str(pictures), tmp_path / road) for row in rows]
        masks = [cv2.imread(str(path), cv2.IMREAD_UNCHANGED) for path in sorted((tmp_path / f"{road}.masks").iterdir())]
        found.append((rows, np.array(masks, np.float32)))
    (rows, masks), (others, same) = found
    assert rows == others and len(masks) == FRAMES
    # Planes are rounded to bytes of luma and chroma: by two steps of a byte at most.
    np.testing.assert_allclose(masks / 65535, same / 65535, atol=2 / 255)
    on_cuda = Work("depth", str(model), save=("masks",), options=ModelOptions(backend="cuda"))
    assert planes_api(on_cuda) is DECODING


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_a_demo_copies_32_bytes(model: Path, tmp_path: Path, pictures: Path) -> None:
    report = run(find_task("depth").prepare, Options(str(model), str(pictures), [tmp_path / "a.png"], frames=2))
    assert (report.frames, report.detected, report.copied) == (1, 32, 0)


def test_run_lengths_are_refused(model: Path) -> None:
    with pytest.raises(ValueError, match="masks of the task 'depth' are video or png, not rle"):
        Work("depth", str(model), save=("masks",), masks="rle")
