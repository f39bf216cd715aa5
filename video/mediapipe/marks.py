"""Landmarks as marks over frames, in the colours and sizes in which MediaPipe draws them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import framebind as fb

from ..basic_types import Array
from ..vision.palette import Color
from .vision import drawing_styles as styles
from .vision.connections import FaceLandmarksConnections, PoseLandmarksConnections
from .vision.drawing_utils import WHITE_COLOR, DrawingSpec

USUAL = 480
"""Shorter side, in pixels, of pictures for which MediaPipe's sizes of lines and circles are right."""
LEAST = 0.5
"""Visibility below which a landmark is not drawn."""
MESH_OPACITY = 0.5
_MESH = sorted({(min(a, b), max(a, b)) for a, b in FaceLandmarksConnections.FACE_LANDMARKS_TESSELATION})
"""Each line of a face's mesh once."""
_CONTOURS = {
    **styles.get_default_face_mesh_contours_style(),
    **styles.get_default_face_mesh_iris_connections_style(),
}
_HAND_POINTS, _HAND_LINES = styles.get_default_hand_landmarks_style(), styles.get_default_hand_connections_style()
_POSE_POINTS = styles.get_default_pose_landmarks_style()
_POSE_LINES = {(a, b): DrawingSpec() for a, b in PoseLandmarksConnections.POSE_LANDMARKS}


def mark_face(marks: fb.video.Marks, points: Array, size: tuple[int, int]) -> None:
    """Add the mesh, the contours and the irises of a face: points (478, 2) in pixels of a picture of ``size``."""
    mesh = styles.get_default_face_mesh_tesselation_style()
    _lines(marks, points, dict.fromkeys(_MESH, mesh), size, MESH_OPACITY)
    _lines(marks, points, _CONTOURS, size)


def mark_hand(marks: fb.video.Marks, points: Array, size: tuple[int, int]) -> None:
    """Add the bones and joints of a hand: points (21, 2) in pixels of a picture of ``size``."""
    _lines(marks, points, _HAND_LINES, size)
    _joints(marks, points, _HAND_POINTS, size)


def mark_pose(marks: fb.video.Marks, points: Array, seen: Array, size: tuple[int, int]) -> None:
    """Add the bones and joints of a person, if they are visible (33): points (33, 2) in pixels of a picture."""
    shown = {number for number in range(len(points)) if seen[number] >= LEAST}
    lines = {ends: spec for ends, spec in _POSE_LINES.items() if shown.issuperset(ends)}
    _lines(marks, points, lines, size)
    _joints(marks, points, {number: spec for number, spec in _POSE_POINTS.items() if number in shown}, size)


def _lines(
    marks: fb.video.Marks,
    points: Array,
    specs: Mapping[tuple[int, int], DrawingSpec],
    size: tuple[int, int],
    opacity: float = 1.0,
) -> None:
    places, scale = points.tolist(), _scale(size)
    for (start, end), spec in specs.items():
        (x0, y0), (x1, y1) = places[start], places[end]
        marks.line(x0, y0, x1, y1, (*_color(spec.color), opacity), scale * spec.thickness)


def _joints(marks: fb.video.Marks, points: Array, specs: Mapping[int, DrawingSpec], size: tuple[int, int]) -> None:
    """Discs with white rims, as MediaPipe's two circles make."""
    scale = _scale(size)
    for number, spec in specs.items():
        x, y = points[number].tolist()
        half = 0.0 if spec.thickness < 0 else spec.thickness / 2
        marks.point(x, y, _color(WHITE_COLOR), 2 * scale * (spec.circle_radius + 1 + half))
        marks.point(x, y, _color(spec.color), 2 * scale * (spec.circle_radius + half))


def _scale(size: tuple[int, int]) -> float:
    return max(min(size) / USUAL, 0.5)


def _color(color: Iterable[int]) -> Color:
    """A colour (blue, green, red) of OpenCV as red, green, blue from 0 to 1."""
    blue, green, red = color
    return red / 255, green / 255, blue / 255
