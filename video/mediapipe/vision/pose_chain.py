"""Persons on the GPU: detector, landmarks and their heat maps with nothing read in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import framebind as fb

from ...embedded_network import input_side
from ...model_metadata import read_metadata
from ..core.chain import Chain, ChainModels, Normalization, Size, letterbox
from ..graphs.detecting import Settings, detecting
from ..graphs.pose import COUNT, PERSON, VALUES, Steady, looking


def pose_chain(
    files: Mapping[str, bytes], settings: Settings, size: Size, api: fb.Backend, *, masks: bool = False,
    steady: Steady | None = None, suppression: float = PERSON.overlap,
) -> Chain:  # fmt: skip
    """The chain of a bundle's files, which were checked, for pictures of ``size`` (width, height).

    A row has x, y and z in pixels (of the width for z), visibility, presence, x, y and z in metres of 33 landmarks,
    the probability of a person, and the number of the region from 1 on, or 0 if nobody is there. With ``masks`` a frame
    also writes the mask of each region, (1, height, width, 1), zeros if nobody is there. Two detections that overlap by
    more than ``suppression`` are one person.
    """
    detector, landmarks = files["pose_detector.tflite"], files["pose_landmarks_detector.tflite"]
    side = input_side(landmarks)
    look, feedback = looking(landmarks, size, side, settings, masks=masks, steady=steady)
    kind = replace(PERSON, overlap=suppression)
    normalizations = [read_metadata(each) for each in (detector, landmarks)]
    models = ChainModels(
        detecting(detector, kind, letterbox(size), size, side, settings),
        look, feedback, [Normalization(each.mean or (0.0,), each.std or (1.0,)) for each in normalizations],
        settings.count, VALUES * COUNT + 2, input_side(detector), settings.count if masks else 0,
    )  # fmt: skip
    return Chain(models, size, api)
