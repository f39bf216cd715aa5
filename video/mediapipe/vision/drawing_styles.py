"""The colours in which MediaPipe draws faces, hands and persons: (blue, green, red)."""

from __future__ import annotations

from collections.abc import Mapping

from .connections import FaceLandmarksConnections as Face
from .connections import HandLandmarksConnections as Hand
from .drawing_utils import DrawingSpec
from .landmark_names import HandLandmark, PoseLandmark

_RED, _GREEN, _BLUE, _YELLOW = (48, 48, 255), (48, 255, 48), (192, 101, 21), (0, 204, 255)
_GRAY, _PURPLE, _PEACH, _WHITE = (128, 128, 128), (128, 64, 128), (180, 229, 255), (224, 224, 224)
_CYAN, _MAGENTA = (192, 255, 48), (192, 48, 255)
_LEFT, _RIGHT = (0, 138, 255), (231, 217, 0)
"""Colours of a person's left and right landmarks."""

_FINGERS = {
    "THUMB": (_PEACH, Hand.HAND_THUMB_CONNECTIONS),
    "INDEX_FINGER": (_PURPLE, Hand.HAND_INDEX_FINGER_CONNECTIONS),
    "MIDDLE_FINGER": (_YELLOW, Hand.HAND_MIDDLE_FINGER_CONNECTIONS),
    "RING_FINGER": (_GREEN, Hand.HAND_RING_FINGER_CONNECTIONS),
    "PINKY": (_BLUE, Hand.HAND_PINKY_FINGER_CONNECTIONS),
}
_PALM = {"WRIST", "THUMB_CMC", "INDEX_FINGER_MCP", "MIDDLE_FINGER_MCP", "RING_FINGER_MCP", "PINKY_MCP"}

Lines = Mapping[tuple[int, int], DrawingSpec]


def get_default_hand_landmarks_style() -> Mapping[int, DrawingSpec]:
    """The style of each landmark of a hand: the palm red, each finger in its colour."""
    styles = dict[int, DrawingSpec]()
    for landmark in HandLandmark:
        finger = next((color for name, (color, _) in _FINGERS.items() if landmark.name.startswith(name)), _RED)
        color = _RED if landmark.name in _PALM else finger
        styles[landmark] = DrawingSpec(color=color, thickness=-1, circle_radius=5)
    return styles


def get_default_hand_connections_style() -> Lines:
    """The style of each line of a hand."""
    styles = {(a, b): DrawingSpec(color=_GRAY, thickness=3) for a, b in Hand.HAND_PALM_CONNECTIONS}
    for color, lines in _FINGERS.values():
        styles |= {(a, b): DrawingSpec(color=color, thickness=2) for a, b in lines}
    return styles


def get_default_face_mesh_contours_style(i: int = 0) -> Lines:
    """The style of each contour of a face; ``i`` is 0 or 1, for the second style."""
    second = i == 1
    parts = [
        (Face.FACE_LANDMARKS_LIPS, _BLUE if second else _WHITE),
        (Face.FACE_LANDMARKS_LEFT_EYE, _CYAN if second else _GREEN),
        (Face.FACE_LANDMARKS_LEFT_EYEBROW, _GREEN),
        (Face.FACE_LANDMARKS_RIGHT_EYE, _MAGENTA if second else _RED),
        (Face.FACE_LANDMARKS_RIGHT_EYEBROW, _RED),
        (Face.FACE_LANDMARKS_FACE_OVAL, _WHITE),
    ]
    if second:
        parts.append((Face.FACE_LANDMARKS_NOSE, _YELLOW))
    return {(a, b): DrawingSpec(color=color, thickness=2) for lines, color in parts for a, b in lines}


def get_default_face_mesh_tesselation_style() -> DrawingSpec:
    """The style of a face's mesh."""
    return DrawingSpec(color=_GRAY, thickness=1)


def get_default_face_mesh_iris_connections_style() -> Lines:
    """The style of the irises."""
    parts = ((Face.FACE_LANDMARKS_LEFT_IRIS, _GREEN), (Face.FACE_LANDMARKS_RIGHT_IRIS, _RED))
    return {(a, b): DrawingSpec(color=color, thickness=2) for lines, color in parts for a, b in lines}


def get_default_pose_landmarks_style() -> Mapping[int, DrawingSpec]:
    """The style of each landmark of a person: left orange, right blue, the nose white."""
    styles = dict[int, DrawingSpec]()
    for landmark in PoseLandmark:
        side = _LEFT if "LEFT" in landmark.name else _RIGHT if "RIGHT" in landmark.name else _WHITE
        styles[landmark] = DrawingSpec(color=side, thickness=2)
    return styles
