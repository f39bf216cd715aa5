"""YOLO's key points, from random outputs of many shapes, against the published formulas in plain loops."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from framebind.__main__ import app
from framebind.video.heads import best_fit, decoder_of
from framebind.video.model_metadata import ModelMetadata
from framebind.video.task import Match
from support.heads import assert_found, candidates, expected, model_of
from support.model_metadata import with_json
from support.tiny_models import constants
from support.video.clips import write_clip

SIZE = (96, 64)


@pytest.mark.parametrize("is_pixels", [False, True])
@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize(("classes", "points"), [(1, (17, 3)), (2, (4, 2)), (3, (21, 3))])
def test_key_points_of_candidates(classes: int, points: tuple[int, int], is_last: bool, is_pixels: bool) -> None:
    boxes, scores = candidates(classes, SIZE, (8, 16, 32), classes)
    places = np.random.default_rng(5).random((len(boxes), *points)).astype(np.float32)
    scale = np.array(SIZE[::-1], np.float32) if is_pixels else np.ones(2, np.float32)
    given = places.copy()
    given[..., :2] *= scale
    rows = np.hstack([boxes * np.tile(scale, 2), scores, given.reshape(len(boxes), -1)])
    outputs = [np.ascontiguousarray(rows.T if is_last else rows)[None]]
    model = model_of(outputs, SIZE, ModelMetadata(task="pose", key_points=points))
    fit, decoder = best_fit(model, "pose"), decoder_of(model, "pose")
    assert fit is not None and fit.match == Match.METADATA
    assert best_fit(model, "detect") is None and decoder.classes == classes
    found, wanted = decoder.decode(outputs, decoder.least), expected(boxes, scores, 0.25, 0.7)
    assert_found(found, wanted)
    numbers = [int(np.argmin(np.abs(scores - each[1]).min(axis=1))) for each in wanted]
    assert found.points is not None
    np.testing.assert_allclose(found.points, places[numbers][..., :2], atol=1e-6)
    if points[1] == 2:
        assert found.point_scores is None
    else:
        np.testing.assert_array_equal(found.point_scores, places[numbers][..., 2])


def test_people_whom_the_model_selected() -> None:
    random = np.random.default_rng(0)
    rows = random.random((30, 57)).astype(np.float32)
    rows[:, [2, 3]] += 1
    rows[:, 5] = 0
    given = rows.copy()
    given[:, :4] *= np.tile(SIZE[::-1], 2)
    given[:, 6:].reshape(30, 17, 3)[..., :2] *= SIZE[::-1]
    model = model_of([given[None]], SIZE)
    assert best_fit(model, "detect") is None
    found = decoder_of(model, "pose").decode([given[None]], 0.5)
    wanted = sorted((row for row in rows if row[4] >= 0.5), key=lambda row: -row[4])
    assert_found(found, [(0, float(row[4]), row[:4].tolist()) for row in wanted])
    assert found.points is not None and found.point_scores is not None
    points = np.stack(wanted)[:, 6:].reshape(-1, 17, 3)
    np.testing.assert_allclose(found.points, points[..., :2], atol=1e-6)
    np.testing.assert_array_equal(found.point_scores, points[..., 2])


def test_without_metadata_the_user_says_that_it_is_a_pose() -> None:
    model = model_of([np.zeros((1, 56, 126), np.float32)], SIZE)
    as_poses, as_boxes = best_fit(model, "pose"), best_fit(model, "detect")
    assert as_poses is not None and as_boxes is not None and as_poses.match < as_boxes.match


@pytest.mark.parametrize("save", ["jsonl", "jsonl,video"])
def test_process_needs_the_model_alone(save: str, tmp_path: Path) -> None:
    values, points = np.zeros((1, 56, 84), np.float32), np.random.default_rng(1).uniform(0.3, 0.7, (17, 3))
    values[0, :5, 3], values[0, 5:, 3] = (0.5, 0.5, 0.5, 0.25, 0.75), points.ravel()
    content = with_json(constants(values, side=64), task="pose", names={"0": "person"}, kpt_shape=[17, 3])
    (model := tmp_path / "pose.tflite").write_bytes(content)
    write_clip(tmp_path / "a.mp4", size=(128, 80), frames=2)
    given = ["--model", str(model), "--save", save, "--backend", "gl"]
    done = CliRunner().invoke(app, ["process", str(tmp_path / "a.mp4"), "--output", str(tmp_path / "out"), *given])
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in (tmp_path / "out" / "a.jsonl").read_text().splitlines()]
    assert [(row["class"], row["score"], row["box"]) for row in rows] == 2 * [("person", 0.75, [32, 24, 96, 56])]
    np.testing.assert_allclose(rows[0]["points"], points[:, :2] * 128 - [0, 24], atol=0.01)
    np.testing.assert_allclose(rows[0]["point_scores"], points[:, 2], atol=1e-4)
