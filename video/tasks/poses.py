"""Draws the skeletons of all people (PoseNet, YOLO-pose)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np

import framebind as fb

from ..head import in_pixels, sound
from ..heads import best_fit, decoder_of
from ..layouts import PictureShape
from ..network import Crop, Sampling
from ..task import Finder, Fit, Match, Model, Run, Variant, VideoTask, maps_of, picture_of
from ..vision.captions import draw_notice
from ..vision.labels import add_names, class_names
from ..vision.one_euro import OneEuro
from ..vision.palette import Color, palette
from ..vision.posenet import KEY_POINTS, MOST_PEOPLE, TREE, Outputs, Person, decode_one, decode_people, from_tensors
from ..vision.regions import fitted

People = Literal["several", "one"]

LEAST_SCORE = 0.3
"""Least score of a person, and of a key point, that is drawn, unless the user gives another."""
MIN_CUTOFF, BETA = 0.5, 60.0
"""Parameters of the One-Euro filter: least cutoff in Hz, and Hz more for a speed of one picture per second."""
SAME_PERSON = 0.1
"""Mean distance of the key points of one person in two successive frames, at most, as a part of the picture."""
BONES = (*(bone for bone in TREE if bone not in ((0, 5), (0, 6))), (5, 6), (11, 12))
"""Key points that are joined by lines: the model's bones, with the shoulders and hips in place of the neck."""
Look = Callable[[Run, People, float], list["Followed"]]
"""Finds people whose score is the given one or more, all of them or one, without their past."""
_COLORS: list[Color] = palette(2 * MOST_PEOPLE)[::2]
_CHANNELS = {"heatmap": 17, "offset": 34, "displacement_fwd": 32, "displacement_bwd": 32}
"""The channels of each output, by a part of its name."""


class Followed:
    """A person over several frames: key points in pixels of the picture, smoothed."""

    def __init__(self, person: Person, crop: Crop, scale: tuple[float, float]) -> None:
        """Place a person, whose points times ``scale`` are pixels of ``crop``."""
        self.places = person.places * np.array(scale, np.float32) + np.array(crop[:2], np.float32)
        self.scores, self.score = person.scores, person.score
        self.smooth = OneEuro(MIN_CUTOFF, BETA / max(crop[2:]))
        self.name, self.box = "person", list[float]()


def finder(model: Model, size: tuple[int, int], people: People = "several", score: float = LEAST_SCORE) -> Finder:
    """Find the people in each frame, and smooth their key points.

    ``people`` chooses between the key points of several people, and the best ones in the picture as one person's. Its
    two values are variants. ``score`` is the least score of a person, and of a key point that is drawn. Raises
    ModelError for a model without PoseNet's outputs that no head knows either.
    """
    look = _by_head(model, size) if best_fit(model, "poses") else _by_posenet(model, size)
    found: list[Followed] = []
    mode: People = people

    def choose(new: People) -> None:
        nonlocal mode
        mode = new

    def find_all(run: Run) -> list[dict[str, Any]]:
        nonlocal found
        found = match(look(run, mode, score), found, SAME_PERSON * max(size))
        return as_rows(found)

    modes: tuple[People, ...] = ("several", "one") if people == "several" else ("one", "several")
    names = {"several": "several people", "one": "one person"}
    return Finder(
        find_all,
        lambda marks: draw_people(marks, found, size, score),
        variants=[Variant(names[each], partial(choose, each)) for each in modes],
    )


def _by_posenet(model: Model, size: tuple[int, int]) -> Look:
    """Make the function that finds people in PoseNet's outputs."""
    parts, stride = output_parts(model), _stride(model)
    picture = picture_of(model)
    assert picture is not None, "the parts were found"
    crop = fitted(size, picture.size)
    scale = crop[2] / picture.width, crop[3] / picture.height

    def look(run: Run, people: People, least: float) -> list[Followed]:
        outputs = dict(zip(model.outputs, run(Sampling(0.5, 0.5, crop, 0.0)), strict=True))
        last = [shape.from_tensor(outputs[tensor])[None] for tensor, shape in map(parts.__getitem__, _CHANNELS)]
        maps = from_tensors(*last, stride=stride)
        return [Followed(person, crop, scale) for person in find(maps, people, least)]

    return look


def _by_head(model: Model, size: tuple[int, int]) -> Look:
    """Make the function that finds people by the head that knows the model."""
    decoder = decoder_of(model, "poses")
    crop, names = decoder.crop(model, size), class_names(None, decoder.classes, model.metadata.classes, decoder.names)
    sampling = decoder.sampling(model, crop)

    def look(run: Run, people: People, least: float) -> list[Followed]:
        found = sound(decoder.decode(run(sampling), least))
        assert found.points is not None, "heads of poses find points"
        seen = np.ones(found.points.shape[:2], np.float32) if found.point_scores is None else found.point_scores
        add_names(names, found.classes.tolist())
        boxes, result = in_pixels(found.boxes, crop), list[Followed]()
        for number in range(len(boxes) if people == "several" else min(len(boxes), 1)):
            person = Followed(Person(found.points[number], seen[number], float(found.scores[number])), crop, crop[2:])
            person.name, person.box = names[int(found.classes[number])], boxes[number].astype(float).round(2).tolist()
            result.append(person)
        return result

    return look


def as_rows(found: list[Followed]) -> list[dict[str, Any]]:
    """People as values for JSON: their key points in the order of ``posenet.KEY_POINTS``, or of the model."""
    return [
        {
            "class": person.name, "score": round(person.score, 4), **({"box": person.box} if person.box else {}),
            "points": person.places.astype(float).round(2).tolist(),
            "point_scores": person.scores.astype(float).round(4).tolist(),
        }
        for person in found
    ]  # fmt: skip


def find(outputs: Outputs, people: People, least: float) -> list[Person]:
    """The people in PoseNet's outputs whose score is ``least`` or more."""
    if people == "several":
        return decode_people(outputs, least)
    person = decode_one(outputs)
    return [person] if person.score >= least else []


def match(found: list[Followed], before: list[Followed], reach: float) -> list[Followed]:
    """Smooth the people: each takes over the filter of the nearest person of the last frame within ``reach`` pixels."""
    left = list(before)
    for new in found:
        distances = [float(np.linalg.norm(new.places - old.places, axis=1).mean()) for old in left]
        if distances and min(distances) <= reach:
            new.smooth = left.pop(distances.index(min(distances))).smooth
        new.places = new.smooth(new.places)
    return found


def draw_people(marks: fb.video.Marks, found: list[Followed], size: tuple[int, int], least: float) -> None:
    """Draw key points of the score ``least`` or more, and bones between them; each person has a colour.

    If there is no person, say so.
    """
    if not found:
        draw_notice(marks, "no person found", size)
    thick = max(min(size) / 160, 2.0)
    for person, color in zip(found, itertools.cycle(_COLORS), strict=False):
        shown = person.scores >= least
        places = [(float(x), float(y)) for x, y in person.places]
        for start, end in BONES if len(places) == len(KEY_POINTS) else ():
            if shown[start] and shown[end]:
                marks.line(*places[start], *places[end], color, thick)
        for place, is_shown in zip(places, shown, strict=True):
            if is_shown:
                marks.point(*place, (1.0, 1.0, 1.0), 2.5 * thick)


def fits(model: Model) -> Fit | None:
    """Whether the model has PoseNet's outputs, or a head knows them."""
    is_known = len(_parts(model)) == len(_CHANNELS)
    posenet = Fit(Match.OUTPUTS, "its outputs have PoseNet's names and channels") if is_known else None
    return posenet or best_fit(model, "poses")


def output_parts(model: Model) -> dict[str, tuple[int, PictureShape]]:
    """The outputs and their sizes by a part of their names, as _CHANNELS has them.

    Raises ModelError for a model without them.
    """
    found = _parts(model)
    if len(found) < len(_CHANNELS):
        raise fb.ModelError(
            f"{model.path.name} is no PoseNet: it needs one picture and the outputs heatmap (1xRxCx17), offset "
            f"(1xRxCx34), displacement_fwd and displacement_bwd (1xRxCx32), not {list(model.outputs.values())}"
        )
    return found


def _parts(model: Model) -> dict[str, tuple[int, PictureShape]]:
    """The outputs of PoseNet that a model has, by name, all with as many cells."""
    found: dict[str, tuple[int, PictureShape]] = {}
    for tensor, shape in zip(model.outputs, maps_of(model), strict=True):
        part = next((part for part in _CHANNELS if part in model.names[tensor]), "")
        if part and shape is not None and shape.channels == _CHANNELS[part]:
            found[part] = tensor, shape
    return found if len({shape.size for _, shape in found.values()}) < 2 else {}


def _stride(model: Model) -> float:
    """Pixels of the model's input between two cells of its outputs."""
    rows, picture = output_parts(model)["heatmap"][1].height, picture_of(model)
    assert picture is not None, "the parts were found"
    return (picture.height - 1) / max(rows - 1, 1)


TASK = VideoTask("multi_person_mobilenet_v1_075_float", finder, fits=fits)
