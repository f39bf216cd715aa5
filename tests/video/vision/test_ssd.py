"""Anchors, decoding, suppression and smoothing of the demos, against worked examples."""

from __future__ import annotations

import math

import numpy as np
import pytest

from framebind.video.answers.selection import Columns, Selection, select
from framebind.video.vision import ssd
from framebind.video.vision.boxes import CANDIDATES, MOST_BOXES, best_boxes, decode_boxes, decode_faces
from framebind.video.vision.non_max_suppression import overlaps, suppress
from framebind.video.vision.one_euro import SECONDS, OneEuro


def test_the_face_detectors_anchors() -> None:
    anchors = ssd.face_anchors()
    assert anchors.shape == (896, 4)
    assert (anchors[:, 2:] == 1).all()
    # Two in each cell of 8 pixels, row after row; then six in each of 16 pixels.
    expected = {0: (4, 4), 1: (4, 4), 2: (12, 4), 31: (124, 4), 32: (4, 12), 511: (124, 124), 512: (8, 8), 518: (24, 8),
                895: (120, 120)}  # fmt: skip
    for number, centre in expected.items():
        np.testing.assert_allclose(anchors[number, :2] * 128, centre, atol=1e-5)


def test_the_object_detectors_anchors() -> None:
    anchors = ssd.coco_anchors()
    assert anchors.shape == (2034, 4)
    root = math.sqrt(2)
    expected = {
        0: (0.025, 0.025, 0.1, 0.1),
        1: (0.025, 0.025, 0.2 * root, 0.2 / root),
        2: (0.025, 0.025, 0.2 / root, 0.2 * root),
        3: (0.075, 0.025, 0.1, 0.1),
        60: (0.025, 0.075, 0.1, 0.1),
        1200: (0.05, 0.05, 0.35, 0.35),
        1203: (0.05, 0.05, 0.35 * math.sqrt(3), 0.35 / math.sqrt(3)),
        1205: (0.05, 0.05, math.sqrt(0.35 * 0.5), math.sqrt(0.35 * 0.5)),
        2028: (0.5, 0.5, 0.95, 0.95),
        2033: (0.5, 0.5, math.sqrt(0.95), math.sqrt(0.95)),
    }
    for number, anchor in expected.items():
        np.testing.assert_allclose(anchors[number], anchor, rtol=1e-6)


def test_the_anchors_of_other_sizes() -> None:
    assert ssd.coco_layers(300) == [19, 10, 5, 3, 2, 1] and ssd.coco_count(300) == 1917
    for side in (64, 300, 320, 512):
        assert ssd.coco_anchors(side).shape == (ssd.coco_count(side), 4)
    np.testing.assert_allclose(ssd.coco_anchors(300)[3, :2], [1.5 / 19, 0.5 / 19], rtol=1e-6)


def test_faces_are_decoded() -> None:
    anchors = np.array([[0.25, 0.75, 1, 1]], np.float32)
    values = np.array([[12.8, -12.8, 25.6, 51.2, *([6.4, 0] * 6)]], np.float32)
    places = decode_faces(values, anchors)
    np.testing.assert_allclose(places, [[0.25, 0.45, 0.45, 0.85, *[0.3, 0.75] * 6]], rtol=1e-6)


def test_box_encodings_are_decoded() -> None:
    anchors = np.array([[0.5, 0.5, 0.2, 0.4]] * 2, np.float32)
    # y, x, height, width: half the anchor's height down and a whole width left, half as high, twice as wide.
    values = np.array([[0, 0, 0, 0], [5, -10, 5 * math.log(0.5), 5 * math.log(2)]], np.float32)
    expected = [[0.4, 0.3, 0.6, 0.7], [0.1, 0.6, 0.5, 0.8]]
    np.testing.assert_allclose(decode_boxes(values, anchors), expected, rtol=1e-5)


def test_overlaps() -> None:
    box = np.array([0, 0, 2, 2], np.float32)
    boxes = np.array([[0, 0, 2, 2], [1, 1, 3, 3], [1, 0, 3, 2], [2, 0, 4, 2], [5, 5, 5, 5]], np.float32)
    np.testing.assert_allclose(overlaps(box, boxes), [1, 1 / 7, 1 / 3, 0, 0], rtol=1e-6)
    assert (overlaps(boxes[-1], boxes[-1:]) == 0).all(), "a box without area"


def test_suppression_keeps_the_best_of_each_heap_and_class() -> None:
    boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [0, 0, 10, 5], [20, 0, 30, 10], [0, 0, 10, 10]], np.float32)
    scores = np.array([0.8, 0.9, 0.7, 0.6, 0.5], np.float32)
    classes = np.array([1, 1, 1, 1, 2])
    # 0 overlaps 1 by 9/11; 2 overlaps 1 by 45/105; 3 stands alone; 4 is of another class.
    assert suppress(boxes, scores, classes, 0.5, 100) == [1, 2, 3, 4]
    assert suppress(boxes, scores, classes, 0.4, 100) == [1, 3, 4]
    assert suppress(boxes, scores, classes, 0.5, 2) == [1, 2]
    assert suppress(boxes, scores, classes, 0.9, 100) == [1, 0, 2, 3, 4]
    assert suppress(boxes[:0], scores[:0], classes[:0], 0.5, 100) == []


def test_a_suppressed_box_suppresses_nothing() -> None:
    boxes = np.array([[0, 0, 10, 1], [4, 0, 14, 1], [8, 0, 18, 1]], np.float32)
    scores = np.array([0.9, 0.8, 0.7], np.float32)
    assert suppress(boxes, scores, np.zeros(3, np.int64), 0.3, 100) == [0, 2]


def test_sigmoid() -> None:
    values = np.array([-200, 0, math.log(3), 200], np.float32)
    np.testing.assert_allclose(ssd.sigmoid(values), [0, 0.5, 0.75, 1], rtol=1e-6)


def test_the_one_euro_filter_by_its_formula() -> None:
    min_cutoff, beta, values = 0.5, 2.0, [1.0, 1.5, 3.0, 2.5]
    smooth, value, speed = OneEuro(min_cutoff, beta), values[0], 0.0
    assert smooth(np.array([values[0]], np.float32)) == values[0]

    def alpha(cutoff: float) -> float:
        return 1 / (1 + (1 / (2 * math.pi * cutoff)) / SECONDS)

    for new in values[1:]:
        speed = alpha(1.0) * (new - value) / SECONDS + (1 - alpha(1.0)) * speed
        a = alpha(min_cutoff + beta * abs(speed))
        value = a * new + (1 - a) * value
        np.testing.assert_allclose(smooth(np.array([new], np.float32)), [value], rtol=1e-6)


def test_the_one_euro_filter_quiets_trembling_and_follows_jumps() -> None:
    noise = np.random.default_rng(0).normal(0, 0.002, (100, 1)).astype(np.float32)
    smooth = OneEuro(0.05, 80.0)
    filtered = np.array([smooth(0.5 + n) for n in noise])
    assert filtered[20:].std() < 0.5 * noise[20:].std()
    late = [float(smooth(np.array([0.9], np.float32))[0]) for _ in range(4)]
    assert late[-1] == pytest.approx(0.9, abs=0.02), "four frames after a jump it is there"


def test_a_score_that_is_no_number_is_no_box() -> None:
    scores = np.array([[np.nan], [0.9], [-np.inf], [0.5]], np.float32)
    values = np.zeros((4, 16), np.float32)
    values[:, :4] = np.array([[0, 0, 8, 8], [0, 0, 8, 8], [0, 0, 8, 8], [64, 0, 8, 8]])
    anchors = np.random.default_rng(1).uniform(0.1, 0.9, (4, 4)).astype(np.float32)
    selection = Selection(4, Columns(0, 0, 1), (Columns(1, 0, 16),))
    _, _, best = best_boxes(select(selection, [scores, values], 0.5), anchors, decode_faces, 0.3)
    np.testing.assert_allclose(best, [0.9, 0.5])


def test_of_equal_scores_the_first_anchor_is_better_and_the_number_of_boxes_is_bounded() -> None:
    anchors = np.column_stack([np.linspace(0, 1, 300), np.full((300, 3), 0.5)]).astype(np.float32)
    values = np.tile(np.array([0, 0, -60, -60], np.float32), (300, 1))  # boxes too small to overlap
    scores = np.zeros((300, 3), np.float32)
    scores[:, 1], scores[250, 2] = 0.6, 0.9
    found = select(Selection(300, Columns(0, 1, 3), (Columns(1, 0, 4),), CANDIDATES), [scores, values], 0.5)
    assert len(found.scores) == CANDIDATES
    places, classes, best = best_boxes(found, anchors, decode_boxes, 0.3)
    assert len(places) == MOST_BOXES and classes[:3].tolist() == [1, 0, 0]
    np.testing.assert_allclose(best[:3], [0.9, 0.6, 0.6], rtol=1e-6)
    np.testing.assert_allclose(places[:3, [0, 2]].mean(axis=1), anchors[[250, 0, 1], 0], atol=1e-6)


def test_the_least_score_of_logits() -> None:
    for probability in (0.0, 0.25, 0.5, 0.75, 1.0):
        assert abs(ssd.sigmoid(np.array(ssd.logit(probability))) - probability) < 2e-7
