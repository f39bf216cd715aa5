"""Models of any outputs for heads, and comparison with what they find."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from framebind.video.head import Found
from framebind.video.model_file import ModelFile
from framebind.video.model_metadata import ModelMetadata

Array = npt.NDArray[Any]


def model_of(
    outputs: Sequence[Array], size: tuple[int, int], metadata: ModelMetadata | None = None, names: Sequence[str] = ()
) -> ModelFile:
    """A model with these outputs and a picture of ``size`` (height, width), as its file would describe it."""
    shapes = {number + 1: values.shape for number, values in enumerate(outputs)}
    return ModelFile(
        Path("yolo.tflite"), {0: (1, *size, 3)}, shapes, dict(enumerate(["picture", *(names or ["x"] * len(shapes))])),
        dict.fromkeys((0, *shapes), "nhwc"), choices={}, takes_bytes=False, metadata=metadata or ModelMetadata(),
        feedback={}, values={}, is_certain=True,
    )  # fmt: skip


def overlap(one: Sequence[float], other: Sequence[float]) -> float:
    """Intersection over union."""
    across = max(min(one[2], other[2]) - max(one[0], other[0]), 0)
    down = max(min(one[3], other[3]) - max(one[1], other[1]), 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return across * down / (sum(areas) - across * down)


def expected(boxes: Array, scores: Array, least: float, limit: float) -> list[tuple[int, float, list[float]]]:
    """Rows of predict: class, score and corners of the boxes (n, 4), centre and sizes, by scores (n, classes)."""
    found = list[tuple[int, float, list[float]]]()
    for row in sorted(range(len(boxes)), key=lambda row: -scores[row].max()):
        number, (x, y, width, height) = int(scores[row].argmax()), boxes[row]
        box = [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
        others = [other for kind, _, other in found if kind == number]
        if scores[row, number] >= least and all(overlap(box, other) <= limit for other in others):
            found.append((number, float(scores[row, number]), box))
    return found[:300]


def candidates(seed: int, size: tuple[int, int], strides: Sequence[int], classes: int) -> tuple[Array, Array]:
    """Boxes (n, 4) around the middles of cells, from 0 to 1, and scores (n, classes), a few of them high."""
    random, middles = np.random.default_rng(seed), list[Any]()
    for stride in strides:
        rows, columns = -(-size[0] // stride), -(-size[1] // stride)
        y, x = np.mgrid[:rows, :columns]
        middles.append(np.stack([(x + 0.5) / columns, (y + 0.5) / rows], axis=-1).reshape(-1, 2))
    centres = np.concatenate(middles) + random.normal(0, 0.02, (sum(map(len, middles)), 2))
    boxes = np.hstack([centres, random.uniform(0.1, 0.6, centres.shape)]).astype(np.float32)
    scores = (random.random((len(boxes), classes)) ** 12).astype(np.float32)
    return boxes, scores


def assert_found(found: Found, wanted: list[tuple[int, float, list[float]]]) -> None:
    assert wanted and found.classes.tolist() == [each[0] for each in wanted]
    np.testing.assert_allclose(found.scores, [each[1] for each in wanted], rtol=1e-6)
    np.testing.assert_allclose(found.boxes, [each[2] for each in wanted], atol=1e-6)
