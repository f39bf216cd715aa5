"""``mp.solutions``: MediaPipe's older interface, which it removed in December 2025, over the networks of its tasks."""

from ..vision import drawing_styles, drawing_utils
from . import face_detection, face_mesh, hands, holistic, pose, selfie_segmentation

__all__ = [
    "drawing_styles",
    "drawing_utils",
    "face_detection",
    "face_mesh",
    "hands",
    "holistic",
    "pose",
    "selfie_segmentation",
]
