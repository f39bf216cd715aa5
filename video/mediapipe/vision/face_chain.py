"""Faces on the GPU: detector, landmarks and blendshapes with nothing read in between."""

from __future__ import annotations

from collections.abc import Mapping

from ...basic_types import Size
from ...embedded_network import input_side
from ..core.chain_models import ChainModels, letterbox, normalization_of
from ..graphs.detecting import Settings, detecting
from ..graphs.face import BLENDSHAPES, COUNT, FACE, looking


def face_models(files: Mapping[str, bytes], settings: Settings, size: Size) -> ChainModels:
    """The chain's models of a bundle's files, which were checked, for pictures of ``size`` (width, height).

    A row has 478 x, y and z in pixels (of the width for z), 52 blendshapes
    if their network is in ``files``, and the probability of a face, or 0 if there is none.
    """
    detector, landmarks = files["face_detector.tflite"], files["face_landmarks_detector.tflite"]
    blendshapes = files.get("face_blendshapes.tflite")
    side = input_side(landmarks)
    look, feedback = looking(landmarks, blendshapes, size, side, settings)
    rows = 3 * COUNT + (BLENDSHAPES if blendshapes is not None else 0) + 1
    return ChainModels(
        detecting(detector, FACE, letterbox(size), size, side, settings), look, feedback,
        [normalization_of(each) for each in (detector, landmarks)],
        settings.count, rows, input_side(detector),
    )  # fmt: skip
