"""``mp.solutions``: MediaPipe's older interface, which it removed in December 2025, over the networks of its tasks."""

from typing import Any

from ..vision import drawing_styles, drawing_utils
from . import face_detection, face_mesh, hands, holistic, pose, selfie_segmentation
from . import face_mesh as face_mesh_connections
from . import hands as hands_connections
from . import pose as pose_connections

__all__ = [
    "drawing_styles",
    "drawing_utils",
    "face_detection",
    "face_mesh",
    "face_mesh_connections",
    "hands",
    "hands_connections",
    "holistic",
    "pose",
    "pose_connections",
    "selfie_segmentation",
]


def __getattr__(name: str) -> Any:
    """An error that says which of MediaPipe's solutions are not here."""
    if name in ("objectron", "hair_segmentation"):
        raise AttributeError(f"framebind has no mp.solutions.{name}: docs/from-mediapipe.md lists what is there")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
