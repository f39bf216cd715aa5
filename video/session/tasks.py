"""The tasks for whole videos, by name: their preparation, and their models."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..models import DEFAULT_STYLE
from ..task import Finder, Model, Scene, Task
from ..tasks import classification, detection, landmarks, poses, raw, segmentation, style_transfer
from ..work import MASKED, Work

TASKS: dict[str, tuple[Callable[..., Task], str]] = {
    "style": (style_transfer.prepare, DEFAULT_STYLE),
    "segment": (segmentation.prepare, "deeplabv3_257_mv_gpu"),
    "matte": (partial(segmentation.prepare, effect="cutout"), "selfie_segmentation"),
    "detect": (detection.prepare, "face_detection_front"),
    "landmarks": (landmarks.prepare, "pose_landmark_lite"),
    "poses": (poses.prepare, "multi_person_mobilenet_v1_075_float"),
    "classify": (classification.prepare, "mobilenet_v1_1.0_224"),
    "raw": (raw.prepare, ""),
}
"""Tasks by name: the function that prepares each, and its default model."""
WITHOUT_MEMORY = frozenset({"style", "classify", "raw"})
"""Tasks whose results do not depend on earlier frames: the others smooth their results over time."""

PAINTED = frozenset({"detect", "landmarks", "poses", "classify", *MASKED})
"""Tasks that the CPU can paint on the source's own frames."""
FINDERS: dict[str, Callable[..., Finder]] = {
    "segment": segmentation.finder,
    "matte": partial(segmentation.finder, effect="cutout"),
    "detect": detection.finder,
    "landmarks": landmarks.finder,
    "poses": poses.finder,
    "classify": classification.finder,
    "raw": raw.finder,
}
"""The same results by NumPy from a model's outputs, without a picture; "style" has none."""


def model_of(work: Work) -> str:
    """The model of the work: a file, or the name of a known one."""
    return work.model or TASKS[work.task][1]


def prepare(work: Work, scene: Scene) -> Task:
    """Prepare the task of the work on GL. Raises ModelError for a model of another task."""
    return TASKS[work.task][0](scene, **_options(work))


def make_finder(work: Work, model: Model, size: tuple[int, int]) -> Finder:
    """Prepare the task of the work without a picture, for frames of ``size``. Raises ModelError as ``prepare``."""
    return FINDERS[work.task](model, size, **_options(work))


def _options(work: Work) -> dict[str, Any]:
    if work.task == "raw":
        return {"mean": work.mean, "std": work.std}
    return {} if work.labels is None else {"labels": work.labels}
