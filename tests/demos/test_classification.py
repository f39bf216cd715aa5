"""The classification demo, with classifiers of our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.tools.player.options import Options
from framebind.tools.player.run import run
from framebind.video.tasks import classify
from framebind.video.vision.captions import text_height
from support import tiny_models
from support.demo_models import color_classifier

pytestmark = [pytest.mark.usefixtures("context"), pytest.mark.parametrize("context", ["gl"], indirect=True)]


def test_what_the_middle_of_a_picture_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[list[tuple[int, float]], list[str]]] = []
    draw = classify.draw_best

    def spy(overlay: fb.video.Overlay, found: list[tuple[int, float]], names: list[str], size: tuple[int, int]) -> None:
        said.append((found, names))
        draw(overlay, found, names, size)

    monkeypatch.setattr(classify, "draw_best", spy)
    (tmp_path / "colors.tflite").write_bytes(color_classifier())
    (tmp_path / "colors.txt").write_text("red\ngreen\nblue\nloud\nsweet\nlate\n")
    picture = np.zeros((100, 200, 3), np.uint8)
    picture[:, :50, 0] = picture[:, 50:150, 1] = picture[:, 150:, 2] = 255
    cv2.imwrite(str(tmp_path / "frame.png"), picture[..., ::-1])
    options = Options(str(tmp_path / "colors.tflite"), str(tmp_path / "frame.png"), output=[tmp_path / "a.png"])
    run(lambda scene: classify.TASK.prepare(scene, labels=tmp_path / "colors.txt"), options)
    ((found, names),) = said
    # Green is 1, red and blue are -1 where the model takes -1 to 1; the sides, red and blue, are cut off.
    logits = np.array([-4, 4, -4, 0, 0, 0])
    expected = np.exp(logits) / np.exp(logits).sum()
    assert [names[number] for number, _ in found] == ["green", "loud", "sweet", "late", "red"]
    np.testing.assert_allclose([p for _, p in found], expected[[1, 3, 4, 5, 0]], rtol=1e-4)
    result = cv2.imread(str(tmp_path / "a.png"))
    assert result is not None
    height = text_height((200, 100))
    line, margin = height + height // 4, height // 2
    assert (result[5 * line + 3 * margin :] == picture[5 * line + 3 * margin :, :, ::-1]).all(), "the frame below"
    row = result[margin + margin // 2 + line // 2].astype(int)
    bar = (np.abs(row[..., ::-1] - np.array(classify.BAR) * 255).max(axis=-1) < 2).sum()
    assert bar / (4 * height) == pytest.approx(expected[1], abs=0.06), "the first bar is as long as it is likely"


def test_the_summary_says_what_was_read(tmp_path: Path) -> None:
    (tmp_path / "colors.tflite").write_bytes(color_classifier())
    report = run(classify.TASK.prepare, Options(str(tmp_path / "colors.tflite"), frames=4, size="64x48", headless=True))
    assert (report.copied, report.detected, report.uploaded) == (0, 3 * 6 * 4, 3 * 64 * 48 * 3)


def test_the_best_of_probabilities_and_of_logits() -> None:
    scores: npt.NDArray[Any] = np.array([0.05, 0.5, 0.1, 0.2, 0.03, 0.04, 0.08], np.float32)
    assert [number for number, _ in classify.best(scores)] == [1, 3, 2, 6, 0]
    assert classify.best(scores)[0] == (1, 0.5)
    logits = np.log(scores) + 2
    np.testing.assert_allclose([p for _, p in classify.best(logits)], np.sort(scores)[:1:-1], rtol=1e-5)
    assert len(classify.best(scores[:2])) == 2
    assert classify.middle((640, 480)) == (80, 0, 480, 480)
    assert classify.middle((100, 300)) == (0, 100, 100, 100)


def test_labels_and_models_that_do_not_fit(tmp_path: Path) -> None:
    (tmp_path / "colors.tflite").write_bytes(color_classifier())
    (tmp_path / "labels.txt").write_text("one\n")
    options = Options(str(tmp_path / "colors.tflite"), frames=1, size="64x48", headless=True)
    with pytest.raises(fb.SourceError, match="have 1 lines, but the model has 6 classes"):
        run(lambda scene: classify.TASK.prepare(scene, labels=tmp_path / "labels.txt"), options)
    (tmp_path / "two.tflite").write_bytes(tiny_models.constants(*np.zeros((2, 1, 4), np.float32)))
    with pytest.raises(fb.ModelError, match="is no classifier"):
        run(classify.TASK.prepare, Options(str(tmp_path / "two.tflite"), frames=1, size="64x48", headless=True))
