"""YOLO end to end: v10, YOLO26, and exports with suppression inside. The model selects its boxes.

Rows are left, top, right, bottom, score and class (Wang et al., "YOLOv10: Real-Time End-to-End Object Detection",
2024), in pixels of the input, or in some exports from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..basic_types import Array
from ..head import Decoder, Found, Head
from ..task import Fit, Match, Model, picture_of
from ..vision.yolo import GREY, find_selected, selected
from .queries import RTDETR

LEAST = 0.25


def fits(model: Model) -> Fit | None:
    """Whether the one output has up to 1000 rows of six values."""
    shapes, said = list(model.outputs.values()), model.metadata
    if said.task not in ("", "detect") or said.head == RTDETR or len(shapes) != 1 or find_selected(shapes, 6) is None:
        return None
    if said.task:
        return Fit(Match.METADATA, "its file says that it is ultralytics' detector")
    return Fit(Match.OUTPUTS, f"its output {shapes[0]} has rows of box, score and class")


def decoder(model: Model) -> Decoder:
    """1xNx6 with box, score and class (YOLOv10 and YOLO26, end to end)."""
    picture = picture_of(model)
    assert picture is not None, "the model fits"

    def decode(outputs: Sequence[Array], least: float) -> Found:
        return Found(*selected(outputs[0].reshape(-1, 6), picture, least)[:3])

    return Decoder(decode, len(model.metadata.classes) or None, LEAST, "letterboxed", pad=GREY)


HEAD = Head("detect", fits, decoder)
