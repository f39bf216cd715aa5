"""The tasks that whole videos are put through, by name: how each is prepared, and its model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from .. import classification, detection, landmarks, poses, segmentation, style_transfer
from ..models import DEFAULT_STYLE
from ..player.task import Finder, Model, Scene, Task

TaskName = Literal["style", "segment", "matte", "detect", "landmarks", "poses", "classify"]
TASKS: dict[str, tuple[Callable[[Scene], Task], str]] = {
    "style": (style_transfer.prepare, DEFAULT_STYLE),
    "segment": (segmentation.prepare, "deeplabv3_257_mv_gpu"),
    "matte": (partial(segmentation.prepare, effect="cutout"), "selfie_segmentation"),
    "detect": (detection.prepare, "face_detection_front"),
    "landmarks": (landmarks.prepare, "pose_landmark_lite"),
    "poses": (poses.prepare, "multi_person_mobilenet_v1_075_float"),
    "classify": (classification.prepare, "mobilenet_v1_1.0_224"),
}
"""Tasks by name: how each is prepared, and its model unless another is named."""
WITHOUT_MEMORY = frozenset({"style", "classify"})
"""Tasks whose results do not depend on the frames before: the others smooth what they find over time."""

FINDERS: dict[str, Callable[[Model, tuple[int, int]], Finder]] = {
    "segment": segmentation.finder,
    "matte": partial(segmentation.finder, effect="cutout"),
    "detect": detection.finder,
    "landmarks": landmarks.finder,
    "poses": poses.finder,
    "classify": classification.finder,
}
"""The same results by NumPy from a model's outputs, without a picture; "style" has none."""
