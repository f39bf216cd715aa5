"""Whole persons on the GPU: body, face and hands with nothing read in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...basic_types import Size
from ...embedded_network import input_side
from ..core.chain_models import ROWS, ChainModels, Part, Sight, normalization_of
from ..graphs.detecting import Settings
from ..graphs.holistic import PartSettings, finding, looking, naming
from ..graphs.pose import Steady
from .pose_chain import pose_models

NAMED, FOUND, WHOLE_ROWS = ("named face", "named hands"), ("face", "hands"), "rows of the whole"


def holistic_models(
    files: Mapping[str, bytes], settings: Settings, parts: PartSettings, size: Size, *, masks: bool, steady: Steady,
    suppression: float,
) -> ChainModels:  # fmt: skip
    """The chain's models of a bundle's files, which were checked, for pictures of ``size`` (width, height).

    A row is that of ``graphs.holistic.looking``. The rest is as for ``pose_models``.
    """
    detector, recrop = files["face_detector.tflite"], files["hand_roi_refinement.tflite"]
    face, hands = files["face_landmarks_detector.tflite"], files["hand_landmarks_detector.tflite"]
    blendshapes = files["face_blendshapes.tflite"] if parts.has_blendshapes else None
    sides = input_side(face), input_side(hands)
    further = naming(size, input_side(detector), input_side(recrop))
    body = pose_models(files, settings, size, masks=masks, steady=steady, suppression=suppression, further=further)
    find = Part(
        finding(detector, recrop, size, sides, parts),
        [Sight(NAMED[0], 1, normalization_of(detector), 0.0), Sight(NAMED[1], 2, normalization_of(recrop))],
        [*NAMED, *([WHOLE_ROWS] if parts.follows else [])], FOUND,
    )  # fmt: skip
    look = Part(
        looking(face, hands, blendshapes, sides, parts),
        [Sight(FOUND[0], 1, normalization_of(face)), Sight(FOUND[1], 2, normalization_of(hands))],
        [*FOUND, ROWS], [WHOLE_ROWS],
    )  # fmt: skip
    return replace(body, columns=parts.columns, gives=NAMED, parts=[find, look])
