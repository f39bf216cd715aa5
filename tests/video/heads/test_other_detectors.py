"""Boxes of queries and of EfficientDet, from random outputs, against the published formulas in plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from framebind.video.heads import best_fit, decoder_of
from framebind.video.heads.efficientdet import anchors_of
from framebind.video.heads.queries import IMAGENET, RTDETR
from framebind.video.layouts import PictureShape
from framebind.video.model_metadata import ModelMetadata
from framebind.video.task import Match
from support.heads import assert_found, model_of, overlap


def corners(box: np.ndarray) -> list[float]:
    x, y, width, height = map(float, box)
    return [x - width / 2, y - height / 2, x + width / 2, y + height / 2]


@pytest.mark.parametrize("boxes_first", [False, True])
@pytest.mark.parametrize(("queries", "values"), [(300, 80), (300, 91), (10, 1), (900, 3), (100, 92), (100, 5)])
def test_queries_are_decoded_by_the_formulas(queries: int, values: int, boxes_first: bool) -> None:
    random = np.random.default_rng(queries + values)
    # Float32 tells all of them apart, as logits and as probabilities.
    logits = random.permutation(np.linspace(-8, 2, queries * values, dtype=np.float32)).reshape(queries, values)
    logits[:5, 0] = np.arange(5, 10, dtype=np.float32)
    boxes = random.random((queries, 4)).astype(np.float32)
    pairs = list[tuple[float, int, int]]()
    for query, row in enumerate(logits.astype(float)):
        if queries == 100:  # softmax, the last class is "no object"
            powers = [math.exp(value) for value in row]
            score, number = max((power / sum(powers), -n) for n, power in enumerate(powers[:-1]))
            pairs.append((score, query, -number))
        else:
            pairs += [(1 / (1 + math.exp(-value)), query, number) for number, value in enumerate(row)]
    best = sorted(pairs, key=lambda pair: -pair[0])[:queries]
    wanted = [(number, score, corners(boxes[query])) for score, query, number in best if score >= 0.3]
    outputs = [boxes[None], logits[None]] if boxes_first else [logits[None], boxes[None]]
    model = model_of(outputs, (64, 96))
    fit, decoder = best_fit(model, "detect"), decoder_of(model, "detect")
    assert fit is not None and fit.match == Match.OUTPUTS
    assert (decoder.framing, decoder.classes) == ("stretched", values - (queries == 100))
    assert decoder.usual == (IMAGENET if queries == 100 or values > 90 else (0, 1))
    assert_found(decoder.decode(outputs, 0.3), wanted)


def test_queries_with_probabilities_and_those_of_ultralytics() -> None:
    random = np.random.default_rng(1)
    boxes, scores = random.random((300, 4)).astype(np.float32), random.random((300, 7)).astype(np.float32) ** 9
    model = model_of([scores[None], boxes[None]], (64, 64))
    best = sorted(np.ndindex(300, 7), key=lambda pair: -scores[pair])
    wanted = [(number, float(scores[query, number]), corners(boxes[query])) for query, number in best]
    wanted = [each for each in wanted[:300] if each[1] >= 0.5]
    assert_found(decoder_of(model, "detect").decode([scores[None], boxes[None]], 0.5), wanted)
    rows = np.column_stack([boxes, scores[:, 0], random.integers(0, 80, 300)]).astype(np.float32)
    model = model_of([rows[None]], (64, 64), ModelMetadata(task="detect", head=RTDETR, end_to_end=False))
    fit, decoder = best_fit(model, "detect"), decoder_of(model, "detect")
    assert fit is not None and (fit.match, decoder.framing) == (Match.METADATA, "stretched")
    order = sorted((row for row in rows if row[4] >= 0.5), key=lambda row: -row[4])
    assert_found(decoder.decode([rows[None]], 0.5), [(int(row[5]), float(row[4]), corners(row[:4])) for row in order])


def test_boxes_of_four_classes_are_known_by_their_name() -> None:
    outputs = [np.zeros((1, 50, 4), np.float32)] * 2
    assert best_fit(model_of(outputs, (64, 64)), "detect") is None
    named = model_of(outputs, (64, 64), names=["pred_boxes", "logits"])
    assert best_fit(named, "detect") is not None
    outputs = [np.full((1, 50, 4), 0.5, np.float32), np.eye(50, 4, dtype=np.float32)[None]]
    found = decoder_of(named, "detect").decode(outputs, 0.5)
    assert found.classes.tolist() == [0, 1, 2, 3] and found.boxes[0].tolist() == [0.25, 0.25, 0.75, 0.75]


@pytest.mark.parametrize(("size", "scale"), [((128, 128), 3.0), ((320, 320), 3.0), ((512, 512), 4.0)])
@pytest.mark.parametrize("is_logit", [False, True])
def test_efficientdet_is_decoded_by_the_formulas(size: tuple[int, int], scale: float, is_logit: bool) -> None:
    anchors = list[tuple[float, float, float, float]]()
    for level in range(3, 8):
        stride = 2**level
        for row in range(-(-size[0] // stride)):
            for column in range(-(-size[1] // stride)):
                for octave in range(3):
                    for ratio in (1.0, 2.0, 0.5):
                        base = scale * stride * 2 ** (octave / 3)
                        width, height = base * math.sqrt(ratio), base / math.sqrt(ratio)
                        x, y = (column + 0.5) * stride, (row + 0.5) * stride
                        anchors.append((x / size[1], y / size[0], width / size[1], height / size[0]))
    np.testing.assert_allclose(anchors_of(PictureShape(*size, 3)), anchors, rtol=1e-6)
    random = np.random.default_rng(0)
    values, scores = random.normal(0, 0.5, (len(anchors), 4)), np.full((len(anchors), 4 if is_logit else 90), 1e-3)
    chosen = random.choice(len(anchors), 12, replace=False)
    scores[chosen, random.integers(0, scores.shape[1], 12)] = np.linspace(0.95, 0.45, 12)
    wanted = list[tuple[int, float, list[float]]]()
    for each in chosen:
        (x, y, width, height), (dy, dx, dh, dw) = anchors[each], values[each]
        box = corners(np.array([x + dx * width, y + dy * height, width * math.exp(dw), height * math.exp(dh)]))
        number = int(scores[each].argmax())
        if all(kind != number or overlap(box, other) <= 0.5 for kind, _, other in wanted):
            wanted.append((number, float(scores[each, number]), box))
    given = np.log(scores / (1 - scores)) if is_logit else scores
    outputs = [given.astype(np.float32)[None], values.astype(np.float32)[None]]
    model = model_of(outputs[::-1], size)
    assert best_fit(model, "detect") is not None
    assert_found(decoder_of(model, "detect").decode(outputs[::-1], 0.4), wanted)
