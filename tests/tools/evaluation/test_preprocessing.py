"""Pictures for evaluation are prepared as TensorFlow Lite's tools prepare them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ai_edge_litert.interpreter as litert
import cv2
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

import framebind as fb
from framebind.tools.evaluation import preprocessing
from support.tiny_models import G, Op, T, build


@pytest.mark.parametrize(
    ("old", "new"), [((7, 11), (5, 4)), ((5, 4), (9, 9)), ((100, 63), (224, 224)), ((3, 3), (3, 3))]
)
def test_pictures_are_resized_as_litert_resizes_without_half_pixels(old: tuple[int, int], new: tuple[int, int]) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (*old, 3), dtype=np.uint8)
    tensors = [T("picture", (1, *old, 3)), T("size", (2,), new, "int32"), T("resized", (1, *new, 3))]
    options: Any = schema.ResizeBilinearOptionsT()
    model = build(G(tensors, [Op("RESIZE_BILINEAR", [0, 1], [2], options)], [0], [2]))
    interpreter = litert.Interpreter(model_content=model)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, picture.astype(np.float32)[None])
    interpreter.invoke()
    np.testing.assert_allclose(preprocessing.resize(picture, new), interpreter.get_tensor(2)[0], atol=1e-3)


@pytest.mark.parametrize(
    ("size", "box"),
    [
        ((8, 8), (0, 0, 7)),  # a margin of half a pixel: rounded away from 0, it is 1, and 7 + 1 are 8
        ((100, 200), (6, 56, 88)),  # 87.5 is 88; (200 - 88) / 2
        ((480, 640), (30, 110, 420)),
    ],
)
def test_the_middle_that_is_kept(size: tuple[int, int], box: tuple[int, int, int]) -> None:
    height, width = size
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    picture = np.stack([rows % 256, columns % 256, columns // 256], axis=-1).astype(np.uint8)
    kept = preprocessing.inception_crop(picture)
    top, left, side = box
    if size == (8, 8):
        top = left = 1
    assert kept.shape == (side, side, 3)
    assert (int(kept[0, 0, 0]), int(kept[0, 0, 1])) == (top, left)


def test_tensors_of_each_type() -> None:
    pixels = np.array([[[0.0, 127.5, 255.0]]], np.float32)
    np.testing.assert_array_equal(preprocessing.to_tensor(pixels, np.float32).ravel(), [-1, 0, 1])
    np.testing.assert_array_equal(preprocessing.to_tensor(pixels, np.uint8).ravel(), [0, 127, 255])
    np.testing.assert_array_equal(preprocessing.to_tensor(pixels, np.int8).ravel(), [-128, 0, 127])
    with pytest.raises(fb.ModelError, match="not int32"):
        preprocessing.to_tensor(pixels, np.int32)


def test_folders_without_pictures_and_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(fb.SourceError, match="has no picture"):
        preprocessing.list_pictures(tmp_path)
    with pytest.raises(fb.SourceError, match="is no folder"):
        preprocessing.list_pictures(tmp_path / "nowhere")
    for name in ("b.PNG", "a.jpg", "notes.txt"):
        (tmp_path / name).write_text("no picture")
    assert [path.name for path in preprocessing.list_pictures(tmp_path)] == ["a.jpg", "b.PNG"]
    with pytest.raises(fb.SourceError, match=r"a.jpg' is no picture"):
        preprocessing.load(tmp_path / "a.jpg")
    cv2.imwrite(str(tmp_path / "c.png"), np.full((2, 3, 3), (1, 2, 3), np.uint8))
    np.testing.assert_array_equal(preprocessing.load(tmp_path / "c.png")[0, 0], [3, 2, 1])
