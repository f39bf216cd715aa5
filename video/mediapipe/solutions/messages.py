"""The messages that solutions put out, with the fields of MediaPipe's Protocol Buffers: plain objects here.

``mp.framework.formats.landmark_pb2`` is this module.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt


@dataclass
class Landmark:
    """A point; ``visibility`` and ``presence`` are 0.0 and not set if the network does not give them."""

    x: float = 0.0
    y: float = 0.0
    z: float = 0.0
    visibility: float = 0.0
    presence: float = 0.0
    is_set: frozenset[str] = frozenset()
    """The names of optional fields that have a value."""

    def __post_init__(self) -> None:
        given = {name for name in ("visibility", "presence") if getattr(self, name)}
        self.is_set = self.is_set | given

    def HasField(self, name: str) -> bool:  # noqa: N802 - the name of Protocol Buffers
        """True if an optional field has a value; x, y and z always have."""
        return name in {"x", "y", "z", *self.is_set}


class NormalizedLandmark(Landmark):
    """A point of the picture: x and y from 0 to 1, z in widths."""


@dataclass
class LandmarkList:
    """The landmarks of one thing, in ``landmark``."""

    landmark: list[Landmark] = field(default_factory=list)


class NormalizedLandmarkList(LandmarkList):
    """The landmarks of one thing in the picture, in ``landmark``."""


@dataclass
class Classification:
    """A class and its score."""

    index: int = 0
    score: float = 0.0
    label: str = ""
    display_name: str = ""


@dataclass
class ClassificationList:
    """The classes of one thing, in ``classification``."""

    classification: list[Classification] = field(default_factory=list)


@dataclass
class RelativeBoundingBox:
    """An upright box, from 0 to 1 over the picture."""

    xmin: float = 0.0
    ymin: float = 0.0
    width: float = 0.0
    height: float = 0.0


@dataclass
class RelativeKeypoint:
    """A key point, from 0 to 1 over the picture."""

    x: float = 0.0
    y: float = 0.0


@dataclass
class LocationData:
    """The place of a detection."""

    relative_bounding_box: RelativeBoundingBox
    relative_keypoints: list[RelativeKeypoint]
    format: int = 2
    """RELATIVE_BOUNDING_BOX."""


@dataclass
class Detection:
    """A detected thing: its scores, the numbers of its classes, and its place."""

    score: list[float]
    label_id: list[int]
    location_data: LocationData


def landmark_list(rows: npt.NDArray[Any]) -> NormalizedLandmarkList:
    """The landmarks of rows (n, 3, or 4 with visibility) in the picture."""
    return NormalizedLandmarkList([*_landmarks(NormalizedLandmark, rows)])


def world_landmark_list(rows: npt.NDArray[Any]) -> LandmarkList:
    """The landmarks of rows (n, 3, or 4 with visibility) in metres."""
    return LandmarkList([*_landmarks(Landmark, rows)])


def _landmarks(kind: type[Any], rows: npt.NDArray[Any]) -> Iterable[Any]:
    given = frozenset({"visibility"} if rows.shape[1] > 3 else ())
    return (kind(*row, is_set=given) for row in rows.tolist())
