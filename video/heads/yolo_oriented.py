"""YOLO-obb: boxes with an angle, for each cell, or for boxes that the model selects itself.

A box is centre, width and height, and an angle in radians, clockwise (Jocher et al., "Ultralytics YOLO", 2023).
vision/oriented.py has their corners and overlaps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..basic_types import Array
from ..head import Decoder, Found, Head
from ..network_outputs import candidates_of
from ..task import Fit, Match, Model, picture_of
from ..vision.non_max_suppression import suppress
from ..vision.oriented import bounds_of, corners_of, overlaps
from ..vision.yolo import GREY, MOST, OVERLAP, Rows, are_pixels, as_numbers, find_rows, find_selected

LEAST = 0.25


def fits(model: Model) -> Fit | None:
    """Whether the file names the task, and a row has a box, scores and an angle."""
    return None if _rows(model) is None else Fit(Match.METADATA, "its file says that it finds oriented boxes")


def decoder(model: Model) -> Decoder:
    """1x(5+C)xN, 1xNx(5+C) or 1xNx7 (YOLO-obb: boxes with angles, if the file's metadata has the task "obb")."""
    rows, picture = _rows(model), picture_of(model)
    assert rows is not None and picture is not None, "the model fits"
    sides = np.array([*picture.size * 2, 1], np.float32)

    def decode(outputs: Sequence[Array], least: float) -> Found:
        boxes, numbers, scores = (_selected if rows.is_selected else _candidates)(outputs, rows, least)
        if not are_pixels(boxes[:, :4]):
            boxes = boxes * sides  # an angle is one of pixels, which need not be as wide as high in parts
        if not rows.is_selected:
            kept = suppress(boxes, scores, numbers, OVERLAP, MOST, overlaps)
            boxes, numbers, scores = boxes[kept], numbers[kept], scores[kept]
        corners = corners_of(boxes) / sides[:2]
        return Found(bounds_of(corners), numbers, scores, corners=corners)

    return Decoder(decode, None if rows.is_selected else rows.values - 5, LEAST, "letterboxed", pad=GREY)


_Boxes = tuple[Array, npt.NDArray[np.int64], Array]
"""Boxes (n, 5) of centre x, centre y, width, height and angle, classes and scores, the likeliest first."""


def _candidates(outputs: Sequence[Array], rows: Rows, least: float) -> _Boxes:
    found = candidates_of(outputs, rows.selection(1), least)
    return found.values, found.classes, found.scores


def _selected(outputs: Sequence[Array], rows: Rows, least: float) -> _Boxes:
    """The rows that the model selected: centre x, centre y, width, height, score, class and angle."""
    values = rows.of(outputs)
    values = values[values[:, 4] >= least]
    values = values[np.argsort(-values[:, 4], kind="stable")]
    return values[:, [0, 1, 2, 3, 6]], as_numbers(values[:, 5]), values[:, 4]


def _rows(model: Model) -> Rows | None:
    """The one output of a model of oriented boxes; None for another model."""
    picture, shapes = picture_of(model), list(model.outputs.values())
    if model.metadata.task != "obb" or picture is None or len(shapes) != 1:
        return None
    selected, rows = find_selected(shapes, 7), find_rows(shapes, picture, 1)
    is_selected = selected is not None and (model.metadata.end_to_end or not rows)
    return selected if is_selected else rows[0] if rows and rows[0].values > 5 else None


HEAD = Head("detect", fits, decoder)
