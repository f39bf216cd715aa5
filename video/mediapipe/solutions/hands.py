"""``mp.solutions.hands``: the landmarks of hands."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...basic_types import Array
from ..calculators.image_to_tensor import WHOLE
from ..calculators.rectangles import box_rectangles, transform_rectangles
from ..calculators.tracking import associate
from ..core.anchor_detector import AnchorDetector
from ..core.asset import read_files
from ..core.chain_models import ChainModels
from ..core.gpu_tracker import Found, GpuTracker
from ..core.network import TaskNetwork
from ..core.tracker import Tracker
from ..graphs.detecting import Settings
from ..graphs.hand import SOLUTION_PALM
from ..vision.connections import HandLandmarksConnections as Lines
from ..vision.hand_chain import hand_models
from ..vision.hand_landmarker import (
    DETECTOR,
    LANDMARKS,
    PALM_LINE,
    PALM_POINTS,
    PALM_STRIDES,
    Hand,
    HandLandmarks,
    hand_of,
    next_hand,
)
from ..vision.landmark_names import HandLandmark
from . import messages
from .messages import landmark_list, world_landmark_list
from .solution import Solution, model_of

__all__ = ["HAND_CONNECTIONS", "FoundHands", "HandLandmark", "Hands"]


HAND_CONNECTIONS = frozenset(map(tuple, Lines.HAND_CONNECTIONS))
HAND_PALM_CONNECTIONS = tuple(map(tuple, Lines.HAND_PALM_CONNECTIONS))
HAND_THUMB_CONNECTIONS = tuple(map(tuple, Lines.HAND_THUMB_CONNECTIONS))
HAND_INDEX_FINGER_CONNECTIONS = tuple(map(tuple, Lines.HAND_INDEX_FINGER_CONNECTIONS))
HAND_MIDDLE_FINGER_CONNECTIONS = tuple(map(tuple, Lines.HAND_MIDDLE_FINGER_CONNECTIONS))
HAND_RING_FINGER_CONNECTIONS = tuple(map(tuple, Lines.HAND_RING_FINGER_CONNECTIONS))
HAND_PINKY_FINGER_CONNECTIONS = tuple(map(tuple, Lines.HAND_PINKY_FINGER_CONNECTIONS))
OVERLAP = 0.5
"""The overlap above which what is followed and what is found are the same hand."""
SIDES = ("Left", "Right")
"""The sides by number. MediaPipe's tasks have the first two outputs' names the other way round."""


class FoundHands(NamedTuple):
    """The result of a picture; each field is None without a hand."""

    multi_hand_landmarks: list[Any] | None
    """A NormalizedLandmarkList of each hand: `mp.framework.formats.landmark_pb2` has the messages."""
    multi_hand_world_landmarks: list[Any] | None
    """A LandmarkList of each hand."""
    multi_handedness: list[Any] | None
    """A ClassificationList of each hand, with one side."""


class Hands(Solution[FoundHands]):
    """Finds 21 landmarks of each hand. It needs hand_landmarker.task, whose networks are those of complexity 1."""

    def __init__(
        self,
        static_image_mode: bool = False,
        max_num_hands: int = 2,
        model_complexity: int = 1,
        min_detection_confidence: float = 0.5,
        min_tracking_confidence: float = 0.5,
    ) -> None:
        super().__init__(is_static=static_image_mode)
        name = "hand_landmarker.task" if model_complexity else "hand_landmarker_lite.task"
        self._files = read_files(model_of(name), (DETECTOR, LANDMARKS))
        palms = TaskNetwork(self._files[DETECTOR], DETECTOR, None)
        self._detector = AnchorDetector(palms, PALM_STRIDES, PALM_POINTS, min_detection_confidence, 0.3)
        self._landmarks = HandLandmarks(TaskNetwork(self._files[LANDMARKS], LANDMARKS, None))
        self._presence, self._count = min_tracking_confidence, max_num_hands
        self._settings = Settings(
            max_num_hands, min_detection_confidence, min_tracking_confidence, OVERLAP, follows=not static_image_mode
        )
        self._on_gpu = GpuTracker(self._models, max_num_hands, _hands_of)
        self.reset()

    def reset(self) -> None:
        """Forget the hands so far."""
        super().reset()
        self._tracker = Tracker(self._count, OVERLAP, _followed_first)

    def _find(self, pixels: Any, milliseconds: float | None) -> FoundHands:
        size = pixels.shape[1], pixels.shape[0]

        def detect() -> Array:
            found = self._detector.find(pixels, WHOLE)
            palms = box_rectangles(found.places[: self._count], *PALM_LINE, size, target=math.pi / 2)
            return transform_rectangles(palms, size, 2.6, shift_y=-0.5)

        regions = self._tracker.regions(detect, stream=milliseconds is not None)
        hands = [self._landmarks.find(pixels, region) for region in regions]
        hands = [hand for hand in hands if hand.presence > self._presence]
        if milliseconds is not None:
            self._tracker.follow([next_hand(hand.landmarks, size) for hand in hands])
        return _found(hands)

    def _models(self, size: tuple[int, int]) -> ChainModels:
        return hand_models(self._files, self._settings, size, palm=SOLUTION_PALM, is_distinct=False)


def _hands_of(found: Found) -> FoundHands:
    return _found([hand_of(row, found.size) for row in found.rows])


def _found(hands: list[Hand]) -> FoundHands:
    if not hands:
        return FoundHands(None, None, None)
    return FoundHands(
        [landmark_list(hand.landmarks) for hand in hands],
        [world_landmark_list(hand.world) for hand in hands],
        [_side(hand) for hand in hands],
    )


def _followed_first(previous: Array, found: Array, overlap: float) -> Array:
    """The rectangles of both; what is followed replaces what is found there."""
    return associate(found, previous, overlap)


def _side(hand: Hand) -> Any:
    index = int(hand.right < 0.5)
    score = hand.right if index == 0 else float(1 - np.float32(hand.right))
    return messages.ClassificationList(classification=[{"index": index, "score": score, "label": SIDES[index]}])
