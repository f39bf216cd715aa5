"""FaceDetector: boxes of faces, with six key points each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...basic_types import Array
from ..calculators.detections import Detections
from ..core.anchor_detector import AnchorDetector
from ..core.asset import read_network
from ..core.containers import BoundingBox, Category, Detection, DetectionResult, NormalizedKeypoint
from ..core.gpu_network import WholePictures
from ..core.network import TaskNetwork
from ..core.options import BaseOptions, VisionTaskRunningMode, check_share
from ..core.task import DetectingTask

FaceDetectorResult = DetectionResult

SHORT_RANGE = (8, 16, 16, 16)
"""Strides of the layers of BlazeFace for faces within two metres."""
POINTS = 6
"""Key points of a face: right eye, left eye, nose, mouth, right ear, left ear, as the person has them."""


@dataclass
class FaceDetectorOptions:
    """Options of a FaceDetector.

    Attributes
    ----------
    base_options
        The model, a ``.tflite`` file (blaze_face_short_range), and where it runs.
    running_mode
        Single pictures, a video, or a live stream.
    min_detection_confidence
        The least score of a face, from 0 to 1.
    min_suppression_threshold
        The overlap of two boxes, from 0 to 1, above which they are the same face.
    result_callback
        For the live-stream mode: called with the result, the picture and its timestamp.
    """

    base_options: BaseOptions
    running_mode: VisionTaskRunningMode = VisionTaskRunningMode.IMAGE
    min_detection_confidence: float = 0.5
    min_suppression_threshold: float = 0.3
    result_callback: Callable[[DetectionResult, Any, int], None] | None = None


class _Pipeline:
    def __init__(self, options: FaceDetectorOptions) -> None:
        check_share("min_detection_confidence", options.min_detection_confidence)
        check_share("min_suppression_threshold", options.min_suppression_threshold)
        network = TaskNetwork(read_network(options.base_options), "the face detector", options.base_options.delegate)
        self._detector = face_detector(network, options.min_detection_confidence, options.min_suppression_threshold)
        self.on_gpu = WholePictures(self.process, network.close)

    def process(self, pixels: Any, rectangle: Array, milliseconds: int | None) -> DetectionResult:
        return to_result(self._detector.find(pixels, rectangle), (pixels.shape[1], pixels.shape[0]))


def face_detector(network: TaskNetwork, confidence: float, overlap: float) -> AnchorDetector:
    """The detector of faces of a network."""
    return AnchorDetector(network, SHORT_RANGE, POINTS, confidence, overlap)


def to_result(found: Detections, size: tuple[int, int]) -> DetectionResult:
    """The detections of a picture of ``size`` (width, height) as a result: boxes in whole pixels, inside of it."""
    return DetectionResult(
        [_detection(place, float(score), size) for place, score in zip(found.places, found.scores, strict=True)]
    )


def pixel_box(place: Array, size: tuple[int, int]) -> BoundingBox:
    """The box of a detection's place (left, top, right, bottom) in whole pixels, inside of a picture of ``size``."""
    left, top, right, bottom = place[:4].tolist()
    x, y = (min(max(int(value * side), 0), side) for value, side in zip((left, top), size, strict=True))
    width, height = (
        min(max(int(value * side), 0), side) for value, side in zip((right - left, bottom - top), size, strict=True)
    )
    return BoundingBox(x, y, width, height)


def _detection(place: Array, score: float, size: tuple[int, int]) -> Detection:
    points = [NormalizedKeypoint(x=x, y=y, label=None, score=0.0) for x, y in place[4:].reshape(-1, 2).tolist()]
    return Detection(pixel_box(place, size), [Category(index=0, score=score)], points)


class FaceDetector(DetectingTask[FaceDetectorOptions, DetectionResult]):
    """Finds faces.

    Examples
    --------
    >>> from framebind import mp
    >>> mp.tasks.vision.FaceDetector.create_from_model_path("missing.tflite")
    Traceback (most recent call last):
    framebind.video.mediapipe.core.errors.MissingModelError: Unable to open file at missing.tflite
    """

    options_type = FaceDetectorOptions
    pipeline_type = _Pipeline
    takes_gpu_pictures = True
