"""Hands on the GPU: palms and landmarks with nothing read in between."""

from __future__ import annotations

from collections.abc import Mapping

from ...basic_types import Size
from ...embedded_network import input_side
from ..core.chain_models import ChainModels, letterbox, normalization_of
from ..graphs.detecting import Kind, Settings, detecting
from ..graphs.hand import COUNT, PALM, looking


def hand_models(
    files: Mapping[str, bytes], settings: Settings, size: Size, *, palm: Kind = PALM, is_distinct: bool = True
) -> ChainModels:
    """The chain's models of a bundle's files, which were checked, for pictures of ``size`` (width, height).

    A row has 21 x, y and z in pixels (of the width for z) and in metres,
    the probabilities of a right hand and of a hand, and 1 if there is a hand, else 0. With ``is_distinct`` a hand that
    is like an earlier one is left out.
    """
    detector, landmarks = files["hand_detector.tflite"], files["hand_landmarks_detector.tflite"]
    side = input_side(landmarks)
    return ChainModels(
        detecting(detector, palm, letterbox(size), size, side, settings),
        looking(landmarks, size, side, settings, is_distinct=is_distinct),
        {},
        [normalization_of(each) for each in (detector, landmarks)],
        settings.count,
        6 * COUNT + 3,
        input_side(detector),
    )
