"""YOLO's boxes, from random outputs of many shapes, against the published formulas in plain loops."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from typer.testing import CliRunner

import framebind as fb
from framebind.__main__ import app
from framebind.video.head import sound
from framebind.video.heads import best_fit, decoder_of
from framebind.video.model_metadata import ModelMetadata
from framebind.video.task import Match
from support.demo_models import two_boxes
from support.heads import assert_found, candidates, expected, model_of
from support.video.clips import write_clip

Array = npt.NDArray[Any]


SIZES = [((96, 96), (8, 16, 32)), ((96, 160), (8, 16, 32)), ((128, 64), (8, 16, 32, 64)), ((64, 96), (4, 8, 16, 32))]


@pytest.mark.parametrize("form", ["classes last", "cells last", "two", "two, scores first", "objectness"])
@pytest.mark.parametrize("is_pixels", [False, True])
@pytest.mark.parametrize(("size", "strides"), SIZES)
def test_candidates_are_decoded_by_the_formulas(
    form: str, is_pixels: bool, size: tuple[int, int], strides: Sequence[int]
) -> None:
    for seed, classes in enumerate((1, 2, 7, 80)):
        boxes, scores = candidates(seed, size, strides, classes)
        wanted, scale = expected(boxes, scores, 0.25, 0.7), np.array([*size[::-1]] * 2, np.float32)
        given = boxes * scale if is_pixels else boxes
        joined = np.hstack([given, scores])
        outputs = {
            "classes last": [joined], "cells last": [joined.T], "two": [given, scores],
            "two, scores first": [scores, given],
        }.get(form)  # fmt: skip
        if outputs is None:
            given, scores = (np.concatenate([each, each[::-1], each]) for each in (given, scores))
            objectness = np.random.default_rng(9).random((len(given), 1)).astype(np.float32)
            outputs = [np.hstack([given, objectness, scores])]
            wanted = expected(given / scale if is_pixels else given, objectness * scores, 0.25, 0.45)
        outputs = [np.ascontiguousarray(each)[None] for each in outputs]
        model = model_of(outputs, size)
        fit, decoder = best_fit(model, "detect"), decoder_of(model, "detect")
        assert fit is not None and fit.match == Match.OUTPUTS
        assert (decoder.classes, decoder.framing, decoder.pad) == (classes, "letterboxed", 114 / 255)
        assert_found(decoder.decode(outputs, decoder.least), wanted)


@pytest.mark.parametrize("is_pixels", [False, True])
@pytest.mark.parametrize("count", [1, 20, 300])
def test_boxes_that_the_model_selected(is_pixels: bool, count: int) -> None:
    random = np.random.default_rng(count)
    corners = np.sort(random.random((count, 2, 2)), axis=1).reshape(count, 4)
    rows = np.column_stack([corners, random.random(count), random.integers(0, 80, count)]).astype(np.float32)
    rows[0, 4] = 0.99
    given = rows * np.array([320, 192, 320, 192, 1, 1] if is_pixels else [1] * 6, np.float32)
    decoder = decoder_of(model_of([given[None]], (192, 320)), "detect")
    order = sorted((row for row in range(count) if rows[row, 4] >= 0.25), key=lambda row: -rows[row, 4])
    wanted = [(int(rows[row, 5]), float(rows[row, 4]), rows[row, :4].tolist()) for row in order]
    assert_found(decoder.decode([given[None]], decoder.least), wanted)
    assert decoder.classes is None and len(decoder.decode([given[None]], 1.1).boxes) == 0


def test_metadata_decides_and_other_tasks_are_not_taken() -> None:
    (output,) = (np.zeros((1, 84, 84), np.float32),)
    fit = best_fit(model_of([output], (64, 64), ModelMetadata(task="detect")), "detect")
    assert fit is not None and fit.match == Match.METADATA
    for metadata in (ModelMetadata(task="classify"), ModelMetadata(task="detect", end_to_end=True)):
        assert best_fit(model_of([output], (64, 64), metadata), "detect") is None
    for outputs in ([np.zeros((1, 83, 82))], [output, output[0]], [np.zeros((1, 1001, 6))], [np.zeros((1, 4, 84))]):
        assert best_fit(model_of(outputs, (64, 64)), "detect") is None


@pytest.fixture
def yolo(tmp_path: Path) -> Path:
    (path := tmp_path / "yolo.tflite").write_bytes(two_boxes())
    return path


WANTED = [
    {"class": "person", "score": 0.75, "box": [48.0, 8.0, 80.0, 72.0], "points": []},
    {"class": "truck", "score": 0.5, "box": [16.0, 24.0, 48.0, 56.0], "points": []},
]
"""The objects in frames of 128x80, letterboxed in a square of 128 from y = -24 on."""


@pytest.mark.parametrize("save", ["jsonl", "jsonl,video"])
def test_process_needs_the_model_alone(save: str, yolo: Path, tmp_path: Path) -> None:
    write_clip(tmp_path / "a.mp4", size=(128, 80), frames=2)
    given = ["--model", str(yolo), "--save", save, "--backend", "gl"]
    done = CliRunner().invoke(app, ["process", str(tmp_path / "a.mp4"), "--output", str(tmp_path / "out"), *given])
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in (tmp_path / "out" / "a.jsonl").read_text().splitlines()]
    assert [{key: row[key] for key in WANTED[0]} for row in rows] == 2 * WANTED


def test_watch_needs_the_model_alone(yolo: Path, tmp_path: Path) -> None:
    write_clip(tmp_path / "a.mp4", size=(128, 80), frames=2)
    with fb.video.Watch([str(tmp_path / "a.mp4")], model=str(yolo), backend="gl") as watch:
        assert next(watch).found == WANTED


def test_no_pixel_comes_to_the_cpu(yolo: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["demo", "--model", str(yolo), "--size", "128x80", "--frames", "2", "--headless", "--backend", "gl"]
    )
    assert done.exit_code == 0, done.output
    assert "5,376 bytes of results, nothing else" in done.output, "4 bytes for each of 16 x 84 values"


def test_senseless_objects_are_left_out() -> None:
    rows = np.tile(np.array([0.1, 0.2, 0.3, 0.4, 0.9, 1], np.float32), (8, 1))
    rows[0, 0], rows[1, 2], rows[2, 4] = np.nan, np.inf, np.nan
    rows[3:6, 5] = np.nan, -1, 1e9
    found = decoder_of(model_of([rows[None]], (64, 64)), "detect").decode([rows[None]], 0.5)
    assert len(sound(found).boxes) == 2
    points, seen = np.zeros((len(found.boxes), 2, 2)), np.ones((len(found.boxes), 2))
    points[-1, 0, 1], seen[-2, 0] = np.inf, np.nan
    with_points = found._replace(points=points, point_scores=seen)
    kept = sound(with_points)
    assert kept.point_scores is not None and len(kept.boxes) == len(kept.point_scores) == 0
