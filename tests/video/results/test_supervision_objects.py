"""Rows as objects of supervision, which its own trackers, zones and annotators take."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import supervision as sv
from pycocotools import mask as coco

import framebind as fb
from framebind.video.vision.run_lengths import decode, encode, encode_part
from support.demo_models import segments, two_boxes
from support.video.clips import write_clip

CLASSES = ["person", *"abcdef", "truck", *"ghij"]


def test_boxes_go_through_a_zone_and_an_annotator(tmp_path: Path) -> None:
    (path := tmp_path / "yolo.tflite").write_bytes(two_boxes())
    write_clip(tmp_path / "a.mp4", size=(128, 80), frames=1)
    with fb.video.VideoStage(model=path) as stage:
        rows = stage.rows(str(tmp_path / "a.mp4"))
    found = fb.video.to_detections(rows, CLASSES)
    np.testing.assert_allclose(found.xyxy, [[48, 8, 80, 72], [16, 24, 48, 56]])
    assert found.class_id is not None and found.class_id.tolist() == [0, 7] and found.mask is None
    np.testing.assert_allclose(found.confidence, [0.75, 0.5])
    assert found.data["class_name"].tolist() == ["person", "truck"]
    zone = sv.PolygonZone(np.array([[0, 0], [50, 0], [50, 80], [0, 80]]))
    assert zone.trigger(found).tolist() == [False, True]
    picture = sv.BoxAnnotator(thickness=1).annotate(np.zeros((80, 128, 3), np.uint8), found)
    assert picture[40, 48].any() and picture[40, 80].any() and not picture[2].any()
    one, other = (fb.video.to_detections(some).class_id for some in (rows, rows[1:]))
    assert one is not None and other is not None and one[1] == other[0] != one[0], "numbers are made of names"


def test_masks_and_their_annotator(tmp_path: Path) -> None:
    (path := tmp_path / "segments.tflite").write_bytes(segments())
    write_clip(tmp_path / "a.mp4", size=(128, 80), frames=1)
    with fb.video.VideoStage(model=path) as stage:
        rows = stage.rows(str(tmp_path / "a.mp4"))
    found = fb.video.to_detections(rows)
    masks: Any = [coco.decode(row["mask"]).astype(bool) for row in rows]
    np.testing.assert_array_equal(found.mask, masks)
    picture = sv.MaskAnnotator().annotate(np.zeros((80, 128, 3), np.uint8), found)
    np.testing.assert_array_equal(picture.any(axis=-1), masks[0] | masks[1])
    for row in rows:
        row["box"] = None
    edges = fb.video.to_detections(rows).xyxy
    assert edges[0].tolist() == [*np.argwhere(masks[0]).min(0)[::-1], *(np.argwhere(masks[0]).max(0)[::-1] + 1)]


def test_key_points_and_their_annotator() -> None:
    points = np.random.default_rng(0).uniform(10, 50, (2, 17, 2)).round(2)
    rows = [
        {"class": "person", "score": 0.5 + n / 4, "points": each.tolist(), "point_scores": [0.25] * 17}
        for n, each in enumerate(points)
    ]
    found = fb.video.to_key_points(rows, ["person"])
    np.testing.assert_allclose(found.xy, points, rtol=1e-6)
    np.testing.assert_array_equal(found.keypoint_confidence, np.full((2, 17), 0.25))
    np.testing.assert_allclose(found.detection_confidence, [0.5, 0.75])
    assert found.class_id is not None and found.class_id.tolist() == [0, 0]
    assert sv.VertexAnnotator(radius=2).annotate(np.zeros((64, 64, 3), np.uint8), found).any()
    boxes = fb.video.to_detections(rows).xyxy
    np.testing.assert_allclose(boxes, np.hstack([points.min(axis=1), points.max(axis=1)]), rtol=1e-6)
    for row in rows:
        row["point_scores"] = None
    assert fb.video.to_key_points(rows).keypoint_confidence is None


def test_the_corners_of_an_oriented_box_are_its_data() -> None:
    corners = [[92.28, 64.0], [64.0, 92.28], [35.72, 64.0], [64.0, 35.72]]
    row = {"class": "ship", "score": 0.9, "box": [35.72, 35.72, 92.28, 92.28], "points": None, "corners": corners}
    found = fb.video.to_detections([row])
    np.testing.assert_allclose(found.data["xyxyxyxy"], [corners], rtol=1e-6)
    np.testing.assert_allclose(found.xyxy, [row["box"]], rtol=1e-6)


def test_nothing_and_rows_that_have_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: dict[str, Any] = {"class": None, "box": None}
    assert len(fb.video.to_detections([nothing])) == len(fb.video.to_key_points([nothing])) == 0
    row: dict[str, Any] = {"class": "cat", "score": 0.5, "box": [1, 2, 3, 4], "points": []}
    with pytest.raises(ValueError, match="'cat', which is none of the 1 classes"):
        fb.video.to_detections([row], ["dog"])
    with pytest.raises(ValueError, match="'cat' has no points"):
        fb.video.to_key_points([row])
    with pytest.raises(ValueError, match="'cat' has no box, mask or points: those of the tasks detect"):
        fb.video.to_detections([row | {"box": None}])
    monkeypatch.setitem(sys.modules, "supervision", None)
    with pytest.raises(fb.SourceError, match=r"supervision is not installed: pip install '\.\[supervision\]'"):
        fb.video.to_detections([row])


def test_run_lengths_are_decoded() -> None:
    random = np.random.default_rng(2)
    for share in (0.0, 0.02, 0.5, 1.0):
        mask = random.random((37, 23)) < share
        np.testing.assert_array_equal(decode(encode(mask)), mask)
    large = np.zeros((900, 700), bool)
    large[300:, 650:] = True
    np.testing.assert_array_equal(decode(encode_part(large[300:, 650:], (650, 300), (700, 900))), large)
