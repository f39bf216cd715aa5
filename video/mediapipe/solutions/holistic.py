"""``mp.solutions.holistic``: the landmarks of a person's body, face and hands."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt

from ..core.asset import read_files
from ..core.network import TaskNetwork
from ..vision.face_detector import face_detector
from ..vision.face_landmarker import DETECTOR, LANDMARKS, FaceLandmarks
from ..vision.hand_landmarker import LANDMARKS as HAND_LANDMARKS
from ..vision.hand_landmarker import HandLandmarks
from ..vision.holistic_landmarker import RECROP, SIDES
from ..vision.holistic_parts import HandRecrop, HolisticFace, HolisticHand
from ..vision.landmark_names import HandLandmark, PoseLandmark
from .face_mesh import (
    FACEMESH_CONTOURS,
    FACEMESH_NUM_LANDMARKS,
    FACEMESH_NUM_LANDMARKS_WITH_IRISES,
    FACEMESH_TESSELATION,
)
from .hands import HAND_CONNECTIONS
from .messages import LandmarkList, NormalizedLandmarkList, landmark_list, world_landmark_list
from .pose import POSE_CONNECTIONS, Body
from .solution import Solution, model_of

__all__ = [
    "FACEMESH_CONTOURS",
    "FACEMESH_TESSELATION",
    "HAND_CONNECTIONS",
    "POSE_CONNECTIONS",
    "HandLandmark",
    "Holistic",
    "PoseLandmark",
    "WholePerson",
]

Array = npt.NDArray[Any]


class WholePerson(NamedTuple):
    """The result of a picture; each field is None if the part was not found."""

    pose_landmarks: NormalizedLandmarkList | None
    pose_world_landmarks: LandmarkList | None
    left_hand_landmarks: NormalizedLandmarkList | None
    right_hand_landmarks: NormalizedLandmarkList | None
    face_landmarks: NormalizedLandmarkList | None
    segmentation_mask: Array | None
    """(height, width), float32: the probability of the person; None if it was not asked for."""


class Holistic(Solution[WholePerson]):
    """Finds the landmarks of the most prominent person.

    It needs holistic_landmarker.task for face and hands, and pose_landmarker_lite, _full or _heavy.task.
    """

    def __init__(
        self,
        static_image_mode: bool = False,
        model_complexity: int = 1,
        smooth_landmarks: bool = True,
        enable_segmentation: bool = False,
        smooth_segmentation: bool = True,
        refine_face_landmarks: bool = False,
        min_detection_confidence: float = 0.5,
        min_tracking_confidence: float = 0.5,
    ) -> None:
        super().__init__(is_static=static_image_mode)
        self._body = Body(
            model_complexity, min_detection_confidence, min_tracking_confidence, follows=not static_image_mode,
            is_smooth=smooth_landmarks, has_mask=enable_segmentation, is_mask_smooth=smooth_segmentation,
        )  # fmt: skip
        names = (DETECTOR, LANDMARKS, RECROP, HAND_LANDMARKS)
        files = read_files(model_of("holistic_landmarker.task"), names)
        faces, landmarks, recrops, hands = (TaskNetwork(files[name], name, None) for name in names)
        self._face = HolisticFace(face_detector(faces, 0.5, 0.3), FaceLandmarks(landmarks), 0.5)
        recrop, joints = HandRecrop(recrops), HandLandmarks(hands)
        self._hands = [HolisticHand(side, recrop, joints, 0.5) for side in SIDES]
        self._count = FACEMESH_NUM_LANDMARKS_WITH_IRISES if refine_face_landmarks else FACEMESH_NUM_LANDMARKS

    def reset(self) -> None:
        """Forget the person so far."""
        super().reset()
        for part in (self._body.cpu, self._face, *self._hands):
            part.reset()

    def _find(self, pixels: Any, milliseconds: float | None) -> WholePerson:
        pose = self._body.find(pixels, milliseconds)
        if pose is None:
            self._face.reset()
            for hand in self._hands:
                hand.reset()
            return WholePerson(None, None, None, None, None, None)
        size, follows = (pixels.shape[1], pixels.shape[0]), milliseconds is not None
        left, right = (hand.find(pixels, pose.landmarks, size, follows=follows) for hand in self._hands)
        face = self._face.find(pixels, pose.landmarks, size, follows=follows)
        return WholePerson(
            landmark_list(pose.landmarks[:, :4]),
            world_landmark_list(pose.world[:, :4]),
            None if left is None else landmark_list(left.landmarks),
            None if right is None else landmark_list(right.landmarks),
            None if face is None else landmark_list(face[: self._count]),
            pose.mask,
        )
