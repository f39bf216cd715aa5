"""Drawing of landmarks and boxes on BGR pictures by OpenCV, as MediaPipe draws them.

``draw_landmarks`` and ``draw_detection`` take results of tasks and of solutions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...basic_types import Array
from ..core.errors import TaskError

Color = tuple[int, int, int]

WHITE_COLOR = (224, 224, 224)
BLACK_COLOR = (0, 0, 0)
RED_COLOR = (0, 0, 255)
GREEN_COLOR = (0, 128, 0)
BLUE_COLOR = (255, 0, 0)
LEAST = 0.5
"""Visibility and presence below which a landmark is not drawn."""


@dataclass
class DrawingSpec:
    """A style: the colour (blue, green, red), the lines' thickness and the circles' radius in pixels."""

    color: Color = WHITE_COLOR
    thickness: int = 2
    circle_radius: int = 2


_RED = DrawingSpec(color=RED_COLOR)
_WHITE = DrawingSpec()
Specs = DrawingSpec | Mapping[Any, DrawingSpec]


def draw_landmarks(
    image: Array,
    landmark_list: Any,
    connections: Iterable[Any] | None = None,
    landmark_drawing_spec: Specs | None = _RED,
    connection_drawing_spec: Specs | None = _WHITE,
    is_drawing_landmarks: bool = True,
) -> None:
    """Draw landmarks and the lines between them on a picture (height, width, 3), BGR.

    Landmarks outside of the picture, and those that are probably hidden, are left out.

    Parameters
    ----------
    landmark_list
        The landmarks of one thing: a list, or an object whose ``landmark`` is one.
    connections
        The lines, each with ``start`` and ``end`` or as a pair of numbers.
    landmark_drawing_spec, connection_drawing_spec
        How they are drawn: one for all, or one for each landmark's number and each pair of numbers. With None they are
        not.

    Raises
    ------
    ValueError
        If the picture has not three channels, or if a line ends at a landmark that there is not.
    """
    import cv2

    landmarks = getattr(landmark_list, "landmark", landmark_list)
    if not landmarks:
        return
    _check(image)
    points = {
        number: point
        for number, landmark in enumerate(landmarks)
        if _is_seen(landmark) and (point := _pixel(landmark, image)) is not None
    }
    for connection in connections or () if connection_drawing_spec is not None else ():
        start, end = _ends(connection)
        if not (0 <= start < len(landmarks) and 0 <= end < len(landmarks)):
            raise TaskError(
                f"Landmark index is out of range. Invalid connection from landmark #{start} to landmark #{end}."
            )
        if start in points and end in points:
            spec = _spec(connection_drawing_spec, (start, end))
            cv2.line(image, points[start], points[end], spec.color, spec.thickness)
    for number, point in points.items() if is_drawing_landmarks and landmark_drawing_spec else ():
        spec = _spec(landmark_drawing_spec, number)
        rim = max(spec.circle_radius + 1, int(spec.circle_radius * 1.2))
        cv2.circle(image, point, rim, WHITE_COLOR, spec.thickness)
        cv2.circle(image, point, spec.circle_radius, spec.color, spec.thickness)


def draw_detection(
    image: Array,
    detection: Any,
    keypoint_drawing_spec: DrawingSpec = _RED,
    bbox_drawing_spec: DrawingSpec = _WHITE,
) -> None:
    """Draw the box and the key points of a detection on a picture (height, width, 3), BGR.

    ValueError if the picture has not three channels.
    """
    import cv2

    _check(image)
    box, points = _box_and_points(detection, image)
    for point in points:
        if point is not None:
            spec = keypoint_drawing_spec
            cv2.circle(image, point, spec.circle_radius, spec.color, spec.thickness)
    if box is not None:
        cv2.rectangle(image, box[0], box[1], bbox_drawing_spec.color, bbox_drawing_spec.thickness)


def draw_axis(
    image: Array,
    rotation: Array,
    translation: Array,
    focal_length: tuple[float, float] = (1.0, 1.0),
    principal_point: tuple[float, float] = (0.0, 0.0),
    axis_length: float = 0.1,
    axis_drawing_spec: DrawingSpec = _WHITE,
) -> None:
    """Draw the axes of an object: x red, y green, z blue, on a picture (height, width, 3), BGR.

    ``rotation`` (3, 3) and ``translation`` (3) take the object to the camera, which looks along -z; the focal length
    and the principal point are in halves of the picture. ValueError if the picture has not three channels.
    """
    import cv2

    _check(image)
    ends = np.vstack([np.zeros(3), np.eye(3)]) * axis_length @ np.asarray(rotation).T + np.asarray(translation)
    place = -np.array(focal_length) * ends[:, :2] / (ends[:, 2:] + 1e-5) + np.array(principal_point)
    x, y = np.clip(place, -1, 1).T
    columns = ((1 + x) / 2 * image.shape[1]).astype(int).tolist()
    rows = ((1 - y) / 2 * image.shape[0]).astype(int).tolist()
    origin, *tips = zip(columns, rows, strict=True)
    for tip, color in zip(tips, (RED_COLOR, GREEN_COLOR, BLUE_COLOR), strict=True):
        cv2.arrowedLine(image, origin, tip, color, axis_drawing_spec.thickness)


def _check(image: Array) -> None:
    if image.ndim != 3 or image.shape[2] != 3:
        raise TaskError(f"Input image must contain three channel bgr data; its shape is {image.shape}")


def _is_seen(landmark: Any) -> bool:
    def chance(name: str) -> float | None:
        given = not hasattr(landmark, "HasField") or landmark.HasField(name)
        return getattr(landmark, name, None) if given else None

    return all(each is None or each >= LEAST for each in (chance("visibility"), chance("presence")))


def _ends(connection: Any) -> tuple[int, int]:
    start, end = (connection.start, connection.end) if hasattr(connection, "start") else connection
    return int(start), int(end)


def _spec(specs: Specs | None, key: Any) -> DrawingSpec:
    assert specs is not None
    return specs[key] if isinstance(specs, Mapping) else specs


def _normalized_to_pixel_coordinates(
    normalized_x: float, normalized_y: float, image_width: int, image_height: int
) -> tuple[int, int] | None:
    """The pixel of a normalized place; None outside of the picture. Programs call it, though it is not public."""
    if not all(-1e-9 <= value <= 1 + 1e-9 for value in (normalized_x, normalized_y)):
        return None
    x, y = math.floor(normalized_x * image_width), math.floor(normalized_y * image_height)
    return min(x, image_width - 1), min(y, image_height - 1)


def _pixel(point: Any, image: Array) -> tuple[int, int] | None:
    return _normalized_to_pixel_coordinates(point.x, point.y, image.shape[1], image.shape[0])


def _box_and_points(detection: Any, image: Array) -> tuple[Any, list[tuple[int, int] | None]]:
    """The corners of a detection's box and its key points in pixels, of a task's result or of a solution's."""
    if hasattr(detection, "bounding_box"):
        box = detection.bounding_box
        corners = (box.origin_x, box.origin_y), (box.origin_x + box.width, box.origin_y + box.height)
        return corners, [_pixel(point, image) for point in detection.keypoints or []]
    place = detection.location_data
    box = place.relative_bounding_box
    rows, columns = image.shape[:2]
    first = _normalized_to_pixel_coordinates(box.xmin, box.ymin, columns, rows)
    last = _normalized_to_pixel_coordinates(box.xmin + box.width, box.ymin + box.height, columns, rows)
    points = [_pixel(point, image) for point in place.relative_keypoints]
    return (None if first is None or last is None else (first, last)), points
