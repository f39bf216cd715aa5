"""Statements of a model's file about itself: names, normalization and task; none, if it is damaged."""

from __future__ import annotations

import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from framebind.video.model_metadata import MOST_BYTES, ModelMetadata, read_metadata
from support.demo_models import color_classifier
from support.model_metadata import with_files, with_flatbuffer, with_json

LABELS = {("german.txt", "de"): "rot\ngrün\nblau", ("names.txt", ""): "red\ngreen\nblue\n"}


def read(folder: Path, content: bytes) -> ModelMetadata:
    (path := folder / "model.tflite").write_bytes(content)
    return read_metadata(path)


def test_metadata_of_tensorflow_lite_has_labels_and_normalization(tmp_path: Path) -> None:
    content = with_flatbuffer(color_classifier(), mean=[127.5], std=[51.0, 127.5, 255.0], labels=LABELS)
    found = read(tmp_path, content)
    assert found.classes == ("red", "green", "blue"), "the file without a language"
    assert found.mean == pytest.approx((0.5,)) and found.std == pytest.approx((0.2, 0.5, 1.0))
    assert read(tmp_path, with_flatbuffer(color_classifier(), mean=[0.0], std=[0.0], labels={})).mean == ()
    assert read(tmp_path, color_classifier()) == ModelMetadata()


def test_metadata_of_a_model_of_mediapipe(tmp_path: Path, model_path: Callable[[str], Path]) -> None:
    """``face_detector.tflite`` of MediaPipe's bundle, whose metadata a tool of Google's wrote."""
    bundle = model_path("selfie_segmentation").with_name("face_landmarker.task")
    if not bundle.is_file():
        pytest.skip(f"{bundle} is not there")
    with zipfile.ZipFile(bundle) as archive:
        found = read(tmp_path, archive.read("face_detector.tflite"))
        assert (found.mean, found.std) == (pytest.approx((0.5,)), pytest.approx((0.5,)))
        found = read(tmp_path, archive.read("face_landmarks_detector.tflite"))
        assert (found.mean, found.std) == ((0.0,), (1.0,))


def test_metadata_of_ultralytics(tmp_path: Path) -> None:
    content = with_json(
        color_classifier(), task="pose", names={"0": "person", "1": "dog"}, stride=32, end2end=False, kpt_shape=[17, 3],
        head="Pose",
        imgsz=[640, 640], description="a model",
    )  # fmt: skip
    expected = ModelMetadata("pose", ("person", "dog"), head="Pose", stride=32, end_to_end=False, key_points=(17, 3))
    assert read(tmp_path, content) == expected


@pytest.mark.parametrize(
    "entries",
    [
        dict(task=1, head=2, names=7, stride="x", end2end="yes", kpt_shape=[1]),
        dict(names={"0": "a", "2": "b"}, stride=-1, kpt_shape=["a", 2]),
        dict(names=["a", 1], stride=True, kpt_shape=[0, 10**9]),
        dict(names=["a"] * 70_000),
    ],
)
def test_senseless_metadata_counts_as_absent(tmp_path: Path, entries: dict[str, Any]) -> None:
    assert read(tmp_path, with_json(color_classifier(), **entries)) == ModelMetadata()


def test_what_is_too_large_or_no_json_counts_as_absent(tmp_path: Path) -> None:
    large = b'{"task": "' + b"x" * MOST_BYTES + b'"}'
    for text in (large, b"[" * 100_000, b"[1]", b"\xff", b""):
        assert read(tmp_path, with_files(color_classifier(), {"metadata.json": text})) == ModelMetadata()
    labels = {("names.txt", ""): "a\n" * (MOST_BYTES // 2 + 1)}
    assert not read(tmp_path, with_flatbuffer(color_classifier(), mean=[1.0], std=[1.0], labels=labels)).classes


def test_damaged_files_raise_nothing(tmp_path: Path) -> None:
    chosen = random.Random(0)
    models = [
        with_flatbuffer(color_classifier(), mean=[127.5], std=[127.5], labels=LABELS),
        with_json(color_classifier(), task="detect", names=["a", "b"]),
    ]
    for number in range(400):
        content = bytearray(models[number % 2])
        for _ in range(chosen.randint(1, 8)):
            content[chosen.randrange(len(content))] = chosen.choice((0, 1, 0x7F, 0x80, 0xFF, chosen.randrange(256)))
        end = chosen.choice((len(content), chosen.randrange(len(content))))
        found = read(tmp_path, bytes(content[:end]))
        assert len(found.classes) <= 3
    assert read_metadata(tmp_path / "none.tflite") == ModelMetadata()
