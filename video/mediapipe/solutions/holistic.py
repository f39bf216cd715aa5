"""``mp.solutions.holistic``: the landmarks of a person's body, face and hands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.asset import read_files
from ..core.chain_models import ChainModels
from ..core.gpu_tracker import Found, GpuTracker
from ..core.network import TaskNetwork
from ..graphs.holistic import PartSettings
from ..vision.face_detector import face_detector
from ..vision.face_landmarker import DETECTOR, LANDMARKS, FaceLandmarks
from ..vision.hand_landmarker import LANDMARKS as HAND_LANDMARKS
from ..vision.hand_landmarker import HandLandmarks
from ..vision.holistic_chain import holistic_models
from ..vision.holistic_landmarker import RECROP, SIDES, Whole, whole_of
from ..vision.holistic_parts import HandRecrop, HolisticFace, HolisticHand
from ..vision.landmark_names import HandLandmark, PoseLandmark
from .face_mesh import (
    FACEMESH_CONTOURS,
    FACEMESH_NUM_LANDMARKS,
    FACEMESH_NUM_LANDMARKS_WITH_IRISES,
    FACEMESH_TESSELATION,
)
from .hands import HAND_CONNECTIONS
from .messages import landmark_list
from .pose import POSE_CONNECTIONS, SUPPRESSION, Body, person_of
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


class WholePerson(NamedTuple):
    """The result of a picture; each field is None if the part was not found."""

    pose_landmarks: Any | None
    """A NormalizedLandmarkList, as the hands and the face have it: messages of `mp.framework.formats.landmark_pb2`."""
    pose_world_landmarks: Any | None
    """A LandmarkList."""
    left_hand_landmarks: Any | None
    right_hand_landmarks: Any | None
    face_landmarks: Any | None
    segmentation_mask: Any | None
    """(height, width), float32: the probability of the person; None if it was not asked for. For a picture in the GPU's
    memory, the object of ``bind_masks`` that has it.
    """


NO_PERSON = WholePerson(None, None, None, None, None, None)


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
        parts = PartSettings(follows=not static_image_mode)
        detector = face_detector(faces, parts.face_confidence, parts.face_suppression)
        self._face = HolisticFace(detector, FaceLandmarks(landmarks), parts.face_presence)
        recrop, joints = HandRecrop(recrops), HandLandmarks(hands)
        self._hands = [HolisticHand(side, recrop, joints, parts.hand_presence) for side in SIDES]
        self._count = FACEMESH_NUM_LANDMARKS_WITH_IRISES if refine_face_landmarks else FACEMESH_NUM_LANDMARKS
        self._files, self._parts = {**files, **self._body.files}, parts
        self._on_gpu = GpuTracker(self._models, 1, self._person_of, int(enable_segmentation))

    def bind_masks(self, masks: Sequence[Any]) -> None:
        """Write the mask of a picture in the GPU's memory to this one object: see ``PoseLandmarker.bind_masks``."""
        assert isinstance(self._on_gpu, GpuTracker)
        self._on_gpu.bind_masks(masks)

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
            return NO_PERSON
        size, follows = (pixels.shape[1], pixels.shape[0]), milliseconds is not None
        left, right = (hand.find(pixels, pose.landmarks, size, follows=follows) for hand in self._hands)
        face = self._face.find(pixels, pose.landmarks, size, follows=follows)
        return self._person(Whole(pose, face, (left, right)), pose.mask)

    def _models(self, size: tuple[int, int]) -> ChainModels:
        body = self._body
        return holistic_models(
            self._files, body.settings, self._parts, size, masks=body.has_mask, steady=body.steady,
            suppression=SUPPRESSION,
        )  # fmt: skip

    def _person_of(self, found: Found) -> WholePerson:
        return self._person(whole_of(found), found.masks[0] if found.masks else None)

    def _person(self, whole: Whole, mask: Any) -> WholePerson:
        if whole.pose is None:
            return NO_PERSON
        left, right = (None if hand is None else landmark_list(hand.landmarks) for hand in whole.hands)
        face = None if whole.face is None else landmark_list(whole.face[: self._count])
        landmarks, world, _ = person_of(whole.pose.landmarks, whole.pose.world, None)
        return WholePerson(landmarks, world, left, right, face, mask)
