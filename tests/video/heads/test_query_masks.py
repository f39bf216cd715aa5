"""Queries with masks (RF-DETR-seg), against the published formulas in plain loops, in rows and in pictures."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from framebind.video.heads import best_fit, decoder_of
from framebind.video.heads.queries import IMAGENET
from framebind.video.session.session import Session
from framebind.video.task import Match
from framebind.video.vision.run_lengths import decode
from framebind.video.work import Work, task_for
from support.heads import assert_found, model_of
from support.tiny_models import constants


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))], ids=str)
def test_objects_take_the_masks_of_their_queries(order: tuple[int, ...]) -> None:
    random, queries, classes = np.random.default_rng(1), 100, 7
    logits = random.permutation(np.linspace(-8, 2, queries * classes, dtype=np.float32)).reshape(1, queries, classes)
    boxes = random.random((1, queries, 4)).astype(np.float32)
    masks = random.normal(size=(1, queries, 16, 24)).astype(np.float32)
    outputs = [(boxes, logits, masks)[number] for number in order]
    scores = [
        (1 / (1 + math.exp(-value)), query, number)
        for query, row in enumerate(logits[0].astype(float))
        for number, value in enumerate(row)
    ]
    best = [each for each in sorted(scores, key=lambda each: -each[0])[:queries] if each[0] >= 0.5]
    wanted = list[tuple[int, float, list[float]]]()
    for score, query, number in best:
        x, y, width, height = map(float, boxes[0, query])
        wanted.append((number, score, [x - width / 2, y - height / 2, x + width / 2, y + height / 2]))
    model = model_of(outputs, (64, 96))
    fit, decoder = best_fit(model, "instances"), decoder_of(model, "instances")
    assert fit is not None and fit.match == Match.OUTPUTS and best_fit(model, "detect") is None
    assert (decoder.framing, decoder.usual, decoder.classes) == ("stretched", IMAGENET, classes)
    found = decoder.decode(outputs, 0.5)
    assert_found(found, wanted)
    assert found.coefficients is not None and decoder.prototypes is not None
    number, shape = decoder.prototypes
    made = shape.from_tensor(outputs[number]) @ found.coefficients.T
    np.testing.assert_array_equal(made.transpose(2, 0, 1), masks[0, [query for _, query, _ in best]])


def test_other_shapes_are_no_queries_with_masks() -> None:
    boxes, logits = np.zeros((1, 10, 4)), np.zeros((1, 10, 3))
    for masks in (np.zeros((1, 9, 16, 16)), np.zeros((1, 10, 16, 40)), np.zeros((1, 10, 16))):
        assert best_fit(model_of([boxes, logits, masks], (64, 64)), "instances") is None
    assert best_fit(model_of([boxes, logits], (64, 64)), "instances") is None


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("road", ["textures", "planes"])
def test_masks_are_saved_and_painted(road: Any, tmp_path: Path) -> None:
    """A disc of the radius 0.25 in the middle of the frame, and a query that finds nothing."""
    y, x = (np.mgrid[:16, :16] + 0.5) / 16
    masks = np.stack([np.full((16, 16), 5.0), 0.25 - np.hypot(x - 0.5, y - 0.5)])[None].astype(np.float32)
    boxes = np.array([[[0.5, 0.5, 1, 1], [0.5, 0.5, 0.5, 0.5]]], np.float32)
    logits = np.array([[[-9, -9], [-9, 2]]], np.float32)
    (model := tmp_path / "masks.tflite").write_bytes(constants(boxes, logits, masks, side=64))
    (folder := tmp_path / "frames").mkdir()
    cv2.imwrite(str(folder / "0.png"), np.full((96, 128, 3), 90, np.uint8))
    assert task_for("", str(model)) == "instances"
    work = Work("instances", str(model), save=("masks", "jsonl"), masks="rle")
    with Session(work, road=road) as session:
        ((row,),) = session.frames(work, str(folder), tmp_path / "out")
    assert row["class"] == "class 1" and row["score"] == pytest.approx(1 / (1 + math.exp(-2)), abs=1e-4)
    np.testing.assert_allclose(row["box"], [32, 24, 96, 72], atol=0.01)
    assert row["mask"] is not None
    v, u = (np.mgrid[:96, :128] + 0.5) / np.array([96, 128])[:, None, None]
    distance = np.hypot(u - 0.5, v - 0.5)
    mask = np.asarray(decode(row["mask"]), bool)
    assert mask[distance < 0.22].all() and not mask[distance > 0.26].any()
    if road == "textures":
        painted = Work("instances", str(model), save=("video",), suffix=".png")
        with Session(painted, road=road) as session:
            list(session.frames(painted, str(folder), tmp_path / "painted"))
        picture = cv2.imread(str(tmp_path / "painted.frames" / "000000.png"))
        assert picture is not None
        is_colored = np.ptp(picture.astype(int), axis=2) > 20
        assert is_colored[(distance < 0.2)].all() and not is_colored[5:15, 5:15].any()
        assert not is_colored[27:29, 36:39].any(), "in the box, and not of the disc"
