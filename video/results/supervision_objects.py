"""Rows as objects of the library supervision, for its trackers, zones, counters and annotators."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import framebind as fb

from ..basic_types import Array
from ..vision.run_lengths import decode

if TYPE_CHECKING:
    import supervision


def to_detections(rows: Iterable[Mapping[str, Any]], classes: Sequence[str] = ()) -> supervision.Detections:
    """The objects of one frame as ``supervision.Detections``, in their order. Needs the extra ``supervision``.

    Parameters
    ----------
    rows : iterable of dict
        The rows of one frame of ``VideoStage``, or ``WatchResult.found``. A row without a class, which says that
        nothing was found, is left out.
    classes : sequence of str, optional
        The names of the model's classes, by number. Without them a class gets a number that is made of its name, the
        same one in each frame.

    Returns
    -------
    supervision.Detections
        ``xyxy``: float32 (n, 4) in pixels of the frame, the box, or else that of the mask or of the points.
        ``confidence``: float32 (n,). ``class_id``: int (n,). ``mask``: bool (n, height, width), or None if a row has
        no mask. ``data["class_name"]``: the names. ``data["xyxyxyxy"]``: float32 (n, 4, 2), the corners of oriented
        boxes, if all rows have them.

    Raises
    ------
    ValueError
        If a row has neither box, mask nor points, or a class that ``classes`` lacks.
    SourceError
        If supervision is not installed.

    Examples
    --------
    >>> rows = [{"class": "person", "score": 0.75, "box": [48, 8, 80, 72]}]
    >>> found = fb.video.to_detections(rows, ["person", "bicycle"])
    >>> found.xyxy.tolist(), found.class_id.tolist()
    ([[48.0, 8.0, 80.0, 72.0]], [0])
    """
    found, library = _found(rows), _supervision()
    if not found:
        return library.Detections.empty()
    masks = [None if row.get("mask") is None else decode(row["mask"]) for row in found]
    boxes = [_box(row, mask) for row, mask in zip(found, masks, strict=True)]
    data: dict[str, Array] = {"class_name": np.array([row["class"] for row in found])}
    corners = [row.get("corners") for row in found]
    if all(corners):
        data["xyxyxyxy"] = np.array(corners, np.float32)
    return library.Detections(
        xyxy=np.array(boxes, np.float32),
        mask=np.stack([each for each in masks if each is not None]) if all(m is not None for m in masks) else None,
        confidence=_scores(found),
        class_id=_numbers(found, classes),
        data=data,
    )


def to_key_points(rows: Iterable[Mapping[str, Any]], classes: Sequence[str] = ()) -> supervision.KeyPoints:
    """The points of the objects of one frame as ``supervision.KeyPoints``. Needs the extra ``supervision``.

    Parameters
    ----------
    rows, classes
        As for ``to_detections``.

    Returns
    -------
    supervision.KeyPoints
        ``xy``: float32 (n, points, 2) in pixels of the frame. ``keypoint_confidence``: float32 (n, points), or None if
        the model does not say how visible points are. ``detection_confidence``, ``class_id`` and
        ``data["class_name"]`` as for ``to_detections``.

    Raises
    ------
    ValueError
        If a row has no points, or a class that ``classes`` lacks.
    SourceError
        If supervision is not installed.

    Examples
    --------
    >>> rows = [{"class": "hand", "score": 0.5, "points": [[1, 2], [3, 4]]}]
    >>> fb.video.to_key_points(rows).xy.tolist()
    [[[1.0, 2.0], [3.0, 4.0]]]
    """
    found, library = _found(rows), _supervision()
    if not found:
        return library.KeyPoints.empty()
    for row in found:
        if not row.get("points"):
            raise ValueError(
                f"an object '{row['class']}' has no points: those of the tasks pose, hands, gestures and face have"
            )
    seen = [row.get("point_scores") for row in found]
    return library.KeyPoints(
        xy=np.array([row["points"] for row in found], np.float32),
        class_id=_numbers(found, classes),
        keypoint_confidence=np.array(seen, np.float32) if all(seen) else None,
        detection_confidence=_scores(found),
        data={"class_name": np.array([row["class"] for row in found])},
    )


def _found(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row.get("class") is not None]


def _scores(found: Sequence[Mapping[str, Any]]) -> Array:
    """The scores; 1 for a class that has none, such as those of a segmentation."""
    return np.array([1.0 if row.get("score") is None else row["score"] for row in found], np.float32)


def _numbers(found: Sequence[Mapping[str, Any]], classes: Sequence[str]) -> Array:
    for row in found:
        if classes and row["class"] not in classes:
            raise ValueError(f"an object is a '{row['class']}', which is none of the {len(classes)} classes: name all")
    return np.array(
        [classes.index(row["class"]) if classes else zlib.crc32(row["class"].encode()) >> 16 for row in found], int
    )


def _box(row: Mapping[str, Any], mask: Array | None) -> Sequence[float]:
    """The box of an object, or of what is known of its place."""
    if row.get("box"):
        return row["box"]
    if mask is not None and mask.any():
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        return [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
    if row.get("points"):
        points = np.array(row["points"])
        return [*points.min(axis=0), *points.max(axis=0)]
    raise ValueError(
        f"an object '{row['class']}' has no box, mask or points: those of the tasks detect, instances, pose, "
        "hands, gestures and face have, and of segment and matte with saved masks as run lengths"
    )


def _supervision() -> Any:
    """The package supervision. Raises SourceError if it is not installed."""
    try:
        import supervision
    except ImportError as error:
        raise fb.SourceError("supervision is not installed: pip install '.[supervision]'") from error
    return supervision
