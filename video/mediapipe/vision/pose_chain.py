"""Persons on the GPU: detector, landmarks and their heat maps with nothing read in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...basic_types import Size
from ...embedded_network import input_side
from ..core.chain_models import ChainModels, letterbox, normalization_of
from ..graphs.detecting import Settings, detecting
from ..graphs.pose import COUNT, PERSON, VALUES, Further, Steady, looking


def pose_models(
    files: Mapping[str, bytes], settings: Settings, size: Size, *, masks: bool = False, steady: Steady | None = None,
    suppression: float = PERSON.overlap, further: Further | None = None,
) -> ChainModels:  # fmt: skip
    """The chain's models of a bundle's files, which were checked, for pictures of ``size`` (width, height).

    A row has x, y and z in pixels (of the width for z), visibility, presence, x, y and z in metres of 33 landmarks,
    the probability of a person, and the number of the region from 1 on, or 0 if nobody is there. With ``masks`` a frame
    also writes the mask of each region, (1, height, width, 1), zeros if nobody is there. Two detections that overlap by
    more than ``suppression`` are one person. ``further`` makes further outputs of the second model.
    """
    detector, landmarks = files["pose_detector.tflite"], files["pose_landmarks_detector.tflite"]
    side = input_side(landmarks)
    look, feedback = looking(landmarks, size, side, settings, masks=masks, steady=steady, further=further)
    return ChainModels(
        detecting(detector, replace(PERSON, overlap=suppression), letterbox(size), size, side, settings),
        look, feedback, [normalization_of(each) for each in (detector, landmarks)],
        settings.count, VALUES * COUNT + 2, input_side(detector), settings.count if masks else 0,
    )  # fmt: skip
