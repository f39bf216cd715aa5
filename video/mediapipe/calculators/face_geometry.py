"""A face's place in space: the matrix from the canonical face to the landmarks (GeometryPipeline)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...basic_types import Array
from .procrustes import similarity

FIELD_OF_VIEW = math.radians(63)
"""Vertical angle of the camera that MediaPipe assumes; its near plane is 1 away."""
LEAST_SPREAD = 1e-3
"""Mean squared distance of landmarks, in widths of the picture, below which a face is too small to be placed."""


class CanonicalFace(NamedTuple):
    """The face whose landmarks are known in centimetres."""

    points: Array
    """(n, 3): x to the right, y up, z towards the camera."""
    weights: Array
    """(n): the weight of each landmark for the face's place; zero for most."""


def face_matrix(landmarks: Array, face: CanonicalFace, size: tuple[int, int]) -> Array | None:
    """The matrix (4, 4), float32, that takes the canonical face to the face in front of the camera, in centimetres.

    ``landmarks`` (n, 3) are normalized over a picture of ``size`` (width, height). Their z is relative, so that the
    face's distance is found in two steps: each scales the landmarks by how large the canonical face appears. None if
    the landmarks are too near to each other.
    """
    landmarks = landmarks[: len(face.points), :3].astype(np.float64)
    flat = landmarks[:, :2]
    if np.sqrt(((flat - flat.mean(axis=0)) ** 2).sum(axis=1)).max() < LEAST_SPREAD:
        return None
    height = 2 * math.tan(FIELD_OF_VIEW / 2)
    width = height * size[0] / size[1]
    screen = np.column_stack([landmarks[:, 0], 1 - landmarks[:, 1], landmarks[:, 2]]) * [width, height, width]
    screen -= [width / 2, height / 2, 0]
    depth = screen[:, 2].mean()
    scale = 1.0
    for step in range(2):
        placed = screen * [1, 1, -1] if step == 0 else _placed(screen, depth, scale)
        matrix = similarity(face.points, placed, face.weights)
        if matrix is None:
            return None
        scale *= float(np.linalg.norm(matrix[:3, 0]))
    matrix = similarity(face.points, _placed(screen, depth, scale), face.weights)
    return None if matrix is None else matrix.astype(np.float32)


def _placed(screen: Array, depth: float, scale: float) -> Array:
    """The landmarks behind the near plane, at the depth that ``scale`` gives; x and y follow the lines of sight."""
    z = (screen[:, 2] - depth + 1) / scale
    return np.column_stack([screen[:, 0] * z, screen[:, 1] * z, -z])
