"""``mp.solutions.face_detection``: boxes of faces, with six key points each."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from ...basic_types import Array
from ..calculators.image_to_tensor import WHOLE
from ..core.anchor_detector import AnchorDetector
from ..core.asset import read_files, read_network
from ..core.errors import TaskError
from ..core.gpu_network import WholePictures
from ..core.network import TaskNetwork
from ..vision.face_detector import POINTS, face_detector
from ..vision.face_landmarker import DETECTOR
from . import messages
from .solution import Solution, model_of

FULL_RANGE = "face_detection_full_range_sparse.tflite"
FULL_RANGE_CONFIDENCE = 0.6
"""The least score with the model of the full range: MediaPipe's graph has it, and its option does not reach there."""


class FaceKeyPoint(enum.IntEnum):
    """The key points of a face; left and right are the person's own."""

    RIGHT_EYE = 0
    LEFT_EYE = 1
    NOSE_TIP = 2
    MOUTH_CENTER = 3
    RIGHT_EAR_TRAGION = 4
    LEFT_EAR_TRAGION = 5


class FaceDetections(NamedTuple):
    """The result of a picture."""

    detections: list[Any] | None
    """A Detection of each face, best first; None without a face."""


class FaceDetection(Solution[FaceDetections]):
    """Finds faces.

    ``model_selection`` is 0 for faces within two metres (face_landmarker.task has its model), and 1 for up to five
    (face_detection_full_range_sparse.tflite), whose least score is 0.6.
    """

    def __init__(self, min_detection_confidence: float = 0.5, model_selection: int = 0) -> None:
        super().__init__(is_static=True)
        if model_selection not in (0, 1):
            raise TaskError(f"model_selection is 0 or 1; it is {model_selection}")
        if model_selection:
            network = TaskNetwork(read_network(model_of(FULL_RANGE)), FULL_RANGE, None)
            self._detector = AnchorDetector(network, (4,), POINTS, FULL_RANGE_CONFIDENCE, 0.3, per_layer=1)
        else:
            files = read_files(model_of("face_landmarker.task"), (DETECTOR,))
            network = TaskNetwork(files[DETECTOR], DETECTOR, None)
            self._detector = face_detector(network, min_detection_confidence, 0.3)
        self._on_gpu = WholePictures(lambda picture, *_: self._find(picture, None), network.close)

    def _find(self, pixels: Any, milliseconds: float | None) -> FaceDetections:
        found = self._detector.find(pixels, WHOLE)
        faces = [_message(place, score) for place, score in zip(found.places, found.scores.tolist(), strict=True)]
        return FaceDetections(faces or None)


def _message(place: Array, score: float) -> Any:
    left, top, right, bottom = place[:4].tolist()
    where = messages.LocationData(
        format=messages.LocationData.RELATIVE_BOUNDING_BOX,
        relative_bounding_box={"xmin": left, "ymin": top, "width": right - left, "height": bottom - top},
        relative_keypoints=[{"x": x, "y": y} for x, y in place[4:].reshape(-1, 2).tolist()],
    )
    return messages.Detection(score=[score], label_id=[0], location_data=where)


def get_key_point(detection: Any, key_point_enum: FaceKeyPoint) -> Any:
    """A key point of a detected face; None if the detection has none."""
    points = detection.location_data.relative_keypoints
    return points[key_point_enum] if points else None
