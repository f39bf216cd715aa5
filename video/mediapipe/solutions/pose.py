"""``mp.solutions.pose``: the landmarks and the mask of a person."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...bundles import read_bundle
from ..calculators.smoothing import LandmarkFilter
from ..core.asset import read_asset
from ..core.errors import TaskError
from ..core.network import TaskNetwork
from ..core.tracker import Tracker
from ..vision.connections import PoseLandmarksConnections
from ..vision.landmark_names import PoseLandmark
from ..vision.pose_landmarker import (
    DETECTOR,
    LANDMARKS,
    PoseFilter,
    PoseLandmarks,
    next_pose,
    pose_detector,
    pose_rectangles,
)
from ..vision.pose_landmarker import (
    Pose as FoundPose,
)
from .messages import LandmarkList, NormalizedLandmarkList, landmark_list, world_landmark_list
from .solution import Solution, model_of

__all__ = ["POSE_CONNECTIONS", "Person", "Pose", "PoseLandmark"]

Array = npt.NDArray[Any]

POSE_CONNECTIONS = frozenset(map(tuple, PoseLandmarksConnections.POSE_LANDMARKS))
COMPLEXITIES = ("lite", "full", "heavy")
KEPT = 0.7
"""The most that a smoothed mask keeps of the previous one."""


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
        if model_complexity not in (0, 1, 2):
            raise TaskError(f"model_complexity is 0, 1 or 2; it is {model_complexity}")
        name = f"pose_landmarker_{COMPLEXITIES[model_complexity]}.task"
        files = read_bundle(read_asset(model_of(name)), (DETECTOR, LANDMARKS))
        self._detector = pose_detector(TaskNetwork(files[DETECTOR], DETECTOR, None), min_detection_confidence, 0.3)
        self._landmarks = PoseLandmarks(TaskNetwork(files[LANDMARKS], LANDMARKS, None))
        self._presence, self._has_mask = min_tracking_confidence, enable_segmentation
        self._is_smooth = smooth_landmarks and not static_image_mode
        self._is_mask_smooth = smooth_segmentation and not static_image_mode
        self.reset()

    def reset(self) -> None:
        """Forget the person so far."""
        super().reset()
        self._tracker = Tracker(1, 1.0)
        self._filter, self._alignment = PoseFilter(), LandmarkFilter(0.01, 10.0)
        self._mask: Array | None = None

    def process(self, image: Array) -> Person:
        """The person of a picture (height, width, 3), RGB. ValueError for another array."""
        pixels, rectangle, milliseconds = self._next(image)
        size = pixels.shape[1], pixels.shape[0]

        def detect() -> Array:
            return pose_rectangles(self._detector.find(pixels, rectangle), size)[:1]

        regions = self._tracker.regions(detect, stream=milliseconds is not None)
        poses = [self._landmarks.find(pixels, region, mask=self._has_mask) for region in regions]
        poses = [pose for pose in poses if pose.presence > self._presence]
        if milliseconds is not None:
            poses = [self._smoothed(pose, size, milliseconds) for pose in poses]
            self._tracker.follow([next_pose(pose, size) for pose in poses])
        if not poses:
            self._filter.reset()
            self._alignment.reset()
            self._mask = None
            return Person(None, None, None)
        (pose,) = poses
        return Person(landmark_list(pose.landmarks[:, :4]), world_landmark_list(pose.world[:, :4]), pose.mask)

    def _smoothed(self, pose: FoundPose, size: tuple[int, int], milliseconds: float) -> FoundPose:
        if self._is_smooth:
            region = next_pose(pose, size)
            scale = float(region[2] * size[0] + region[3] * size[1]) / 2
            pixels = np.array(size, np.float32)
            alignment = self._alignment(pose.alignment * pixels, milliseconds, scale) / pixels
            pose = self._filter(pose, region, size, milliseconds)._replace(alignment=alignment)
        if self._is_mask_smooth and pose.mask is not None:
            self._mask = pose.mask if self._mask is None else smooth_mask(pose.mask, self._mask)
            pose = pose._replace(mask=self._mask)
        return pose


def smooth_mask(mask: Array, previous: Array) -> Array:
    """The mask, mixed with the previous one where it is uncertain (SegmentationSmoothingCalculator).

    The uncertainty of a probability p is that of its coin, 1 - its information in bits, by MediaPipe's polynomial.
    """
    x = (mask - 0.5) ** 2
    uncertainty = 1 - np.minimum(1, x * (5.68842 + x * (-0.748699 + x * (-57.8051 + x * (291.309 - 624.717 * x)))))
    return (mask + (previous - mask) * (uncertainty * KEPT)).astype(np.float32)
