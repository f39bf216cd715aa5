"""YOLO-pose: a box, scores of classes and key points for each cell, or for boxes that the model selects itself.

Key points are x, y and, if each has three values, the probability that the point is visible (Maji et al., "YOLO-Pose",
2022; Jocher et al., "Ultralytics YOLO", 2023).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..basic_types import Array
from ..head import Decoder, Found, Head
from ..task import Fit, Match, Model, picture_of
from ..vision.yolo import GREY, Rows, find_rows, find_selected, objects_in, to_parts

LEAST = 0.25
PERSON = (17, 3)
"""The key points of COCO's people, if the file does not say anything: 17 of 3 values."""


def fits(model: Model) -> Fit | None:
    """Whether a row has a box, scores and key points."""
    rows = _rows(model)
    if rows is None:
        return None
    if model.metadata.task == "pose":
        return Fit(Match.METADATA, "its file says that it is ultralytics' pose model")
    # A detector of 52 classes has as many values.
    return Fit(Match.SHAPES, "its rows may be a box, a score and 17 key points of 3 values")


def decoder(model: Model) -> Decoder:
    """1x(4+C+3K)xN, 1xNx(4+C+3K) or 1xNx(6+3K) (YOLO-pose, with K key points)."""
    rows, picture = _rows(model), picture_of(model)
    assert rows is not None and picture is not None, "the model fits"
    count, values = model.metadata.key_points or PERSON

    def decode(outputs: Sequence[Array], least: float) -> Found:
        found = objects_in(outputs, rows, count * values, picture, least)
        points = found.further.reshape(len(found.boxes), count, values)
        places = to_parts(points[..., :2].reshape(len(points), 2 * count), picture, is_pixels=found.is_pixels)
        seen = points[..., 2] if values == 3 else None
        return Found(*found[:3], places.reshape(len(points), count, 2), seen)

    classes = None if rows.is_selected else rows.values - 4 - count * values
    return Decoder(decode, classes, LEAST, "letterboxed", names=["person"], pad=GREY)


def _rows(model: Model) -> Rows | None:
    """The one output of a pose model; None for another model."""
    said, picture, shapes = model.metadata, picture_of(model), list(model.outputs.values())
    count, values = said.key_points or PERSON
    if said.task not in ("", "pose") or picture is None or len(shapes) != 1 or values not in (2, 3):
        return None
    selected, rows = find_selected(shapes, 6 + count * values), find_rows(shapes, picture, 1)
    if selected is not None and not rows:
        return selected
    return rows[0] if rows and (rows[0].values > 4 + count * values if said.task else rows[0].values == 56) else None


HEAD = Head("pose", fits, decoder)
