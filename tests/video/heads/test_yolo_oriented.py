"""YOLO's oriented boxes, from random outputs, against the published formulas in plain loops; rows and pictures."""

from __future__ import annotations

import json
import math
from pathlib import Path

import cv2
import numpy as np
import pytest

from framebind.video.heads import best_fit, decoder_of
from framebind.video.model_metadata import ModelMetadata
from framebind.video.session.session import Session
from framebind.video.task import Match
from framebind.video.vision.oriented import overlaps
from framebind.video.work import Work, task_for
from support.heads import candidates, model_of
from support.model_metadata import with_json
from support.tiny_models import constants

OBB = ModelMetadata(task="obb")
Box = tuple[float, float, float, float, float]


def covariance(box: Box) -> np.ndarray:
    """R diag(w^2, h^2) R^T / 12 (Llerena et al., equation 3)."""
    _, _, width, height, angle = box
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    return turn @ np.diag([width**2, height**2]) @ turn.T / 12


def prob_iou(one: Box, other: Box) -> float:
    """1 - Hellinger distance, by the Bhattacharyya distance of two normal distributions in matrices."""
    mean = np.array(one[:2]) - np.array(other[:2])
    first, second = covariance(one), covariance(other)
    middle = (first + second) / 2
    product = np.linalg.det(first) * np.linalg.det(second)
    distance = mean @ np.linalg.inv(middle) @ mean / 8 + math.log(np.linalg.det(middle) / math.sqrt(product)) / 2
    return 1 - math.sqrt(1 - math.exp(-distance))


def corners(box: Box) -> list[list[float]]:
    x, y, width, height, angle = box
    found = []
    for along, across in ((1, 1), (1, -1), (-1, -1), (-1, 1)):
        a, b = along * width / 2, across * height / 2
        found.append([x + a * math.cos(angle) - b * math.sin(angle), y + a * math.sin(angle) + b * math.cos(angle)])
    return found


@pytest.mark.parametrize("form", ["classes last", "cells last", "selected"])
@pytest.mark.parametrize("is_pixels", [False, True])
@pytest.mark.parametrize("size", [(96, 96), (96, 160)])
def test_boxes_are_decoded_by_the_formulas(form: str, is_pixels: bool, size: tuple[int, int]) -> None:
    boxes, scores = candidates(5, size, (8, 16, 32), 3)
    angles = np.random.default_rng(6).uniform(-math.pi / 4, 3 * math.pi / 4, (len(boxes), 1)).astype(np.float32)
    scale = np.array([*size[::-1]] * 2, np.float32)
    given = boxes * scale if is_pixels else boxes
    if form == "selected":
        best = scores.argmax(1)
        rows = np.hstack([given, scores.max(1)[:, None], best[:, None].astype(np.float32), angles])[:150]
        output, boxes, angles, scores = rows, boxes[:150], angles[:150], scores[:150]
    else:
        output = np.hstack([given, scores, angles])
        output = output.T if form == "cells last" else output
    wanted = list[tuple[int, float, Box]]()
    for row in sorted(range(len(boxes)), key=lambda row: -scores[row].max()):
        number = int(scores[row].argmax())
        x, y, width, height = (boxes[row] * scale).tolist()
        box = x, y, width, height, float(angles[row, 0])
        others = [other for kind, _, other in wanted if kind == number and form != "selected"]
        if scores[row, number] >= 0.25 and all(prob_iou(box, other) <= 0.7 for other in others):
            wanted.append((number, float(scores[row, number]), box))
    model = model_of([np.ascontiguousarray(output)[None]], size, OBB)
    fit, decoder = best_fit(model, "detect"), decoder_of(model, "detect")
    assert fit is not None and fit.match == Match.METADATA and decoder.pad == 114 / 255
    found = decoder.decode([np.ascontiguousarray(output)[None]], decoder.least)
    assert len(wanted) > 10 and found.classes.tolist() == [each[0] for each in wanted]
    np.testing.assert_allclose(found.scores, [each[1] for each in wanted], rtol=1e-6)
    places = np.array([corners(each[2]) for each in wanted]) / scale[:2]
    assert found.corners is not None
    np.testing.assert_allclose(found.corners, places, atol=1e-5)
    np.testing.assert_allclose(found.boxes, np.hstack([places.min(1), places.max(1)]), atol=1e-5)
    assert len(decoder.decode([np.zeros_like(output)[None]], 0.25).boxes) == 0


def test_overlaps_are_those_of_the_distributions() -> None:
    random = np.random.default_rng(1)
    boxes = np.hstack([random.uniform(0, 50, (40, 2)), random.uniform(2, 60, (40, 2)), random.uniform(-1, 3, (40, 1))])
    found = overlaps(boxes[0], boxes)
    np.testing.assert_allclose(
        found, [prob_iou(tuple(boxes[0]), tuple(each)) for each in boxes], atol=5e-4
    )  # ultralytics adds 1e-7 here and there
    assert found[0] > 0.999 and np.ptp(found) > 0.5


def test_without_metadata_it_is_a_detector_of_one_class_more() -> None:
    output = np.zeros((1, 9, 189), np.float32)
    assert decoder_of(model_of([output], (96, 96)), "detect").classes == 5
    assert best_fit(model_of([output[:, :5]], (96, 96), OBB), "detect") is None


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_they_are_painted_as_they_lie(tmp_path: Path) -> None:
    """A bar in the middle of a frame of 128 x 128, turned by 45 degrees: 64 long and 16 wide."""
    values = np.zeros((1, 6, 84), np.float32)
    values[0, :2], values[0, 2:4] = 0.5, 0.1
    values[0, :, 7] = 0.5, 0.5, 0.5, 0.125, 0.9, math.pi / 4
    content = with_json(constants(values, side=64), task="obb", names={"0": "ship"}, stride=32, end2end=False)
    (model := tmp_path / "obb.tflite").write_bytes(content)
    cv2.imwrite(str(frame := tmp_path / "a.png"), np.zeros((128, 128, 3), np.uint8))
    assert task_for("", str(model)) == "detect"
    work = Work("detect", str(model), save=("video", "jsonl")).of(frame)
    with Session(work) as session:
        ((row,),) = session.frames(work, str(frame), tmp_path / "out.png")
    far, near = (32 + 8) / math.sqrt(2), (32 - 8) / math.sqrt(2)
    wanted = [[64 + near, 64 + far], [64 + far, 64 + near], [64 - near, 64 - far], [64 - far, 64 - near]]
    np.testing.assert_allclose(row["corners"], wanted, atol=0.02)
    assert row["points"] is None and row["class"] == "ship"
    np.testing.assert_allclose(row["box"], [64 - far, 64 - far, 64 + far, 64 + far], atol=0.02)
    picture = cv2.imread(str(tmp_path / "out.png"))
    assert picture is not None
    for (x, y), (u, v) in zip(wanted, [*wanted[1:], wanted[0]], strict=True):
        assert picture[round((y + v) / 2), round((x + u) / 2)].max() > 40, "the middle of each side"
    assert picture[64, 64].max() == 0 and picture[100, 40].max() == 0, "neither filled, nor an upright box"
    assert json.dumps(row)
