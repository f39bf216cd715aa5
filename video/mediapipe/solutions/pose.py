"""``mp.solutions.pose``: the landmarks and the mask of a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...basic_types import Array
from ..calculators.image_to_tensor import WHOLE
from ..core.asset import read_files
from ..core.chain_models import ChainModels
from ..core.errors import TaskError
from ..core.gpu_tracker import Found, GpuTracker
from ..core.network import TaskNetwork
from ..graphs.detecting import Settings
from ..graphs.pose import Steady
from ..vision.connections import PoseLandmarksConnections
from ..vision.holistic_parts import HolisticPose
from ..vision.landmark_names import PoseLandmark
from ..vision.pose_chain import pose_models
from ..vision.pose_landmarker import DETECTOR, LANDMARKS, PoseLandmarks, pose_detector, pose_of
from ..vision.pose_landmarker import Pose as Row
from .messages import landmark_list, world_landmark_list
from .solution import Solution, model_of

__all__ = ["POSE_CONNECTIONS", "Person", "Pose", "PoseLandmark"]


POSE_CONNECTIONS = frozenset(map(tuple, PoseLandmarksConnections.POSE_LANDMARKS))
COMPLEXITIES = ("lite", "full", "heavy")
SUPPRESSION = 0.3
"""The overlap above which two detections are one person."""


class Person(NamedTuple):
    """The result of a picture; each field is None without a person."""

    pose_landmarks: Any | None
    """A NormalizedLandmarkList: `mp.framework.formats.landmark_pb2` has the messages."""
    pose_world_landmarks: Any | None
    """A LandmarkList."""
    segmentation_mask: Any | None
    """(height, width), float32: the probability of the person; None if it was not asked for. For a picture in the GPU's
    memory, the object of ``bind_masks`` that has it.
    """


class Pose(Solution[Person]):
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
        self._body = Body(
            model_complexity, min_detection_confidence, min_tracking_confidence, follows=not static_image_mode,
            is_smooth=smooth_landmarks, has_mask=enable_segmentation, is_mask_smooth=smooth_segmentation,
        )  # fmt: skip
        self._on_gpu = GpuTracker(self._body.models, 1, _person_of, int(enable_segmentation))

    def bind_masks(self, masks: Sequence[Any]) -> None:
        """Write the mask of a picture in the GPU's memory to this one object: see ``PoseLandmarker.bind_masks``."""
        assert isinstance(self._on_gpu, GpuTracker)
        self._on_gpu.bind_masks(masks)

    def reset(self) -> None:
        """Forget the person so far."""
        super().reset()
        self._body.cpu.reset()

    def _find(self, pixels: Any, milliseconds: float | None) -> Person:
        pose = self._body.find(pixels, milliseconds)
        return Person(None, None, None) if pose is None else person_of(pose.landmarks, pose.world, pose.mask)


class Body:
    """The body of one person: ``cpu`` on arrays, and ``models`` those of its chain on the GPU."""

    def __init__(
        self, complexity: int, detection: float, tracking: float, *, follows: bool, is_smooth: bool, has_mask: bool,
        is_mask_smooth: bool,
    ) -> None:  # fmt: skip
        """Raises TaskError for a complexity that there is not."""
        if complexity not in (0, 1, 2):
            raise TaskError(f"model_complexity is 0, 1 or 2; it is {complexity}")
        self.files = read_files(model_of(f"pose_landmarker_{COMPLEXITIES[complexity]}.task"), (DETECTOR, LANDMARKS))
        detector = pose_detector(TaskNetwork(self.files[DETECTOR], DETECTOR, None), detection, SUPPRESSION)
        landmarks = PoseLandmarks(TaskNetwork(self.files[LANDMARKS], LANDMARKS, None))
        self.cpu = HolisticPose(detector, landmarks, tracking, is_smooth=is_smooth, is_mask_smooth=is_mask_smooth)
        self.settings = Settings(1, detection, tracking, is_smooth=is_smooth and follows, follows=follows)
        self.has_mask, self.steady = has_mask, Steady(is_mask_smooth)

    def find(self, pixels: Any, milliseconds: float | None) -> Row | None:
        """The person in a picture (height, width, 3)."""
        return self.cpu.find(pixels, WHOLE, milliseconds, mask=self.has_mask)

    def models(self, size: tuple[int, int]) -> ChainModels:
        """The chain's models for pictures of a size on the GPU."""
        return pose_models(
            self.files, self.settings, size, masks=self.has_mask, steady=self.steady, suppression=SUPPRESSION
        )


def person_of(landmarks: Array, world: Array, mask: Any) -> Person:
    """The result of a person's landmarks (33, 5), in the picture and in metres, and the mask."""
    return Person(landmark_list(landmarks[:, :4]), world_landmark_list(world[:, :4]), mask)


def _person_of(found: Found) -> Person:
    if not len(found.rows):
        return Person(None, None, None)
    pose = pose_of(found.rows[0], found.size, found.masks)
    return person_of(pose.landmarks, pose.world, pose.mask)
