"""YOLO-seg: a box, scores of classes and coefficients of a mask for each cell, and prototypes of masks.

An object's mask is the sum of the prototypes, times its coefficients (Bolya et al., "YOLACT", 2019, section 3.2;
Jocher et al., "Ultralytics YOLO", 2023).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..basic_types import Array
from ..head import Decoder, Found, Head
from ..layouts import PictureShape
from ..task import Fit, Match, Model, maps_of, picture_of
from ..vision.yolo import GREY, Rows, find_rows, find_selected, objects_in

LEAST, MOST_PROTOTYPES = 0.25, 128
"""Usual are 32 prototypes; the drawing's program grows with them."""


def fits(model: Model) -> Fit | None:
    """Whether the outputs are rows with coefficients, and as many prototypes."""
    if (parts := parts_of(model)) is None:
        return None
    if model.metadata.task == "segment":
        return Fit(Match.METADATA, "its file says that it is ultralytics' segmentation of objects")
    return Fit(Match.OUTPUTS, f"its outputs are YOLO's rows and {parts[2].channels} prototypes of masks")


def decoder(model: Model) -> Decoder:
    """1x(4+C+P)xN, 1xNx(4+C+P) or 1xNx(6+P), and 1xPxHxW or 1xHxWxP (YOLO-seg, with P prototypes)."""
    parts, picture = parts_of(model), picture_of(model)
    assert parts is not None and picture is not None, "the model fits"
    rows, number, shape = parts

    def decode(outputs: Sequence[Array], least: float) -> Found:
        found = objects_in(outputs, rows, shape.channels, picture, least)
        return Found(*found[:3], coefficients=found.further)

    classes = None if rows.is_selected else rows.values - 4 - shape.channels
    return Decoder(decode, classes, LEAST, "letterboxed", prototypes=(number, shape), pad=GREY)


def parts_of(model: Model) -> tuple[Rows, int, PictureShape] | None:
    """The rows, and the number and the sizes of the prototypes; None for another model."""
    picture, shapes, maps = picture_of(model), list(model.outputs.values()), maps_of(model)
    if model.metadata.task not in ("", "segment") or picture is None or len(shapes) != 2:
        return None
    number = next((number for number, shape in enumerate(shapes) if len(shape) == 4), None)
    if number is None or (shape := maps[number]) is None or shape.channels > MOST_PROTOTYPES:
        return None
    selected, rows = find_selected(shapes, 6 + shape.channels), find_rows(shapes, picture, 1)
    if selected is not None and not rows:
        return selected, number, shape
    return (rows[0], number, shape) if rows and rows[0].values > 4 + shape.channels else None


HEAD = Head("instances", fits, decoder)
