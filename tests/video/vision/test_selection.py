"""Boxes selected on the GPU against the same in NumPy."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.video.vision import boxes, ssd
from framebind.video.vision.selection import MOST_BOXES, Boxes, selector

Array = npt.NDArray[Any]
CLASSES, FIRST = {"faces": 1, "objects": 5}, {"faces": 0, "objects": 1}

pytestmark = pytest.mark.usefixtures("context")


def select(scores: Array, values: Array, coding: Literal["faces", "objects"], least: float, overlap: float) -> Array:
    """The texels that the GPU selects: (1 + parts, MOST_BOXES, 4)."""
    buffers = [fb.GlBuffer(array.nbytes, array) for array in (scores, values)]
    parts, anchors = values.shape[1] // 4, anchors_of(len(scores))
    read = Boxes(
        *buffers, anchors, classes=scores.shape[1], parts=parts, first=FIRST[coding], overlap=overlap, coding=coding
    )
    return selector(read)(least).read()


def anchors_of(count: int) -> Array:
    return np.random.default_rng(1).uniform(0.1, 0.9, (count, 4)).astype(np.float32)


@pytest.mark.parametrize(("likely", "spread"), [(0.0, 1.0), (0.2, 1.0), (0.9, 0.1)])
@pytest.mark.parametrize("coding", ["faces", "objects"])
@pytest.mark.parametrize("context", ["gl", "gles"], indirect=True)
def test_the_gpu_selects_the_boxes_that_numpy_selects(
    coding: Literal["faces", "objects"], likely: float, spread: float
) -> None:
    """``likely`` of 300 anchors reach the least score; with ``spread`` below 1 boxes are small and few overlap."""
    random, size = np.random.default_rng(int(100 * likely)), 16 if coding == "faces" else 4
    scores = random.uniform(0, 1, (300, CLASSES[coding])).astype(np.float32)
    scores[:, FIRST[coding] :] *= (random.uniform(0, 1, (300, 1)) < likely).astype(np.float32)
    scores[7] = scores[8]  # of equal scores, the first anchor is the better one
    values = random.normal(0, 10, (300, size)).astype(np.float32)
    values[:, 2:4] = 128 * spread * random.uniform(0.1, 0.5, (300, 2)) if coding == "faces" else 5 * np.log(spread)
    texels = select(scores, values, coding, 0.4, 0.3)
    expected = boxes.select(scores, values, anchors_of(300), least=0.4, first=FIRST[coding], overlap=0.3, coding=coding)
    count = int(expected[0, :, 2].sum())
    assert count == {0.0: 0, 0.9: MOST_BOXES}.get(likely, count)
    np.testing.assert_array_equal(texels[0], expected[0])
    np.testing.assert_allclose(texels[1:], expected[1:], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_score_that_is_no_number_is_no_box() -> None:
    scores = np.array([[np.nan], [0.9], [-np.inf], [0.5]], np.float32)
    values = np.zeros((4, 16), np.float32)
    values[:, :4] = np.array([[0, 0, 8, 8], [0, 0, 8, 8], [0, 0, 8, 8], [64, 0, 8, 8]])
    texels = select(scores, values, "faces", 0.5, 0.3)
    np.testing.assert_allclose(texels[0, :3, 0], [0.9, 0.5, 0])


def test_the_least_score_of_logits() -> None:
    for probability in (0.0, 0.25, 0.5, 0.75, 1.0):
        assert abs(ssd.sigmoid(np.array(ssd.logit(probability))) - probability) < 2e-7
