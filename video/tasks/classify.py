"""Shows the five likeliest classes of each frame."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

import framebind as fb

from ..basic_types import Array
from ..sampling import Crop, Values
from ..task import Finder, Fit, Match, Model, Run, VideoTask, picture_of, sampling_of
from ..vision.captions import GROUND, text_height
from ..vision.labels import read_labels
from ..vision.palette import Color

SHOWN = 5
"""Number of classes that are shown."""
BAR: Color = (0.2, 0.6, 1.0)
DIM: Color = (0.45, 0.5, 0.58)
TRACK = (1.0, 1.0, 1.0, 0.15)
"""Colours of the bars: of the likeliest class, of the others, and of their background."""


def fits(model: Model) -> Fit | None:
    """Whether the model's one output has a score for each class."""
    shapes = list(model.outputs.values())
    if picture_of(model) is None or len(shapes) != 1 or math.prod(shapes[0]) != max(shapes[0], default=0):
        return None
    if model.metadata.task == "classify":
        return Fit(Match.METADATA, "its file says that it classifies")
    count = math.prod(shapes[0])
    return Fit(Match.SHAPES, f"its one output is {count} numbers, as scores of classes are") if count > 1 else None


def finder(
    model: Model,
    size: tuple[int, int],
    labels: Path | None = None,
    mean: Values | None = None,
    std: Values | None = None,
) -> Finder:
    """Find the likeliest classes in the middle of each frame.

    Raises ModelError for a model that is no classifier, SourceError for labels that are not this model's.
    """
    names = read_labels(labels, _classes(model), model.metadata.classes)
    # Ultralytics' classifiers, which say so, take 0 to 1; those of TensorFlow's zoo -1 to 1.
    usual = (0.0, 1.0) if model.metadata.task else (0.5, 0.5)
    sampling = sampling_of(model, mean, std, usual=usual, crop=middle(size))
    found = list[tuple[int, float]]()

    def find(run: Run) -> list[dict[str, Any]]:
        nonlocal found
        (scores,) = run.outputs(sampling)
        found = best(scores.ravel())
        return as_rows(found, names)

    return Finder(find, lambda marks: draw_best(marks, found, names, size))


def as_rows(found: list[tuple[int, float]], names: list[str]) -> list[dict[str, Any]]:
    """The likeliest classes as values for JSON."""
    return [{"class": names[number], "score": round(score, 4)} for number, score in found]


def _classes(model: Model) -> int:
    """The number of a classifier's classes. Raises ModelError for another model."""
    shapes = list(model.outputs.values())
    classes = math.prod(shapes[0])
    if len(model.inputs) != 1 or len(shapes) != 1 or classes < 2 or classes != max(shapes[0]):
        raise fb.ModelError(
            f"{model.path.name} is no classifier: its outputs are {shapes}; framebind inspect names its task"
        )
    return classes


def middle(size: tuple[int, int]) -> Crop:
    """The largest square (x, y, width, height) in the middle of a picture of ``size`` (width, height)."""
    side = float(min(size))
    return (size[0] - side) / 2, (size[1] - side) / 2, side, side


def best(scores: Array) -> list[tuple[int, float]]:
    """The likeliest classes as (number, probability), best first. ``scores`` are probabilities or logits."""
    if scores.min() < 0 or scores.max() > 1:
        powers = np.exp(scores - scores.max())
        scores = powers / powers.sum()
    order = np.argsort(-scores, kind="stable")[:SHOWN]
    return [(int(number), float(scores[number])) for number in order]


def draw_best(marks: fb.video.Marks, found: list[tuple[int, float]], names: list[str], size: tuple[int, int]) -> None:
    """Draw a line for each class at the top left: its probability, also as a bar, and its name."""
    height = text_height(size)
    line, margin = height + height // 4, height // 2
    bar, share = 4 * height, marks.text_width("100%", height)
    name = 2 * margin + bar + margin + share + margin
    widest = max(marks.text_width(names[number], height) for number, _ in found)
    wide = min(name + widest, size[0] - 2 * margin)
    marks.fill(margin, margin, wide, line * len(found) + margin, GROUND, margin)
    for place, (number, probability) in enumerate(found):
        y = margin + margin // 2 + place * line
        color = BAR if place == 0 else DIM
        marks.fill(2 * margin, y + line // 4, bar, line - 2 * (line // 4), TRACK, height / 4)
        marks.fill(2 * margin, y + line // 4, max(probability * bar, 2.0), line - 2 * (line // 4), color, height / 4)
        text = f"{probability:.0%}"
        marks.text(text, name - margin - marks.text_width(text, height), y + height // 8, height=height)
        marks.text(names[number], name, y + height // 8, height=height)


TASK = VideoTask("mobilenet_v1_1.0_224", finder, options=("labels", "mean", "std"), has_memory=False, fits=fits)
