"""Cuts people out: they are painted before a background of one colour."""

from __future__ import annotations

from functools import partial

from ..task import VideoTask
from . import segment

TASK = VideoTask(
    "selfie_segmentation",
    partial(segment.finder, effect="cutout"),
    partial(segment.drawing, effect="cutout"),
    saves=segment.TASK.saves,
)
