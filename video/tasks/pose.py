"""Draws the skeletons of persons: 33 landmarks of each (MediaPipe's PoseLandmarker), or the points of YOLO-pose."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import framebind as fb

from ..head import Found, in_pixels, sound
from ..heads import best_fit, decoder_of
from ..mediapipe import frames
from ..mediapipe.core.options import BaseOptions, VisionTaskRunningMode
from ..mediapipe.frames import bundle_fit, follow, point_fields, world_points
from ..mediapipe.marks import mark_pose
from ..mediapipe.vision.pose_landmarker import DETECTOR, LANDMARKS, Pose, PoseLandmarkerOptions, PosePipeline
from ..sampling import Crop
from ..task import Finder, Fit, Model, Run, VideoTask
from ..vision.captions import draw_notice
from ..vision.labels import add_names, class_names
from ..vision.one_euro import OneEuro
from ..vision.palette import Color, palette

LEAST_SCORE = 0.3
"""Least score of a head's person, and of a key point that is drawn."""
MIN_CUTOFF, BETA = 0.5, 60.0
"""Parameters of the One-Euro filter: least cutoff in Hz, and Hz more for a speed of one picture per second."""
SAME_PERSON = 0.1
"""Mean distance of the key points of one person in two successive frames, at most, as a part of the picture."""
BONES = (
    (0, 1), (1, 3), (0, 2), (2, 4), (5, 6), (5, 7), (7, 9), (6, 8), (8, 10), (5, 11), (6, 12), (11, 12), (11, 13),
    (13, 15), (12, 14), (14, 16),
)  # fmt: skip
"""Key points that are joined by lines, of the 17 of COCO: nose, eyes, ears, shoulders, elbows, wrists, hips, knees,
ankles, the left one first.
"""
COLORS: list[Color] = palette(20)[::2]


def finder(model: Model, size: tuple[int, int], most: int | None = None) -> Finder:
    """Find at most so many persons, and follow them: one by a bundle, all by a head, if nothing is said.

    Raises ModelError for a model that is no bundle of poses and of no head.
    """
    return _by_head(model, size, most) if not model.bundle else _by_bundle(model, size, most or 1)


def _by_bundle(model: Model, size: tuple[int, int], most: int) -> Finder:
    def pipeline(base: BaseOptions) -> PosePipeline:
        return PosePipeline(PoseLandmarkerOptions(base, VisionTaskRunningMode.VIDEO, most))

    find, poses = follow(model, ("pose", most), pipeline), list[Pose]()

    def find_rows(run: Run) -> list[dict[str, Any]]:
        nonlocal poses
        poses = find(run)
        return [row(pose) for pose in poses]

    def row(pose: Pose) -> dict[str, Any]:
        fields = {"class": "person", "score": round(pose.presence, 4), **point_fields(pose.landmarks, size)}
        return {**fields, "world_points": world_points(pose.world)}

    def mark(marks: fb.video.Marks) -> None:
        for pose in poses:
            mark_pose(marks, frames.in_pixels(pose.landmarks, size), pose.landmarks[:, 3], size)
        if not poses:
            draw_notice(marks, "no person found", size)

    return Finder(find_rows, mark)


class Person:
    """A head's person over several frames: key points (n, 2) in pixels of the picture, smoothed."""

    def __init__(self, found: Found, number: int, crop: Crop, box: list[float], name: str) -> None:
        """``found`` has persons, and points as parts of ``crop``; ``box`` is in pixels."""
        assert found.points is not None, "heads of poses find points"
        self.places = (found.points[number] * crop[2:] + crop[:2]).astype(np.float32)
        scores = found.point_scores
        self.scores = np.ones(len(self.places), np.float32) if scores is None else scores[number]
        self.score, self.box, self.name = float(found.scores[number]), box, name
        self.smooth = OneEuro(MIN_CUTOFF, BETA / max(crop[2:]))

    def row(self) -> dict[str, Any]:
        """The person as values for JSON."""
        points, scores = (values.astype(float) for values in (self.places, self.scores))
        row = {"class": self.name, "score": round(self.score, 4), "box": self.box}
        return {**row, "points": points.round(2).tolist(), "point_scores": scores.round(4).tolist()}


def _by_head(model: Model, size: tuple[int, int], most: int | None) -> Finder:
    decoder, persons = decoder_of(model, "pose"), list[Person]()
    crop, names = decoder.crop(model, size), class_names(None, decoder.classes, model.metadata.classes, decoder.names)
    sampling = decoder.sampling(model, crop)

    def find(run: Run) -> list[dict[str, Any]]:
        nonlocal persons
        found = sound(decoder.decode(run.outputs(sampling), LEAST_SCORE))
        add_names(names, found.classes.tolist())
        boxes = in_pixels(found.boxes, crop).astype(float).round(2).tolist()
        new = [Person(found, number, crop, box, names[found.classes[number]]) for number, box in enumerate(boxes)]
        persons = match(new[:most], persons, SAME_PERSON * max(size))
        return [person.row() for person in persons]

    return Finder(find, lambda marks: draw_persons(marks, persons, size))


def match(found: list[Person], before: list[Person], reach: float) -> list[Person]:
    """Smooth the persons: each takes over the filter of the nearest one of the last frame within ``reach`` pixels."""
    left = list(before)
    for new in found:
        distances = [float(np.linalg.norm(new.places - old.places, axis=1).mean()) for old in left]
        if distances and min(distances) <= reach:
            new.smooth = left.pop(distances.index(min(distances))).smooth
        new.places = new.smooth(new.places)
    return found


def draw_persons(marks: fb.video.Marks, found: list[Person], size: tuple[int, int]) -> None:
    """Draw visible key points, and the bones of COCO's between them; each person has a colour. Or say that none is."""
    if not found:
        draw_notice(marks, "no person found", size)
    thick = max(min(size) / 160, 2.0)
    for person, color in zip(found, itertools.cycle(COLORS), strict=False):
        shown = person.scores >= LEAST_SCORE
        places = [(float(x), float(y)) for x, y in person.places]
        for start, end in BONES if len(places) == 17 else ():
            if shown[start] and shown[end]:
                marks.line(*places[start], *places[end], color, thick)
        for place, is_shown in zip(places, shown, strict=True):
            if is_shown:
                marks.point(*place, (1.0, 1.0, 1.0), 2.5 * thick)


def fits(model: Model) -> Fit | None:
    """Whether the model is a bundle with a detector and the landmarks of persons, or a head knows it."""
    return bundle_fit(model, LANDMARKS, DETECTOR) or best_fit(model, "pose")


TASK = VideoTask("pose_landmarker", finder, options=("most",), fits=fits)
