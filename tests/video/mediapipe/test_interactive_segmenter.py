"""InteractiveSegmenter of MediaPipe 1.x, with networks that put out what they get: no package has the real ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framebind as fb
from framebind import mp
from framebind.video.mediapipe.calculators.strokes import ADDS, LASSO, REMOVES, heat_map
from support.video.task_bundles import bundle, echoed_strokes, strokes_files

Array = np.ndarray[Any, Any]
vision = mp.tasks.vision
Brush = vision.InteractiveSegmenterBrushMode
RANDOM = np.random.default_rng(0)
PICTURE = RANDOM.integers(0, 256, (60, 80, 3), np.uint8)


def segmenter(library: Any, path: Path) -> Any:
    base = library.tasks.BaseOptions(model_asset_path=str(path))
    tasks = library.tasks.vision
    return tasks.InteractiveSegmenter.create_from_options(tasks.InteractiveSegmenterOptions(base_options=base))


def masks(library: Any, path: Path, pictures: Sequence[Array], strokes: Sequence[Any]) -> list[Array]:
    """The mask of each picture for strokes: (mode, points, is completed)."""
    tasks = library.tasks.vision
    given = [
        tasks.InteractiveSegmenterStroke(
            tasks.InteractiveSegmenterBrushMode(int(mode)),
            [tasks.InteractiveSegmenterStrokePoint(x, y) for x, y in points], done,
        )
        for mode, points, done in strokes
    ]  # fmt: skip
    found = list[Array]()
    with segmenter(library, path) as task:
        for picture in pictures:
            image = library.Image(image_format=library.ImageFormat.SRGB, data=picture)
            task.set_image(image)
            mask = task.segment(given)
            assert int(mask.image_format) == mp.ImageFormat.VEC32F1
            found.append(np.array(mask.numpy_view()[..., 0]))
    return found


LINE = [(0.25, 0.5), (0.7, 0.6)]
STROKES: list[Any] = [
    (Brush.POSITIVE, [(0.02, 0.1), (0.98, 0.1)], True),
    (Brush.POSITIVE, [*LINE, (0.6, 0.2)], False),
    (Brush.NEGATIVE, [(0.5, -0.2), (0.5, 0.3)], True),
    (Brush.LASSO, [(0.2, 0.3), (0.8, 0.35), (1.3, 0.8), (0.3, 0.7)], True),
    (Brush.LASSO, [(0.1, 0.1), (0.2, 0.2)], False),
    (Brush.POSITIVE, [(0.9, 0.9), (float("nan"), 0.9)], True),
]


def test_strokes_are_drawn_as_mediapipe_draws_them() -> None:
    """Numbers of mediapipe 1.2.2, whose decoder was a network that puts the heat map out."""
    dot = np.rint(255 * heat_map([(ADDS, [(0.25, 0.5)], True)], (32, 32))[..., ADDS]).astype(int)
    assert dot[14:20, 5:12].tolist() == [
        [0, 0, 68, 255, 74, 0, 0], [0, 72, 255, 255, 255, 72, 0], [70, 255, 255, 255, 255, 255, 72],
        [4, 79, 255, 255, 255, 79, 4], [0, 0, 74, 255, 74, 0, 0], [0, 0, 4, 0, 4, 0, 0],
    ]  # fmt: skip
    sums = {
        "line": (ADDS, [(ADDS, LINE, True)], 15645),
        "in 512": (ADDS, [(ADDS, LINE, True)], 206157),
        "box": (LASSO, [(LASSO, [(0.25, 0.3), (0.75, 0.7)], True)], 63915),
        "around": (LASSO, [(LASSO, [(0.2, 0.3), (0.8, 0.35), (0.6, 0.8), (0.3, 0.7)], True)], 90591),
        "open": (LASSO, [(LASSO, [(0.2, 0.3), (0.8, 0.35)], False)], 0),
        "cleared": (ADDS, [(ADDS, [(0.25, 0.5), (0.75, 0.5)], True), (REMOVES, [(0.5, 0.5)], True)], 0),
        "later": (REMOVES, [(REMOVES, [(0.25, 0.5)], True), (ADDS, [], True)], 4065),
    }
    for name, (plane, strokes, expected) in sums.items():
        size = (512, 512) if name == "in 512" else (32, 32)
        assert np.rint(255 * heat_map(strokes, size)[..., plane]).sum() == expected, name


def test_networks_get_the_picture_and_the_strokes(tmp_path: Path) -> None:
    path = tmp_path / "a.task"
    path.write_bytes(echoed_strokes(1, [0, 1, 0]))
    (same,) = masks(mp, path, [PICTURE[:48, :64]], STROKES)
    np.testing.assert_allclose(same, PICTURE[:48, :64, 1] / 255, atol=1e-6)
    path.write_bytes(echoed_strokes(0, [2, -3, 0.5]))
    (mask,) = masks(mp, path, [PICTURE], STROKES)
    assert mask.shape == (60, 80) and mask.max() == pytest.approx(2.5) and mask.min() < -2.5, "values are not clipped"


def test_what_is_wrong_with_strokes_and_bundles_is_told(tmp_path: Path) -> None:
    path, stroke = tmp_path / "a.task", vision.InteractiveSegmenterStroke
    path.write_bytes(echoed_strokes(0, [1, 0, 0]))
    task = segmenter(mp, path)
    point = vision.InteractiveSegmenterStrokePoint(0.5, 0.5)
    with pytest.raises(ValueError, match="Image not set - call set_image first"):
        task.segment([stroke(Brush.POSITIVE, [point], True)])
    with pytest.raises(ValueError, match="GRAY8: convert it"):
        task.set_image(mp.Image(mp.ImageFormat.GRAY8, PICTURE[..., 0]))
    task.set_image(mp.Image(mp.ImageFormat.SRGB, PICTURE))
    with pytest.raises(ValueError, match="there is no stroke: give one at least"):
        task.segment([])
    with pytest.raises(ValueError, match=r"Unknown brush mode: .*; take POSITIVE, NEGATIVE or LASSO"):
        task.segment([stroke(Brush.UNSPECIFIED, [point], True)])
    assert task.segment([stroke(Brush.POSITIVE, [point], True)]).numpy_view().max() > 0.9
    task.close()
    task.close()
    with pytest.raises(ValueError, match="this InteractiveSegmenter is closed"):
        task.segment([stroke(Brush.POSITIVE, [point], True)])
    for content, message in (
        (echoed_strokes(0, [1, 0, 0], b""), r"metadata\.pb has no sizes of networks: \[0, 0, 0, 0\]"),
        (echoed_strokes(0, [1, 0, 0], b"\xff"), r"metadata\.pb is damaged"),
        (echoed_strokes(0, [1, 0, 0], bytes([8, 64, 16, 48, 24, 16, 32, 16])), "they are the heat map of metadata"),
        (echoed_strokes(0, [1, 0, 0], bytes([8, 48, 16, 48, 24, 32, 32, 32])), r"has the input \[\(1, 48, 64, 3\)\]"),
        (bundle(dict.fromkeys(strokes_files(0, [1, 0, 0]).keys() - {"metadata.pb"}, b"")), "the bundle lacks metadata"),
    ):
        path.write_bytes(content)
        with pytest.raises(fb.ModelError, match=message):
            segmenter(mp, path)


def test_masks_are_those_of_the_oracle(tmp_path: Path) -> None:
    oracle: Any = pytest.importorskip("mediapipe", reason="mediapipe is not installed: it is the oracle, no dependency")
    if hasattr(oracle, "solutions"):
        pytest.skip("strokes came with mediapipe 1.0")
    path, pictures = tmp_path / "a.task", [PICTURE, RANDOM.integers(0, 256, (200, 120, 3), np.uint8)]
    for number, weights in ((0, [1, 0, 0]), (0, [0, 1, 0]), (0, [0, 0, 1]), (1, [1, 0, 0]), (1, [0.2, 0.3, -0.4])):
        path.write_bytes(echoed_strokes(number, weights))
        for ours, theirs in zip(*(masks(each, path, pictures, STROKES) for each in (mp, oracle)), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)
