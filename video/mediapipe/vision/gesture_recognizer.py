"""GestureRecognizer: hands, as HandLandmarker finds them, and the gesture of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...basic_types import Array
from ...bundles import read_bundle
from ..calculators.gestures import gesture_landmarks
from ..core.asset import read_files
from ..core.categories import CategoryFilter, ClassifierOptions
from ..core.containers import Category, Landmark, NormalizedLandmark, normalized_landmarks, world_landmarks
from ..core.gpu_tracker import Found, GpuTracker
from ..core.network import TaskNetwork
from ..core.options import BaseOptions, ImageProcessingOptions, VisionTaskRunningMode
from ..core.task import Picture, VisionTask
from .hand_landmarker import Hand, HandLandmarkerOptions, HandPipeline, side_of

HANDS, GESTURES = "hand_landmarker.task", "hand_gesture_recognizer.task"
EMBEDDER, CANNED, CUSTOM = (
    "gesture_embedder.tflite", "canned_gesture_classifier.tflite", "custom_gesture_classifier.tflite",
)  # fmt: skip
NOTHING = "None"
"""The label of no gesture."""


@dataclass
class GestureRecognizerOptions:
    """Options of a GestureRecognizer.

    Attributes
    ----------
    base_options
        The bundle, gesture_recognizer.task, and where it runs.
    running_mode, num_hands, min_hand_detection_confidence, min_hand_presence_confidence, min_tracking_confidence
        As in HandLandmarkerOptions.
    canned_gesture_classifier_options, custom_gesture_classifier_options
        The gestures that a result may have, of MediaPipe's own and of the bundle's own classifier.
    result_callback
        For the live-stream mode: called with the result, the picture and its timestamp.
    """

    base_options: BaseOptions
    running_mode: VisionTaskRunningMode = VisionTaskRunningMode.IMAGE
    num_hands: int = 1
    min_hand_detection_confidence: float = 0.5
    min_hand_presence_confidence: float = 0.5
    min_tracking_confidence: float = 0.5
    canned_gesture_classifier_options: ClassifierOptions = field(default_factory=ClassifierOptions)
    custom_gesture_classifier_options: ClassifierOptions = field(default_factory=ClassifierOptions)
    result_callback: Callable[[GestureRecognizerResult, Any, int], None] | None = None


@dataclass
class GestureRecognizerResult:
    """The hands in a picture, as in HandLandmarkerResult, and in ``gestures`` the gesture of each: one category."""

    gestures: list[list[Category]]
    handedness: list[list[Category]]
    hand_landmarks: list[list[NormalizedLandmark]]
    hand_world_landmarks: list[list[Landmark]]


class _Classifier:
    """A network from the embedding of a gesture to scores."""

    def __init__(self, content: bytes, name: str, options: ClassifierOptions) -> None:
        self._network = TaskNetwork(content, name, BaseOptions.Delegate.CPU)
        self._filter = CategoryFilter(options, self._network.metadata.classes)

    def best(self, embedding: Array) -> Category | None:
        """The best gesture; None if it is no gesture."""
        found = self._filter.best(self._network.run(embedding)[0].ravel())
        return found[0] if found and found[0].category_name != NOTHING else None


class GesturePipeline:
    """The networks of hands and of their gestures. Those of gestures see only landmarks, and run on the CPU."""

    def __init__(self, options: GestureRecognizerOptions) -> None:
        files = read_files(options.base_options, (HANDS, GESTURES))
        base = BaseOptions(model_asset_buffer=files[HANDS], delegate=options.base_options.delegate)
        hands = HandLandmarkerOptions(
            base,
            options.running_mode,
            options.num_hands,
            options.min_hand_detection_confidence,
            options.min_hand_presence_confidence,
            options.min_tracking_confidence,
        )
        self._hands = HandPipeline(hands)
        self.on_gpu = GpuTracker(self._hands.models, options.num_hands, self._result_of)
        parts = read_bundle(files[GESTURES], (EMBEDDER, CANNED), (CUSTOM,))
        self._embedder = TaskNetwork(parts[EMBEDDER], EMBEDDER, BaseOptions.Delegate.CPU)
        kinds = (
            (CUSTOM, options.custom_gesture_classifier_options), (CANNED, options.canned_gesture_classifier_options),
        )  # fmt: skip
        self._classifiers = [_Classifier(parts[name], name, given) for name, given in kinds if name in parts]

    def find(self, pixels: Any, rectangle: Array, milliseconds: float | None) -> list[tuple[Hand, Category]]:
        """The hands in a picture, and the gesture of each."""
        size, rotation = (pixels.shape[1], pixels.shape[0]), float(rectangle[4])
        hands = self._hands.find(pixels, rectangle, milliseconds)
        return [(hand, self._gesture(hand, rotation, size)) for hand in hands]

    def process(self, pixels: Array, rectangle: Array, milliseconds: int | None) -> GestureRecognizerResult:
        return _result(self.find(pixels, rectangle, milliseconds))

    def seen(self, found: Found) -> list[tuple[Hand, Category]]:
        """The hands in a picture on the GPU and their gestures, as ``find`` gives those in an array."""
        return [(hand, self._gesture(hand, 0.0, found.size)) for hand in self._hands.seen(found)]

    def _result_of(self, found: Found) -> GestureRecognizerResult:
        return _result(self.seen(found))

    def _gesture(self, hand: Hand, rotation: float, size: tuple[int, int]) -> Category:
        """The gesture of a hand: the bundle's own classifier goes first."""
        picture = gesture_landmarks(hand.landmarks, rotation, size)[None]
        world = gesture_landmarks(hand.world, rotation)[None]
        embedding = self._embedder.run(picture, np.array([[hand.right]], np.float32), world)[0]
        for classifier in self._classifiers:
            if (found := classifier.best(embedding)) is not None:
                return Category(-1, found.score, found.display_name, found.category_name)
        return Category(-1, 1.0, None, NOTHING)


def _result(found: list[tuple[Hand, Category]]) -> GestureRecognizerResult:
    hands = [hand for hand, _ in found]
    return GestureRecognizerResult(
        [[gesture] for _, gesture in found],
        [[side_of(hand)] for hand in hands],
        [normalized_landmarks(hand.landmarks) for hand in hands],
        [world_landmarks(hand.world) for hand in hands],
    )


class GestureRecognizer(VisionTask[GestureRecognizerOptions, GestureRecognizerResult]):
    """Finds hands and names their gestures.

    Examples
    --------
    >>> from framebind import mp
    >>> mp.tasks.vision.GestureRecognizer.create_from_model_path("missing.task")
    Traceback (most recent call last):
    framebind.video.mediapipe.core.errors.MissingModelError: Unable to open file at missing.task
    """

    options_type = GestureRecognizerOptions
    pipeline_type = GesturePipeline
    takes_gpu_pictures = True

    def recognize(
        self, image: Picture, image_processing_options: ImageProcessingOptions | None = None
    ) -> GestureRecognizerResult:
        """The hands of a picture: an mp.Image, or one in the GPU's memory.

        ValueError in another mode, or if an argument does not fit.
        """
        return self._run_image(image, image_processing_options)

    def recognize_for_video(
        self, image: Picture, timestamp_ms: int, image_processing_options: ImageProcessingOptions | None = None
    ) -> GestureRecognizerResult:
        """The hands of a frame. ValueError as ``recognize``, and if the timestamp is not after the last one."""
        return self._run_video(image, timestamp_ms, image_processing_options)

    def recognize_async(
        self, image: Picture, timestamp_ms: int, image_processing_options: ImageProcessingOptions | None = None
    ) -> None:
        """Give a frame of a live stream, whose result goes to ``result_callback``, as ``HandLandmarker`` does."""
        self._run_live(image, timestamp_ms, image_processing_options)
