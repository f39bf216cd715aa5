"""Draws boxes around faces, with six points each, or around objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import framebind as fb

from ..network import Crop, Values
from ..task import Finder, Fit, Match, Model, Run, VideoTask, picture_of, sampling_of
from ..vision import boxes, ssd
from ..vision.captions import draw_notice, draw_tag
from ..vision.labels import names_without_background, read_labels
from ..vision.non_max_suppression import overlaps
from ..vision.one_euro import OneEuro
from ..vision.palette import palette

Array = npt.NDArray[Any]

SAME_OBJECT_OVERLAP = 0.3
"""Least overlap (intersection over union) of the boxes of one object in two successive frames."""
MIN_CUTOFF, BETA = 1.0, 60.0
"""Parameters of the One-Euro filter: least cutoff in Hz, and Hz more for a speed of one picture per second."""


@dataclass(frozen=True)
class Detector:
    """A known model: its anchors, and the format of its outputs."""

    anchors: Array
    coding: Literal["faces", "objects"]
    """The coding of its boxes; see boxes.py."""
    parts: int
    """Number of values for each anchor, a box and points, in fours."""
    first: int
    """Number of the first class that is not the background."""
    least: float
    """Least score of a box that is shown, unless the user gives another."""
    overlap: float
    """Largest overlap of two boxes of the same class."""
    stretched: bool
    """True if frames are stretched to a square, as in the model's training; else they lie unscaled in a larger one."""


@dataclass
class Detection:
    """An object. ``places`` is in pixels of the picture: left, top, right, bottom, then x and y of each point."""

    places: Array
    score: float
    number: int
    smooth: OneEuro


def faces() -> Detector:
    """MediaPipe's face_detection_front. Six points: right eye, left eye, nose, mouth, right ear, left ear."""
    return Detector(ssd.face_anchors(), "faces", 4, 0, 0.75, 0.3, stretched=False)


def objects() -> Detector:
    """mobile_ssd_v2_float_coco, of TensorFlow Lite's guide to its GPU delegate."""
    return Detector(ssd.coco_anchors(), "objects", 1, 1, 0.5, 0.5, stretched=True)


def fits(model: Model) -> Fit | None:
    """Whether the model is a known detector, or ends with TFLite_Detection_PostProcess."""
    shapes = list(model.outputs.values())
    if picture_of(model) is None:
        return None
    if ssd.is_selected(shapes):
        return Fit(Match.OUTPUTS, "its four outputs are those of TFLite_Detection_PostProcess")
    if _known(shapes) is not None:
        return Fit(Match.OUTPUTS, f"its outputs {shapes} are those of a detector that is known here")
    return None


def finder(
    model: Model,
    size: tuple[int, int],
    score: float | None = None,
    labels: Path | None = None,
    mean: Values | None = None,
    std: Values | None = None,
) -> Finder:
    """Find faces or objects, and smooth their boxes.

    ``score`` is the least score of a box, from 0 to 1; None takes the detector's own. Raises ModelError for a model
    that is not a known detector.
    """
    if ssd.is_selected(list(model.outputs.values())):
        names, crop = names_without_background(labels, model.metadata.classes), whole(size)

        def look(outputs: Sequence[Array]) -> list[Detection]:
            return _detected(outputs, size, score, names)
    else:
        detector, classes = _detector(model)
        known = model.metadata.classes or (["face"] if classes == 1 else [])
        names = read_labels(labels, classes, known)
        crop = whole(size) if detector.stretched else square(size)
        select = selector(detector, classes, list(model.outputs.values()), score)

        def look(outputs: Sequence[Array]) -> list[Detection]:
            return detect(select(outputs), crop)

    sampling, found = sampling_of(model, mean, std, usual=(0.5, 0.5), crop=crop), list[Detection]()

    def find(run: Run) -> list[dict[str, Any]]:
        nonlocal found
        found = match(look(run(sampling)), found)
        return [as_row(each, names) for each in found]

    return Finder(find, lambda marks: draw_boxes(marks, found, names, size))


def selector(
    detector: Detector, classes: int, shapes: Sequence[tuple[int, ...]], score: float | None
) -> Callable[[Sequence[Array]], Array]:
    """Make a function that selects boxes in a detector's outputs, which have these shapes: texels for ``detect``.

    Models put out probabilities or logits. The first frame says which: a score below 0 is no probability.
    """
    width, is_logit = 4 * detector.parts, None
    numbers = {shape[-1]: number for number, shape in enumerate(shapes)}
    least = detector.least if score is None else score

    def select(outputs: Sequence[Array]) -> Array:
        nonlocal is_logit
        values = outputs[numbers[width]].reshape(-1, width)
        scores = outputs[numbers[classes]].reshape(-1, classes)
        if is_logit is None:
            is_logit = bool(np.nanmin(scores) < 0)
        texels = boxes.select(
            scores, values, detector.anchors, least=ssd.logit(least) if is_logit else least,
            first=detector.first, overlap=detector.overlap, coding=detector.coding,
        )  # fmt: skip
        if is_logit:
            texels[0, :, 0] = ssd.sigmoid(texels[0, :, 0])
        return texels

    return select


def _detected(
    outputs: Sequence[Array], size: tuple[int, int], score: float | None, names: list[str]
) -> list[Detection]:
    """The objects that TFLite_Detection_PostProcess selected, and that are likely enough. Classes that ``names`` lacks
    are added to it.
    """
    boxes, least = ssd.selected(outputs), 0.5 if score is None else score
    names += [f"class {number}" for number in range(len(names), max([0, *boxes.classes + 1]))]
    return [
        Detection(place * np.tile(size, 2), float(each), int(number), OneEuro(MIN_CUTOFF, BETA / max(size)))
        for place, number, each in zip(*boxes, strict=True)
        if each >= least
    ]


def whole(size: tuple[int, int]) -> Crop:
    """The whole picture (x, y, width, height)."""
    return 0.0, 0.0, float(size[0]), float(size[1])


def as_row(found: Detection, names: list[str]) -> dict[str, Any]:
    """An object as values for JSON: box as left, top, right, bottom, and points as x, y."""
    places = [round(float(value), 2) for value in found.places]
    points = [places[at : at + 2] for at in range(4, len(places), 2)]
    return {"class": names[found.number], "score": round(found.score, 4), "box": places[:4], "points": points}


def square(size: tuple[int, int]) -> Crop:
    """The smallest square (x, y, width, height) around the middle that holds a picture of ``size`` (width, height)."""
    side = float(max(size))
    return (size[0] - side) / 2, (size[1] - side) / 2, side, side


def detect(texels: Array, crop: Crop) -> list[Detection]:
    """The objects in the texels (1 + parts, boxes, 4) that ``boxes.select`` makes, the likeliest first.

    ``crop`` is the part of the picture that the model saw.
    """
    count, pairs = int(texels[0, :, 2].sum()), 2 * (len(texels) - 1)
    places = texels[1:, :count].transpose(1, 0, 2).reshape(count, pairs, 2)
    places = (places * np.array(crop[2:], np.float32) + np.array(crop[:2], np.float32)).reshape(count, 2 * pairs)
    return [
        Detection(place, float(score), int(number), OneEuro(MIN_CUTOFF, BETA / max(crop[2:])))
        for place, (score, number) in zip(places, texels[0, :count, :2], strict=True)
    ]


def match(found: list[Detection], before: list[Detection]) -> list[Detection]:
    """Smooth the objects: each takes over the filter of the object of the last frame that it overlaps most."""
    left = list(before)
    for new in found:
        same = [old for old in left if old.number == new.number]
        if same:
            shares = overlaps(new.places[:4], np.stack([old.places[:4] for old in same]))
            if shares.max() > SAME_OBJECT_OVERLAP:
                old = same[int(shares.argmax())]
                new.smooth = old.smooth
                left = [other for other in left if other is not old]
        new.places = new.smooth(new.places)
    return found


def draw_boxes(marks: fb.video.Marks, found: list[Detection], names: list[str], size: tuple[int, int]) -> None:
    """Draw boxes and points, and on the upper edge of each box its class and score; or say that there is none."""
    if not found:
        draw_notice(marks, f"no {names[0] if len(names) == 1 else 'object'} found", size)
    colors, thick = palette(len(names)), max(min(size) / 200, 2.0)
    for each in found:
        left, top, right, bottom = map(float, each.places[:4])
        color = colors[each.number]
        marks.box(left, top, right - left, bottom - top, color, thick, 3 * thick)
        for x, y in each.places[4:].reshape(-1, 2):
            marks.point(float(x), float(y), color, 3 * thick)
        draw_tag(marks, f"{names[each.number]} {each.score:.0%}", left - thick / 2, top, color, size)


def _known(shapes: Sequence[tuple[int, ...]]) -> tuple[Callable[[], Detector], int] | None:
    """The known detector with outputs of these shapes, which is made by a call, and the number of its classes."""
    ends = sorted(shape[-2:] for shape in shapes)
    if ends == [(896, 1), (896, 16)]:
        return faces, 1
    if len(ends) == 2 and ends[0] == (2034, 4) and ends[1][0] == 2034:
        return objects, ends[1][1]
    return None


def _detector(model: Model) -> tuple[Detector, int]:
    if (found := _known(list(model.outputs.values()))) is not None:
        return found[0](), found[1]
    raise fb.ModelError(
        f"{model.path.name} is no detector that is known here: its outputs are {list(model.outputs.values())}, not "
        "1x896x16 and 1x896x1 (faces), 1x2034x4 and 1x2034x91 (SSD MobileNet v2 at 320x320) nor boxes "
        "1xNx4, classes 1xN, scores 1xN and their number (TFLite_Detection_PostProcess)"
    )


TASK = VideoTask("face_detection_front", finder, options=("labels", "mean", "std"), fits=fits)
