"""``mp.solutions.pose``: the landmarks and the mask of a person."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt

from ..core.asset import read_files
from ..core.errors import TaskError
from ..core.network import TaskNetwork
from ..vision.connections import PoseLandmarksConnections
from ..vision.holistic_parts import HolisticPose
from ..vision.landmark_names import PoseLandmark
from ..vision.pose_landmarker import DETECTOR, LANDMARKS, PoseLandmarks, pose_detector
from .messages import LandmarkList, NormalizedLandmarkList, landmark_list, world_landmark_list
from .solution import Solution, model_of

__all__ = ["POSE_CONNECTIONS", "Person", "Pose", "PoseLandmark"]

Array = npt.NDArray[Any]

POSE_CONNECTIONS = frozenset(map(tuple, PoseLandmarksConnections.POSE_LANDMARKS))
COMPLEXITIES = ("lite", "full", "heavy")


class Person(NamedTuple):
    """The result of a picture; each field is None without a person."""

    pose_landmarks: NormalizedLandmarkList | None
    pose_world_landmarks: LandmarkList | None
    segmentation_mask: Array | None
    """(height, width), float32: the probability of the person; None if it was not asked for."""


class Pose(Solution):
    """Finds 33 landmarks of the most prominent person. It needs pose_landmarker_lite, _full or _heavy.task."""

    def __init__(
        self,
        static_image_mode: bool = False,
        model_complexity: int = 1,
        smooth_landmarks: bool = True,
        enable_segmentation: bool = False,
        smooth_segmentation: bool = True,
        min_detection_confidence: float = 0.5,
        min_tracking_confidence: float = 0.5,
    ) -> None:
        super().__init__(is_static=static_image_mode)
        self._has_mask = enable_segmentation
        self._body = body_of(
            model_complexity,
            min_detection_confidence,
            min_tracking_confidence,
            is_smooth=smooth_landmarks,
            is_mask_smooth=smooth_segmentation,
        )

    def reset(self) -> None:
        """Forget the person so far."""
        super().reset()
        self._body.reset()

    def process(self, image: Array) -> Person:
        """The person of a picture (height, width, 3), RGB. ValueError for another array."""
        pose = self._body.find(*self._next(image), mask=self._has_mask)
        if pose is None:
            return Person(None, None, None)
        return Person(landmark_list(pose.landmarks[:, :4]), world_landmark_list(pose.world[:, :4]), pose.mask)


def body_of(
    complexity: int, detection: float, tracking: float, *, is_smooth: bool, is_mask_smooth: bool
) -> HolisticPose:
    """The body of a solution. ValueError for a complexity that there is not."""
    if complexity not in (0, 1, 2):
        raise TaskError(f"model_complexity is 0, 1 or 2; it is {complexity}")
    files = read_files(model_of(f"pose_landmarker_{COMPLEXITIES[complexity]}.task"), (DETECTOR, LANDMARKS))
    detector = pose_detector(TaskNetwork(files[DETECTOR], DETECTOR, None), detection, 0.3)
    landmarks = PoseLandmarks(TaskNetwork(files[LANDMARKS], LANDMARKS, None))
    return HolisticPose(detector, landmarks, tracking, is_smooth=is_smooth, is_mask_smooth=is_mask_smooth)
