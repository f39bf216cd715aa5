"""Draws boxes around faces, with six points each, or around objects, upright or turned with them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import framebind as fb

from ..basic_types import Array
from ..head import Found, in_pixels, sound
from ..heads import best_fit, decoder_of
from ..sampling import Crop, Values
from ..task import Finder, Fit, Model, Run, VideoTask
from ..vision.captions import draw_notice, draw_tag
from ..vision.labels import add_names, class_names
from ..vision.non_max_suppression import overlaps
from ..vision.one_euro import OneEuro
from ..vision.palette import palette

SAME_OBJECT_OVERLAP = 0.3
"""Least overlap (intersection over union) of the boxes of one object in two successive frames."""
MIN_CUTOFF, BETA = 1.0, 60.0
"""Parameters of the One-Euro filter: least cutoff in Hz, and Hz more for a speed of one picture per second."""


@dataclass
class Detection:
    """An object. ``places`` is in pixels of the picture: left, top, right, bottom, then x and y of each point."""

    places: Array
    score: float
    number: int
    smooth: OneEuro
    is_oriented: bool = False
    """The points are the four corners of a box with an angle, in order."""


def fits(model: Model) -> Fit | None:
    """Whether a head knows the model's outputs."""
    return best_fit(model, "detect")


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
    decoder = decoder_of(model, "detect")
    names = class_names(labels, decoder.classes, model.metadata.classes, decoder.names)
    crop = decoder.crop(model, size)
    sampling = decoder.sampling(model, crop, mean, std)
    least, found = decoder.least if score is None else score, list[Detection]()

    def find(run: Run) -> list[dict[str, Any]]:
        nonlocal found
        found = match(detections(decoder.decode(run.outputs(sampling), least), crop), found)
        add_names(names, [each.number for each in found])
        return [as_row(each, names) for each in found]

    return Finder(find, lambda marks: draw_boxes(marks, found, names, size))


def as_row(found: Detection, names: list[str]) -> dict[str, Any]:
    """An object as values for JSON: box as left, top, right, bottom, and points or corners as x, y."""
    places = [round(float(value), 2) for value in found.places]
    points = [places[at : at + 2] for at in range(4, len(places), 2)]
    row: dict[str, Any] = {"class": names[found.number], "score": round(found.score, 4), "box": places[:4]}
    return row | {"corners" if found.is_oriented else "points": points}


def detections(found: Found, crop: Crop) -> list[Detection]:
    """The objects, in pixels of the picture, of which the model saw ``crop``. Each gets a filter of its own."""
    found = sound(found)
    is_oriented = found.corners is not None
    points = found.corners if is_oriented else found.points
    points = np.zeros((len(found.boxes), 0), np.float32) if points is None else points
    places = np.concatenate([found.boxes, points.reshape(len(points), math.prod(points.shape[1:]))], axis=1)
    return [
        Detection(place, float(score), int(number), OneEuro(MIN_CUTOFF, BETA / max(crop[2:])), is_oriented)
        for place, number, score in zip(in_pixels(places, crop), found.classes, found.scores, strict=True)
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
        points = [(float(x), float(y)) for x, y in each.places[4:].reshape(-1, 2)]
        if each.is_oriented:
            for start, end in zip(points, [*points[1:], points[0]], strict=True):
                marks.line(*start, *end, color, thick)
        else:
            marks.box(left, top, right - left, bottom - top, color, thick, 3 * thick)
            for x, y in points:
                marks.point(x, y, color, 3 * thick)
        draw_tag(marks, f"{names[each.number]} {each.score:.0%}", left - thick / 2, top, color, size)


TASK = VideoTask("face_detection_front", finder, options=("labels", "mean", "std"), fits=fits)
