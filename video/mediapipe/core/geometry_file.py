"""The canonical face in a bundle: a message of Protocol Buffers (geometry_pipeline_metadata.proto)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

import framebind as fb

from ..calculators.face_geometry import CanonicalFace
from .protobuf import fields

MOST_POINTS = 1 << 16
"""Most values of the mesh that are read."""
_MESH, _BASIS, _VERTICES, _LANDMARK, _WEIGHT = 1, 2, 3, 1, 2
"""Numbers of fields."""
_VERTEX_VALUES = 5
"""Values of a vertex: x, y, z and two of a texture."""


def read_geometry(content: bytes) -> CanonicalFace:
    """The canonical face. ValueError if the bytes are damaged."""
    try:
        found = [*fields(content)]
        mesh = next(value for number, value in found if number == _MESH)
        vertices = np.array([*_floats(mesh, _VERTICES)], np.float64).reshape(-1, _VERTEX_VALUES)
        weights = np.zeros(len(vertices))
        for number, value in found:
            if number == _BASIS:
                landmark = dict(fields(value))
                weights[landmark[_LANDMARK]] = struct.unpack("<f", landmark[_WEIGHT])[0]
    except (StopIteration, IndexError, KeyError, ValueError, TypeError, struct.error) as error:
        raise fb.ModelError(f"the bundle's geometry_pipeline_metadata is damaged: {error}") from error
    if not (np.isfinite(vertices).all() and np.isfinite(weights).all() and (weights > 0).sum() >= 3):
        raise fb.ModelError("the bundle's geometry_pipeline_metadata has less than three weighted points")
    return CanonicalFace(vertices[:, :3], weights)


def _floats(message: bytes, field: int) -> Iterator[float]:
    """The values of a repeated field of floats, packed or not."""
    count = 0
    for number, value in fields(message):
        if number == field:
            count += len(value) // 4
            if count > MOST_POINTS:
                raise ValueError(f"more than {MOST_POINTS} values")
            yield from struct.unpack(f"<{len(value) // 4}f", value)
