"""``mp.solutions.face_mesh``: the landmarks of faces."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..calculators.image_to_tensor import WHOLE
from ..core.gpu_tracker import Found, GpuTracker
from ..core.options import VisionTaskRunningMode as RunningMode
from ..vision.connections import FaceLandmarksConnections as Lines
from ..vision.face_landmarker import Face, FaceLandmarkerOptions, FacePipeline
from .messages import landmark_list
from .solution import Solution, model_of

FACEMESH_NUM_LANDMARKS = 468
FACEMESH_NUM_LANDMARKS_WITH_IRISES = 478

FACEMESH_LIPS = frozenset(map(tuple, Lines.FACE_LANDMARKS_LIPS))
FACEMESH_LEFT_EYE = frozenset(map(tuple, Lines.FACE_LANDMARKS_LEFT_EYE))
FACEMESH_LEFT_IRIS = frozenset(map(tuple, Lines.FACE_LANDMARKS_LEFT_IRIS))
FACEMESH_LEFT_EYEBROW = frozenset(map(tuple, Lines.FACE_LANDMARKS_LEFT_EYEBROW))
FACEMESH_RIGHT_EYE = frozenset(map(tuple, Lines.FACE_LANDMARKS_RIGHT_EYE))
FACEMESH_RIGHT_IRIS = frozenset(map(tuple, Lines.FACE_LANDMARKS_RIGHT_IRIS))
FACEMESH_RIGHT_EYEBROW = frozenset(map(tuple, Lines.FACE_LANDMARKS_RIGHT_EYEBROW))
FACEMESH_FACE_OVAL = frozenset(map(tuple, Lines.FACE_LANDMARKS_FACE_OVAL))
FACEMESH_NOSE = frozenset(map(tuple, Lines.FACE_LANDMARKS_NOSE))
FACEMESH_CONTOURS = frozenset(map(tuple, Lines.FACE_LANDMARKS_CONTOURS))
FACEMESH_IRISES = FACEMESH_LEFT_IRIS | FACEMESH_RIGHT_IRIS
FACEMESH_TESSELATION = frozenset(map(tuple, Lines.FACE_LANDMARKS_TESSELATION))


class Faces(NamedTuple):
    """The result of a picture."""

    multi_face_landmarks: list[Any] | None
    """A NormalizedLandmarkList of each face; None without a face."""


class FaceMesh(Solution[Faces]):
    """Finds 468 landmarks of each face, or, with ``refine_landmarks``, 478 with the irises.

    The network is that of face_landmarker.task in both cases, which is newer than those of MediaPipe's solution.
    """

    def __init__(
        self,
        static_image_mode: bool = False,
        max_num_faces: int = 1,
        refine_landmarks: bool = False,
        min_detection_confidence: float = 0.5,
        min_tracking_confidence: float = 0.5,
    ) -> None:
        super().__init__(is_static=static_image_mode)
        options = FaceLandmarkerOptions(
            model_of("face_landmarker.task"),
            RunningMode.IMAGE if static_image_mode else RunningMode.VIDEO,
            num_faces=max_num_faces,
            min_face_detection_confidence=min_detection_confidence,
            min_face_presence_confidence=min_tracking_confidence,
        )
        self._count = FACEMESH_NUM_LANDMARKS_WITH_IRISES if refine_landmarks else FACEMESH_NUM_LANDMARKS
        self._pipeline = FacePipeline(options, is_smooth=False)
        self._on_gpu = GpuTracker(self._pipeline.models, max_num_faces, self._faces_of)

    def _find(self, pixels: Any, milliseconds: float | None) -> Faces:
        return self._faces(self._pipeline.find(pixels, WHOLE, milliseconds))

    def _faces_of(self, found: Found) -> Faces:
        return self._faces(self._pipeline.seen(found))

    def _faces(self, faces: list[Face]) -> Faces:
        return Faces([landmark_list(face.landmarks[: self._count]) for face in faces] or None)

    def reset(self) -> None:
        """Forget the faces so far."""
        super().reset()
        self._pipeline.forget()
