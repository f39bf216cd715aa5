"""``framebind evaluate coco``: average precisions that can be computed by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

import framebind as fb
from framebind.__main__ import app
from framebind.tools.evaluation import coco
from framebind.tools.evaluation.runner import open_side, stored
from framebind.video.model_file import read_model_file
from support import tiny_models
from support.demo_models import two_boxes

# What the detector finds in every picture: a cat (COCO's 17) and a dog (18), which are the model's classes 16 and 17.
BOXES = np.array([[[0.1, 0.2, 0.5, 0.6], [0.5, 0.0, 1.0, 0.5], [0.0, 0.0, 1.0, 1.0]]], np.float32)
CLASSES = np.array([[16, 17, 0]], np.float32)
SCORES = np.array([[0.9, 0.8, 0.7]], np.float32)
COUNT = np.array([2], np.float32)


def annotation(number: int, picture: int, category: int, box: list[float]) -> dict[str, Any]:
    return {
        "id": number,
        "image_id": picture,
        "category_id": category,
        "bbox": box,
        "area": box[2] * box[3],
        "iscrowd": 0,
    }


# Picture 1 (200 x 100) has the cat where it is found, and a dog that overlaps its box by 0.62 (31 of 50 columns of the
# same rows). Picture 2 (100 x 100) has no cat, and a dog elsewhere.
ANNOTATIONS = {
    "images": [
        {"id": 1, "file_name": "one.png", "width": 200, "height": 100},
        {"id": 2, "file_name": "two.png", "width": 100, "height": 100},
        {"id": 3, "file_name": "missing.png", "width": 100, "height": 100},
    ],
    "categories": [{"id": 17, "name": "cat"}, {"id": 18, "name": "dog"}],
    "annotations": [
        annotation(1, 1, 17, [40, 10, 80, 40]),
        annotation(2, 1, 18, [0, 50, 62, 50]),
        annotation(3, 2, 18, [60, 0, 30, 30]),
        annotation(4, 3, 17, [0, 0, 10, 10]),
    ],
}
# The cat: the first of two boxes of one score is right, so the precision is 1 at every recall. The dog: up to an
# overlap of 0.6 the first box is right, and one of two dogs is found: the precision is 1 at 51 of the 101 recalls:
# those from 0 to 0.5.
AVERAGE = [(1 + 51 / 101) / 2] * 3 + [1 / 2] * 7


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """The command line for the two pictures."""
    (tmp_path / "detector.tflite").write_bytes(tiny_models.constants(BOXES, CLASSES, SCORES, COUNT))
    (tmp_path / "annotations.json").write_text(json.dumps(ANNOTATIONS))
    cv2.imwrite(str(tmp_path / "one.png"), np.zeros((100, 200, 3), np.uint8))
    cv2.imwrite(str(tmp_path / "two.png"), np.zeros((100, 100, 3), np.uint8))
    images = ["--ground_truth_images_path", str(tmp_path)]
    annotations = ["--annotations", str(tmp_path / "annotations.json")]
    return ["evaluate", "coco", str(tmp_path / "detector.tflite"), *images, *annotations]


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("context", ["gl"], indirect=True)
class TestCommand:
    def test_precisions_are_those_computed_by_hand(self, arguments: list[str], tmp_path: Path) -> None:
        done = CliRunner().invoke(app, [*arguments, "--output", str(tmp_path / "kept.json")])
        assert done.exit_code == 0, done.output
        content = json.loads((tmp_path / "kept.json").read_text())
        assert content["pictures"] == 2, "those of the annotations that are in the folder"
        for side in ("GPU", "CPU"):
            found = content["average_precision"][side]
            assert list(found["average_precision"]) == [str(round(0.5 + 0.05 * n, 2)) for n in range(10)]
            np.testing.assert_allclose(list(found["average_precision"].values()), AVERAGE, atol=1e-6)
            assert found["mAP"] == pytest.approx(np.mean(AVERAGE))
        rows = [line.split() for line in done.output.splitlines()]
        assert ["mAP", f"{np.mean(AVERAGE):.4f}", f"{np.mean(AVERAGE):.4f}"] in rows

    def test_other_categories_find_nothing(self, arguments: list[str], tmp_path: Path) -> None:
        done = CliRunner().invoke(app, [*arguments, "--class-offset", "2", "--limit", "1", "--json"])
        assert done.exit_code == 0, done.output
        content = json.loads(done.output[done.output.index("{") :])
        # What is called a dog is the cat's box, and the other one is no category of the file.
        assert (content["pictures"], content["average_precision"]["GPU"]["mAP"]) == (1, 0.0)

    def test_a_model_with_other_outputs_is_an_error(self, arguments: list[str], tmp_path: Path) -> None:
        (tmp_path / "detector.tflite").write_bytes(tiny_models.constants(BOXES, CLASSES))
        done = CliRunner().invoke(app, arguments)
        assert isinstance(done.exception, fb.ModelError)
        assert "is no model of the task 'detect'" in str(done.exception) and "boxes 1xNx4" in str(done.exception)


@pytest.mark.parametrize("has_names", [True, False])
@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_a_head_finds_the_boxes(has_names: bool, arguments: list[str], tmp_path: Path) -> None:
    """YOLO's person and truck, classes 0 and 7 of 12, letterboxed: 50 pixels are above the picture of 200 x 100."""
    content = two_boxes()
    numbers = {"person": 30, "truck": 20} if has_names else {str(number): 10 + 10 * number for number in range(12)}
    person, truck = (30, 20) if has_names else (10, 80)
    (tmp_path / "detector.tflite").write_bytes(content if has_names else content[: content.index(b"PK\3\4")])
    truth = {
        "images": ANNOTATIONS["images"][:1],
        "categories": [{"id": number, "name": name} for name, number in numbers.items()],
        "annotations": [annotation(1, 1, person, [75, 0, 50, 100]), annotation(2, 1, truck, [25, 25, 50, 50])],
    }
    (tmp_path / "annotations.json").write_text(json.dumps(truth))
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output[done.output.index("{") :])["average_precision"]
    assert [found[side]["mAP"] for side in ("GPU", "CPU")] == pytest.approx([1.0, 1.0])


def test_pictures_for_a_head_are_letterboxed_in_its_colour(tmp_path: Path) -> None:
    (path := tmp_path / "detector.tflite").write_bytes(two_boxes())
    cv2.imwrite(str(tmp_path / "one.png"), np.full((32, 64, 3), 255, np.uint8))
    detector = coco.detector_of(read_model_file(path))
    side = open_side("CPU", path, lambda path, outputs: None, None, 1)
    tensor = detector.prepare(tmp_path / "one.png", side)
    assert tensor.dtype == np.float32 and tensor.shape == (1, 64, 64, 3)
    np.testing.assert_allclose(tensor[0, :, 0, 0], [114 / 255] * 16 + [1.0] * 32 + [114 / 255] * 16)
    scaled = {"dtype": np.int8, "quantization": (0.5, 3)}
    assert stored(np.array([-90.0, 0.2, 0.3, 99.0]), scaled).tolist() == [-128, 3, 4, 127]


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"images": 3}', '{"images": [{"file_name": "a"}], "annotations": [], "categories": []}'],
)
def test_what_is_no_annotation_file_is_an_error(content: str, tmp_path: Path) -> None:
    path = tmp_path / "annotations.json"
    path.write_text(content)
    with pytest.raises(fb.SourceError, match=r"annotations.json' is no COCO annotation file"):
        coco.read_truth(path)


def test_names_that_lead_out_of_the_folder_are_no_pictures(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "secret.png").write_text("not yours")
    path = tmp_path / "annotations.json"
    picture = {"id": 1, "file_name": "../secret.png", "width": 1, "height": 1}
    path.write_text(json.dumps({"images": [picture], "annotations": [], "categories": []}))
    with pytest.raises(fb.SourceError, match="has none of the pictures"):
        coco.choose_pictures(tmp_path / "pictures", coco.read_truth(path))
