"""Parts of results, with MediaPipe's names and fields (mediapipe.tasks.python.components.containers)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass
class Landmark:
    """A point in metres, for world landmarks from the middle of the hand or of the hips."""

    x: float | None = None
    y: float | None = None
    z: float | None = None
    visibility: float | None = None
    """Probability that the point is in the picture and not hidden; None if the network does not say."""
    presence: float | None = None
    """Probability that the point is in the picture; None if the network does not say."""
    name: str | None = None


@dataclass
class NormalizedLandmark:
    """A point of the picture: x and y from 0 to 1 over width and height, z in widths, negative towards the camera."""

    x: float | None = None
    y: float | None = None
    z: float | None = None
    visibility: float | None = None
    """Probability that the point is in the picture and not hidden; None if the network does not say."""
    presence: float | None = None
    """Probability that the point is in the picture; None if the network does not say."""
    name: str | None = None


@dataclass
class NormalizedKeypoint:
    """A key point of a detection: x and y from 0 to 1 over the picture's width and height."""

    x: float | None = None
    y: float | None = None
    label: str | None = None
    score: float | None = None


@dataclass
class Category:
    """A class and its score."""

    index: int | None = None
    score: float | None = None
    display_name: str | None = None
    category_name: str | None = None


@dataclass
class BoundingBox:
    """An upright box in whole pixels."""

    origin_x: int
    origin_y: int
    width: int
    height: int


@dataclass
class Detection:
    """A detected thing: its box, its classes and its key points."""

    bounding_box: BoundingBox
    categories: list[Category]
    keypoints: list[NormalizedKeypoint] | None = None


@dataclass
class DetectionResult:
    """The things that a detector found."""

    detections: list[Detection]


@dataclass
class Classifications:
    """The classes that one output of a classifier names, best first."""

    categories: list[Category]
    head_index: int
    head_name: str | None = None


@dataclass
class ClassificationResult:
    """The classes that a classifier names, by output."""

    classifications: list[Classifications]
    timestamp_ms: int | None = None


@dataclass
class Embedding:
    """A vector that describes a picture, of one output of an embedder."""

    embedding: npt.NDArray[Any]
    head_index: int | None = None
    head_name: str | None = None


@dataclass
class EmbeddingResult:
    """The vectors of an embedder, by output."""

    embeddings: list[Embedding]
    timestamp_ms: int | None = None


@dataclass
class Rect:
    """A rectangle in pixels."""

    left: int
    top: int
    bottom: int
    right: int


@dataclass
class RectF:
    """A rectangle from 0 to 1 over the picture's width and height."""

    left: float
    top: float
    bottom: float
    right: float


@dataclass
class NormalizedRect:
    """A rotated rectangle: its middle and size from 0 to 1, its rotation clockwise in radians."""

    x_center: float
    y_center: float
    width: float
    height: float
    rotation: float | None = 0.0
    rect_id: int | None = None


@dataclass
class LandmarksDetectionResult:
    """The landmarks of one thing, with its classes and its region."""

    landmarks: list[NormalizedLandmark] | None
    categories: list[Category] | None
    world_landmarks: list[Landmark] | None
    rect: NormalizedRect


def normalized_landmarks(rows: npt.NDArray[np.float32]) -> list[NormalizedLandmark]:
    """The landmarks of rows (n, 3 or 5): x, y, z, and visibility and presence if the network gives them."""
    return [NormalizedLandmark(*row) for row in rows.tolist()]


def world_landmarks(rows: npt.NDArray[np.float32]) -> list[Landmark]:
    """The landmarks of rows (n, 3 or 5) in metres, as ``normalized_landmarks``."""
    return [Landmark(*row) for row in rows.tolist()]
