"""YOLO without selection: v8 to v12 and YOLO26, and v5 to v7 with an objectness, as candidates for each cell.

The model decodes its boxes. Scores, their threshold and suppression are here, as in Jocher et al., "Ultralytics YOLO"
(2023): a candidate's score is that of its best class, in v5 times the probability that there is an object.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..answers.selection import Selection
from ..basic_types import Array
from ..head import Decoder, Found, Head
from ..network_outputs import candidates_of
from ..task import Fit, Match, Model, picture_of
from ..vision.yolo import GREY, OVERLAP, Rows, find_rows, suppressed

LEAST = 0.25
"""Least score of a box, ultralytics' own."""
V5_ANCHORS, V5_OVERLAP = 3, 0.45
"""Candidates of a cell in v5 to v7, and the largest overlap of two boxes of one class, of its detect.py."""


def fits(model: Model) -> Fit | None:
    """Whether the outputs have a row for each cell of the input, or three (v5)."""
    rows = _rows(model)
    if rows is None:
        return None
    if model.metadata.task == "detect":
        return Fit(Match.METADATA, "its file says that it is ultralytics' detector")
    return Fit(Match.OUTPUTS, f"its outputs have {rows[0].candidates} rows, those of YOLO for its input")


def decoder(model: Model) -> Decoder:
    """1x(4+C)xN or 1xNx(4+C), 1xNx4 and 1xNxC, or 1x3Nx(5+C) (YOLO: N cells of strides 8, 16 and 32, C classes)."""
    rows, picture = _rows(model), picture_of(model)
    assert rows is not None and picture is not None, "the model fits"
    has_objectness = rows[0].candidates in [each.candidates for each in _found(model, V5_ANCHORS)]
    first, scores, boxes = (5 if has_objectness else 0 if len(rows) == 2 else 4), rows[-1], rows[0].columns(0, 4)
    objectness = rows[0].columns(4, 5) if has_objectness else None
    selection = Selection(scores.candidates, scores.columns(first, scores.values), (boxes,), objectness=objectness)
    overlap = V5_OVERLAP if has_objectness else OVERLAP

    def decode(outputs: Sequence[Array], least: float) -> Found:
        return Found(*suppressed(candidates_of(outputs, selection, least), picture, overlap)[:3])

    return Decoder(decode, scores.values - first, LEAST, "letterboxed", pad=GREY)


def _rows(model: Model) -> list[Rows] | None:
    """The one output of a YOLO, or those of boxes and of scores; None for another model."""
    if model.metadata.task not in ("", "detect") or model.metadata.end_to_end:
        return None
    one, three = _found(model, 1), _found(model, V5_ANCHORS)
    if len(model.outputs) == 1:
        if one and one[0].values > 4:
            return one
        return three if three and three[0].values > 5 else None
    if len(model.outputs) == 2 and len(one) == 2 and one[0].candidates == one[1].candidates:
        one.sort(key=lambda each: each.values != 4)
        return one if one[0].values == 4 else None
    return None


def _found(model: Model, anchors: int) -> list[Rows]:
    picture = picture_of(model)
    return [] if picture is None else find_rows(list(model.outputs.values()), picture, anchors)


HEAD = Head("detect", fits, decoder)
