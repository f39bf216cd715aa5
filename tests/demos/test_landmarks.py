"""The landmark demo: regions by worked examples, points against LiteRT's CPU interpreter, skeletons of known points."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import ai_edge_litert.interpreter as litert
import cv2
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.tools.player.options import Options
from framebind.tools.player.run import run
from framebind.video.network import Network, resample
from framebind.video.tasks import landmarks
from framebind.video.tasks.landmarks import HAND, POSE, Kind
from framebind.video.vision import regions
from framebind.video.vision.regions import Region
from support import tiny_models

Array = npt.NDArray[Any]
Photograph = Callable[..., npt.NDArray[np.uint8]]
ModelPath = Callable[[str], Path]

pytestmark = [pytest.mark.usefixtures("context"), pytest.mark.parametrize("context", ["gl"], indirect=True)]


def test_points_of_a_turned_region() -> None:
    corners = np.array([[0.5, 0.5], [0, 0], [1, 0]])
    straight = regions.to_picture(corners, Region((10, 20, 100, 100)))
    np.testing.assert_allclose(straight, [[60, 70], [10, 20], [110, 20]])
    # A quarter clockwise: what was the top left corner is the top right one.
    turned = regions.to_picture(corners, Region((10, 20, 100, 100), 90))
    np.testing.assert_allclose(turned, [[60, 70], [110, 20], [110, 120]], atol=1e-4)


def test_the_region_of_a_person() -> None:
    points = np.zeros((39, 2), np.float32)
    points[33] = 100, 200
    for top, rotation in (((100, 120), 0), ((180, 200), 90), ((20, 200), -90), ((100 + 56.5685, 200 - 56.5685), 45)):
        points[34] = top
        region = regions.pose_region(points)
        np.testing.assert_allclose(region.crop, (0, 100, 200, 200), atol=1e-3)
        assert region.rotation == pytest.approx(rotation, abs=1e-4)
        # The model is then shown the hips in the middle and the head above them.
        shown = regions.to_picture(np.array([[0.5, 0.5], [0.5, 0.1]]), region)
        np.testing.assert_allclose(shown, [points[33], points[34]], atol=1e-3)


def test_the_region_of_a_hand() -> None:
    points = np.full((21, 2), 50.0, np.float32)
    points[0], points[5], points[9], points[13], points[17] = (50, 100), (40, 60), (50, 60), (60, 60), (70, 70)
    points[[1, 2, 3, 6, 10, 14, 18]] = 50, 80
    upright = regions.hand_region(points)
    # x from 40 to 70, y from 60 to 100: a square of twice 40, and a tenth of 40 higher than the middle.
    np.testing.assert_allclose(upright.crop, (55 - 40, 76 - 40, 80, 80), atol=1e-3)
    assert upright.rotation == pytest.approx(0, abs=1e-4)
    around = points - [50, 80]
    turned = regions.hand_region(np.column_stack([-around[:, 1], around[:, 0]]))
    assert turned.rotation == pytest.approx(90, abs=1e-4)
    np.testing.assert_allclose(turned.crop, (4 - 40, 5 - 40, 80, 80), atol=1e-3)


def test_regions_to_begin_with() -> None:
    assert regions.whole((200, 100)) == Region((0, -50, 200, 200))
    x, y, side, _ = regions.upper_body((200, 100)).crop
    assert (x + side / 2, side) == (100, 250) and y + side / 2 == pytest.approx(115)
    shown = Region((0, 0, 100, 100))
    assert regions.disagreement(shown, shown) == 0
    assert regions.disagreement(shown, Region((30, 40, 100, 100))) == pytest.approx(0.5)
    assert regions.disagreement(shown, Region((-50, -50, 200, 200))) == pytest.approx(np.log(2))


def on_cpu(path: Path, picture: Array) -> list[Array]:
    interpreter = litert.Interpreter(model_path=str(path))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], picture[None].astype(np.float32))
    interpreter.invoke()
    return [np.array(interpreter.get_tensor(each["index"])) for each in interpreter.get_output_details()]


@pytest.mark.parametrize(("name", "kind"), [("pose_landmark_lite", POSE), ("hand_landmark_lite", HAND)])
@pytest.mark.parametrize("region", [Region((-200, -40, 900, 900)), Region((60, 20, 400, 400), 25)])
def test_points_are_where_the_cpu_finds_them(
    name: str, kind: Kind, region: Region, context: fb.GlContext, photograph: Photograph, model_path: ModelPath
) -> None:
    rgb, path = photograph("astronaut"), model_path(name)
    network = Network(path, fb.GpuDelegateOptions(backend="opengl"), fb.GlTimer())
    outputs, ((image, shape),) = network.bind_outputs(), network.inputs.items()
    network.bind(image, fb.GlTexture.from_array(rgb), crop=region.crop, rotation=region.rotation)
    network.run()
    values, sure = outputs[0], outputs[1].item()
    expected = on_cpu(path, resample(rgb, shape[1:3], region.crop, region.rotation) / np.float32(255))
    found, wanted = (landmarks.decode(each, kind, shape[1], region) for each in (values, expected[0]))
    assert np.ptp(wanted.points, axis=0).min() > 20
    # The sampler of a GPU has 8 bits for places between two texels.
    np.testing.assert_allclose(found.points, wanted.points, atol=0.5)
    np.testing.assert_allclose(found.seen, wanted.seen, atol=0.02)
    assert sure == pytest.approx(float(expected[1].ravel()[0]), abs=0.01)


# The demo -------------------------------------------------------------------------------------------------------------


def test_a_person_is_found_and_followed(model_path: ModelPath, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[landmarks.Skeleton | None] = []
    monkeypatch.setattr(landmarks, "draw_skeleton", lambda _, skeleton, *__: seen.append(skeleton))
    path = model_path("pose_landmark_lite")
    report = run(landmarks.TASK.prepare, Options(str(path), frames=6, size="256x256", headless=True))
    for skeleton in seen:
        assert skeleton is not None
        nose, right, left = skeleton.points[0], skeleton.points[12], skeleton.points[11]
        # Of the photograph, moving by a few pixels: nose, and shoulders below it.
        assert np.abs(nose - [110, 78]).max() < 15, nose
        assert right[0] < nose[0] - 20 and left[0] > nose[0] + 10 and min(right[1], left[1]) > nose[1] + 20
    assert (report.copied, report.uploaded, report.detected) == (0, 5 * 256 * 256 * 3, 5 * (195 + 1) * 4)
    assert "784 bytes of results, nothing else" in str(report)


def known(kind: Kind, side: int, sure: float) -> tuple[Array, bytes]:
    """Points in the square that a model is shown, and a model that puts them out."""
    angles = np.arange(kind.points) * 2.4
    rows = np.zeros((kind.points, kind.numbers), np.float32)
    rows[:, 0], rows[:, 1] = (0.5 + 0.4 * np.cos(angles)) * side, (0.5 + 0.4 * np.sin(angles)) * side
    if kind is POSE:
        rows[33, :2], rows[34, :2] = (side / 2, side / 2), (side / 2, 0.1 * side)  # gives the region back as it is
        rows[:, 3] = 5.0
        rows[10, 3] = -5.0  # not seen
    outputs = rows.reshape(1, -1), np.array([[sure]], np.float32)
    return rows[:, :2], tiny_models.constants(*outputs, side=side)


@pytest.mark.parametrize(("kind", "side"), [(POSE, 256), (HAND, 224)])
def test_a_skeleton_of_known_points_is_drawn(kind: Kind, side: int, tmp_path: Path) -> None:
    points, model = known(kind, side, 0.9)
    (tmp_path / "known.tflite").write_bytes(model)
    cv2.imwrite(str(tmp_path / "frame.png"), np.full((200, 300, 3), 40, np.uint8))
    options = Options(str(tmp_path / "known.tflite"), str(tmp_path / "frame.png"), output=[tmp_path / "a.png"])
    run(landmarks.TASK.prepare, options)
    picture = cv2.imread(str(tmp_path / "a.png"))
    assert picture is not None
    shown = regions.to_picture(points / side, regions.whole((300, 200)))
    expected = [n for n in range(kind.shown) if not (kind is POSE and n == 10)]
    inside = [n for n in expected if 0 <= shown[n][1] < 200]
    assert len(inside) > 10
    for number in inside:
        x, y = shown[number].astype(int)
        color = np.array(landmarks._color(kind, number))[::-1] * 255
        np.testing.assert_allclose(picture[y, x], color, atol=1)
    bones = [(a, b) for chain in kind.bones for a, b in pairwise(chain)]
    for start, end in bones:
        x, y = (shown[start] * 0.5 + shown[end] * 0.5).astype(int)
        if {start, end} <= {*inside}:
            assert (picture[y, x] != 40).any()
    assert (picture == 40).all(axis=-1).mean() > 0.3


def test_where_nobody_is_the_frame_is_shown_and_looked_for_again(tmp_path: Path) -> None:
    (tmp_path / "known.tflite").write_bytes(known(POSE, 256, 0.4)[1])
    cv2.imwrite(str(tmp_path / "frame.png"), np.full((120, 160, 3), 77, np.uint8))
    options = Options(str(tmp_path / "known.tflite"), str(tmp_path / "frame.png"), output=[tmp_path / "a.png"])
    run(landmarks.TASK.prepare, options)
    picture = cv2.imread(str(tmp_path / "a.png"))
    assert picture is not None
    assert (picture[30:] == 77).all() and (picture[:30] > 180).any(), "the frame, and words over it"
    report = run(landmarks.TASK.prepare, Options(options.model, frames=3, size="64x64", headless=True))
    assert report.detected == 2 * 2 * 784, "both regions in each frame"


def test_other_models(model_path: ModelPath) -> None:
    options = Options(str(model_path("selfie_segmentation")), frames=1, size="64x64", headless=True)
    with pytest.raises(fb.ModelError, match="no landmark model that is known here"):
        run(landmarks.TASK.prepare, options)
