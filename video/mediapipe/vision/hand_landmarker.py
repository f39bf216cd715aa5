"""HandLandmarker: 21 landmarks of each hand, in the picture and in metres, and whether it is a left or a right hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...basic_types import Array
from ..calculators.image_to_tensor import region_of
from ..calculators.landmarks import decode_landmarks, project_in_square, turn_world_landmarks
from ..calculators.rectangles import box_rectangles, hand_rectangle, transform_rectangles
from ..calculators.tracking import associate_hands, distinct_hands
from ..core.anchor_detector import AnchorDetector
from ..core.asset import read_files
from ..core.chain_models import ChainModels
from ..core.containers import Category, Landmark, NormalizedLandmark, normalized_landmarks, world_landmarks
from ..core.gpu_tracker import Found, GpuTracker
from ..core.network import TaskNetwork
from ..core.options import BaseOptions, VisionTaskRunningMode, check_count, check_share
from ..core.task import DetectingTask
from ..core.tracker import Tracker
from ..graphs.detecting import Settings
from .connections import HandLandmarksConnections as HandLandmarksConnections  # MediaPipe's module has it, too
from .hand_chain import hand_models
from .landmark_names import HandLandmark as HandLandmark

DETECTOR, LANDMARKS = "hand_detector.tflite", "hand_landmarks_detector.tflite"
PALM_STRIDES = (8, 16, 16, 16)
PALM_POINTS = 7
PALM_LINE = 0, 2
"""The key points of a palm, wrist and middle finger's base, whose line has the direction ``PALM_ANGLE`` in a region."""
PALM_ANGLE = 90.0
"""Radians, which are 117 degrees: MediaPipe's HandDetectorGraph sets 90 in the field of radians, and its results have
it so. Regions of followed hands point up.
"""
COUNT = 21
DEPTH = 0.4
"""The z of landmarks is in these shares of the region's width."""
SIDES = ("Right", "Left")
"""Categories by index: the network gives the probability of the first. They are those of a mirror picture."""


@dataclass
class HandLandmarkerOptions:
    """Options of a HandLandmarker.

    Attributes
    ----------
    base_options
        The bundle, hand_landmarker.task, and where it runs.
    running_mode
        Single pictures, a video, or a live stream. In the latter two hands are followed.
    num_hands
        The most hands.
    min_hand_detection_confidence
        The least score of a detected palm, from 0 to 1.
    min_hand_presence_confidence
        The least probability that a region has a hand, from 0 to 1; below it the hand is lost.
    min_tracking_confidence
        The overlap, from 0 to 1, above which a detected and a followed hand are the same.
    result_callback
        For the live-stream mode: called with the result, the picture and its timestamp.
    """

    base_options: BaseOptions
    running_mode: VisionTaskRunningMode = VisionTaskRunningMode.IMAGE
    num_hands: int = 1
    min_hand_detection_confidence: float = 0.5
    min_hand_presence_confidence: float = 0.5
    min_tracking_confidence: float = 0.5
    result_callback: Callable[[HandLandmarkerResult, Any, int], None] | None = None


@dataclass
class HandLandmarkerResult:
    """The hands in a picture.

    Attributes
    ----------
    handedness
        The side of each hand: one category, "Left" or "Right", as in a mirror picture.
    hand_landmarks
        21 landmarks of each hand in the picture.
    hand_world_landmarks
        21 landmarks of each hand in metres, from the hand's middle.
    """

    handedness: list[list[Category]]
    hand_landmarks: list[list[NormalizedLandmark]]
    hand_world_landmarks: list[list[Landmark]]


class Hand(NamedTuple):
    """A hand as rows."""

    landmarks: Array
    """(21, 3), in the picture."""
    world: Array
    """(21, 3), in metres."""
    right: float
    """The probability of a right hand, in a mirror picture."""
    presence: float
    """The probability that the region has a hand."""


class HandLandmarks:
    """The network of a hand's landmarks."""

    def __init__(self, network: TaskNetwork) -> None:
        self._side = network.side[1]
        outputs = ((1, 3 * COUNT), (1, 1), (1, 1), (1, 3 * COUNT))
        self._network = network.expect((1, self._side, self._side, 3), *outputs)

    def find(self, pixels: Any, rectangle: Array) -> Hand:
        """The hand in a rectangle (5) of a picture."""
        size = pixels.shape[1], pixels.shape[0]
        region = region_of(rectangle, size)
        outputs = self._network.run_on(pixels, region)
        values, presence, right, world = (outputs[number] for number in range(4))
        landmarks = decode_landmarks(values, COUNT, self._side, DEPTH)
        return Hand(
            project_in_square(landmarks, rectangle),
            turn_world_landmarks(world.reshape(COUNT, 3), region.rotation),
            float(right.ravel()[0]),
            float(presence.ravel()[0]),
        )


class HandPipeline:
    """The networks of hands. ``find`` gives rows; the task makes the result of them."""

    def __init__(self, options: HandLandmarkerOptions) -> None:
        for name in ("min_hand_detection_confidence", "min_hand_presence_confidence", "min_tracking_confidence"):
            check_share(name, getattr(options, name))
        check_count("num_hands", options.num_hands)
        files = read_files(options.base_options, (DETECTOR, LANDMARKS))
        delegate = options.base_options.delegate
        palms = TaskNetwork(files[DETECTOR], DETECTOR, delegate)
        confidence = options.min_hand_detection_confidence
        self._detector = AnchorDetector(palms, PALM_STRIDES, PALM_POINTS, confidence, 0.3)
        self._landmarks = HandLandmarks(TaskNetwork(files[LANDMARKS], LANDMARKS, delegate))
        self.on_gpu = GpuTracker(self.models, options.num_hands, self._result_of)
        self._options, self._files = options, files
        self._presence = options.min_hand_presence_confidence
        self._count = options.num_hands
        self._tracker = Tracker(options.num_hands, options.min_tracking_confidence, associate_hands)

    def find(self, pixels: Any, rectangle: Array, milliseconds: float | None) -> list[Hand]:
        """The hands in a picture; each once."""
        size = pixels.shape[1], pixels.shape[0]
        stream = milliseconds is not None

        def detect() -> Array:
            found = self._detector.find(pixels, rectangle)
            palms = box_rectangles(found.places, *PALM_LINE, size, target=PALM_ANGLE)
            return transform_rectangles(palms, size, 2.6, shift_y=-0.5)[: self._count]

        hands = [self._landmarks.find(pixels, region) for region in self._tracker.regions(detect, stream=stream)]
        hands = [hand for hand in hands if hand.presence > self._presence]
        hands = [hands[number] for number in distinct_hands([hand.landmarks for hand in hands], size)]
        if stream:
            self._tracker.follow([next_hand(hand.landmarks, size) for hand in hands])
        return hands

    def process(self, pixels: Any, rectangle: Array, milliseconds: int | None) -> HandLandmarkerResult:
        return _result(self.find(pixels, rectangle, milliseconds))

    def models(self, size: tuple[int, int]) -> ChainModels:
        """The chain's models for pictures of a size on the GPU."""
        options = self._options
        settings = Settings(
            options.num_hands, options.min_hand_detection_confidence, options.min_hand_presence_confidence,
            options.min_tracking_confidence, follows=options.running_mode is not VisionTaskRunningMode.IMAGE,
        )  # fmt: skip
        return hand_models(self._files, settings, size)

    def seen(self, found: Found) -> list[Hand]:
        """The hands in a picture on the GPU, as ``find`` gives those in an array."""
        return [hand_of(row, found.size) for row in found.rows]

    def _result_of(self, found: Found) -> HandLandmarkerResult:
        return _result(self.seen(found))


def hand_of(row: Array, size: tuple[int, int]) -> Hand:
    """The hand of a row of ``hand_models`` in a picture of ``size`` (width, height)."""
    landmarks = row[: 3 * COUNT].reshape(COUNT, 3) / np.array([*size, size[0]], np.float32)
    return Hand(landmarks, row[3 * COUNT : -3].reshape(COUNT, 3), float(row[-3]), float(row[-2]))


def _result(hands: list[Hand]) -> HandLandmarkerResult:
    return HandLandmarkerResult(
        [[side_of(hand)] for hand in hands],
        [normalized_landmarks(hand.landmarks) for hand in hands],
        [world_landmarks(hand.world) for hand in hands],
    )


def side_of(hand: Hand) -> Category:
    """The likelier side of a hand."""
    index = int(hand.right < 0.5)
    score = hand.right if index == 0 else float(1 - np.float32(hand.right))
    return Category(index, score, SIDES[index], SIDES[index])


def next_hand(landmarks: Array, size: tuple[int, int]) -> Array:
    """The rectangle (5) in which the hand's next frame is looked at."""
    return transform_rectangles(hand_rectangle(landmarks, size)[None], size, 2.0, shift_y=-0.1)[0]


class HandLandmarker(DetectingTask[HandLandmarkerOptions, HandLandmarkerResult]):
    """Finds the landmarks of hands, and follows them from frame to frame.

    Examples
    --------
    >>> from framebind import mp
    >>> mp.tasks.vision.HandLandmarker.create_from_model_path("missing.task")
    Traceback (most recent call last):
    framebind.video.mediapipe.core.errors.MissingModelError: Unable to open file at missing.task
    """

    options_type = HandLandmarkerOptions
    pipeline_type = HandPipeline
    takes_gpu_pictures = True
