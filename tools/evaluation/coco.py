"""Mean average precision of a detector on pictures with COCO annotations, by pycocotools.

After tensorflow/lite/tools/evaluation/tasks/coco_object_detection; pycocotools is COCO's own evaluation code.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

import framebind as fb

from ...video.head import Decoder, in_pixels, sound
from ...video.heads import best_fit, decoder_of
from ...video.model_file import ModelFile
from ...video.sampling import Crop, sampled
from ...video.vision.ssd import is_selected
from .preprocessing import load, resize
from .runner import Prepare, Side, as_tflite, stored

Array = npt.NDArray[Any]

TASKS = ("detect", "instances", "pose")
"""The tasks whose heads find boxes."""
LEAST = 0.001
"""Least score of a box, that of ultralytics' and DETR's own evaluations."""
NUMBERED = {90: 1, 91: 0}
"""COCO's category of class 0 by the number of classes, of detectors that count by COCO's numbers."""
MOST_BYTES = 2**31
"""The largest size of an annotation file."""


class Detections:
    """Collects a detector's boxes in COCO's form: picture, category, (left, top, width, height) in pixels, score."""

    def __init__(self, truth: Truth, detector: Detector, categories: Callable[[int], int | None]) -> None:
        """``categories`` gives COCO's category of a class; None: the box does not count."""
        self._truth, self._detector, self._categories = truth, detector, categories
        self.rows: list[dict[str, Any]] = []

    def __call__(self, path: Path, outputs: Sequence[Array]) -> None:
        """Add a picture's boxes."""
        picture, detector = self._truth.pictures[path.name], self._detector
        found = sound(detector.decoder.decode(outputs, detector.least))
        boxes = in_pixels(found.boxes, detector.crop((picture["width"], picture["height"])))
        for box, number, score in zip(boxes, found.classes, found.scores, strict=True):
            left, top, right, bottom = map(float, box)
            if (category := self._categories(int(number))) is not None:
                self.rows.append({
                    "image_id": picture["id"], "category_id": category, "bbox": [left, top, right - left, bottom - top],
                    "score": float(score),
                })  # fmt: skip


class Detector(NamedTuple):
    """A detector: its file, the arithmetic of the head that knows it, and whether the model selects its boxes itself by
    TFLite_Detection_PostProcess.
    """

    model: ModelFile
    decoder: Decoder
    is_tflite: bool

    @property
    def least(self) -> float:
        """Least score of a box that counts: low, because precision is measured at every recall."""
        return 0.0 if self.is_tflite else LEAST

    def crop(self, size: tuple[int, int]) -> Crop:
        """The part of a picture of ``size`` (width, height) that the model sees."""
        return self.decoder.crop(self.model, size)

    @property
    def prepare(self) -> Prepare:
        """The preparation of pictures: that of TensorFlow Lite's tools for their detectors, else the head's own."""
        return as_tflite(whole) if self.is_tflite else self._sampled

    def _sampled(self, path: Path, side: Side) -> Array:
        pixels, (height, width, *_) = load(path), side.picture
        sampling = self.decoder.sampling(self.model, self.crop((pixels.shape[1], pixels.shape[0])))
        picture = sampled(pixels, (height, width), sampling)
        picture = (picture - np.asarray(sampling.mean, np.float32)) / np.asarray(sampling.std, np.float32)
        return stored(side.picture.to_tensor(picture), side.input)

    def categories(self, truth: Truth, offset: int | None) -> Callable[[int], int | None]:
        """COCO's category of a class: by ``offset`` if it is given, by the names in the model's file, or else as the
        kind of detector counts: from category 1 on (90 classes, as TensorFlow's), by category (91, as DETR's), or by
        the categories in order (80, as YOLO's).
        """
        known = {str(each["name"]): int(each["id"]) for each in truth.coco.dataset["categories"]}
        names, classes = self.model.metadata.classes, self.decoder.classes
        if offset is None and any(name in known for name in names):
            return lambda number: known.get(names[number]) if number < len(names) else None
        if offset is None and not self.is_tflite and classes not in NUMBERED:
            ordered = sorted(known.values())
            return lambda number: ordered[number] if number < len(ordered) else None
        shift = offset if offset is not None else 1 if self.is_tflite else NUMBERED[classes or 0]
        return lambda number: number + shift


def detector_of(model: ModelFile) -> Detector:
    """The detector in a model's file. Raises ModelError if no head knows it."""
    fits = {task: fit for task in TASKS if (fit := best_fit(model, task)) is not None}
    task = max(fits, key=lambda name: fits[name].match, default=TASKS[0])
    return Detector(model, decoder_of(model, task), is_selected(list(model.outputs.values())))


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


def whole(path: Path, size: tuple[int, int]) -> Array:
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
