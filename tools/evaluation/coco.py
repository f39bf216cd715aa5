"""Mean average precision of a detector on pictures with COCO annotations, by pycocotools.

After tensorflow/lite/tools/evaluation/tasks/coco_object_detection; pycocotools is COCO's own evaluation code.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

import framebind as fb

from ...video.vision.ssd import is_selected, selected
from .preprocessing import load, resize

Array = npt.NDArray[Any]

MOST_BYTES = 2**31
"""The largest size of an annotation file."""


class Detections:
    """Collects a detector's boxes in COCO's form: picture, category, (left, top, width, height) in pixels, score.

    The detector has the four outputs of TFLite_Detection_PostProcess, in this order: boxes (1, N, 4), top, left,
    bottom, right from 0 to 1; classes (1, N); scores (1, N); the number of boxes (1).
    """

    def __init__(self, truth: Truth, class_offset: int) -> None:
        self._truth, self._offset = truth, class_offset
        self.rows: list[dict[str, Any]] = []

    def __call__(self, path: Path, outputs: Sequence[Array]) -> None:
        """Add a picture's boxes. Raises ModelError for outputs of another form."""
        shapes = [output.shape for output in outputs]
        if not is_selected(shapes):
            raise fb.ModelError(
                f"a detector has the outputs boxes 1xNx4, classes 1xN, scores 1xN and their number, not {shapes}"
            )
        picture = self._truth.pictures[path.name]
        height, width = picture["height"], picture["width"]
        for place, number, score in zip(*selected(outputs), strict=True):
            left, top, right, bottom = map(float, place)
            sides = [left * width, top * height, (right - left) * width, (bottom - top) * height]
            self.rows.append({
                "image_id": picture["id"], "category_id": int(number) + self._offset, "bbox": sides,
                "score": float(score),
            })  # fmt: skip


@dataclass(frozen=True)
class Truth:
    """An annotation file: pycocotools' object, and its pictures by file name."""

    coco: Any
    pictures: dict[str, Any]


@dataclass(frozen=True)
class Precision:
    """Average precision over all categories: at each threshold of the overlap, and the mean of these (mAP)."""

    thresholds: list[float]
    average: list[float]
    mean: float


def read_truth(annotations: Path) -> Truth:
    """Read a COCO annotation file. Raises SourceError if it is none, or if pycocotools is missing."""
    COCO, _ = _pycocotools()  # noqa: N806
    try:
        if annotations.stat().st_size > MOST_BYTES:
            raise fb.SourceError(f"'{annotations}' is larger than {MOST_BYTES >> 30} GiB")
        content = json.loads(annotations.read_text(encoding="utf-8"))
        coco = COCO()
        coco.dataset = content
        with contextlib.redirect_stdout(io.StringIO()):
            coco.createIndex()
        pictures = {str(picture["file_name"]): picture for picture in content["images"]}
        for picture in pictures.values():
            picture["height"], picture["width"] = int(picture["height"]), int(picture["width"])
        for annotation in content["annotations"]:
            annotation.setdefault("iscrowd", 0)
            annotation.setdefault("area", float(annotation["bbox"][2]) * float(annotation["bbox"][3]))
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise fb.SourceError(f"'{annotations}' is no COCO annotation file: {type(error).__name__} {error}") from error
    return Truth(coco, pictures)


def choose_pictures(folder: Path, truth: Truth) -> list[Path]:
    """The pictures of a folder that the annotations name, sorted by name. Raises SourceError if there are none."""
    if not folder.is_dir():
        raise fb.SourceError(f"'{folder}' is no folder of pictures")
    found = [folder / name for name in sorted(truth.pictures) if Path(name).name == name and (folder / name).is_file()]
    if not found:
        raise fb.SourceError(f"the folder '{folder}' has none of the pictures that the annotations name")
    return found


def prepare(path: Path, size: tuple[int, int]) -> Array:
    """The whole picture at the model's size (height, width)."""
    return resize(load(path), size)


def precision(truth: Truth, rows: Sequence[dict[str, Any]], pictures: Sequence[Path]) -> Precision:
    """The average precision of boxes on the pictures that were run."""
    _, COCOeval = _pycocotools()  # noqa: N806
    numbers = [truth.pictures[path.name]["id"] for path in pictures]
    with contextlib.redirect_stdout(io.StringIO()):
        if not rows:  # pycocotools takes no empty list
            thresholds = np.arange(0.5, 1.0, 0.05)
            return Precision([round(float(t), 2) for t in thresholds], [0.0] * len(thresholds), 0.0)
        judge = COCOeval(truth.coco, truth.coco.loadRes(list(rows)), "bbox")
        judge.params.imgIds = numbers
        judge.evaluate()
        judge.accumulate()
    found = cast("Array", judge.eval["precision"])[:, :, :, 0, 2]  # threshold, recall, category; all areas; 100 boxes
    average = [float(each[each > -1].mean()) if (each > -1).any() else 0.0 for each in found]
    return Precision([round(float(t), 2) for t in judge.params.iouThrs], average, float(np.mean(average)))


def _pycocotools() -> tuple[Any, Any]:
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError as error:
        raise fb.SourceError("evaluating on COCO needs pycocotools: pip install pycocotools") from error
    return COCO, COCOeval
