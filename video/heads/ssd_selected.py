"""Detectors whose last operator selects the boxes: TFLite_Detection_PostProcess, of SSD and EfficientDet-Lite."""

from __future__ import annotations

from collections.abc import Sequence

from ..basic_types import Array
from ..head import Decoder, Found, Head
from ..task import Fit, Match, Model
from ..vision import ssd


def fits(model: Model) -> Fit | None:
    """Whether the four outputs are those of TFLite_Detection_PostProcess."""
    if not ssd.is_selected(list(model.outputs.values())):
        return None
    return Fit(Match.OUTPUTS, "its four outputs are those of TFLite_Detection_PostProcess")


def decoder(model: Model) -> Decoder:
    """boxes 1xNx4, classes 1xN, scores 1xN and their number (TFLite_Detection_PostProcess)."""

    def decode(outputs: Sequence[Array], least: float) -> Found:
        found = ssd.selected(outputs)
        likely = found.scores >= least
        return Found(found.places[likely], found.classes[likely], found.scores[likely])

    return Decoder(decode, None, 0.5, "stretched", (0.5, 0.5))


HEAD = Head("detect", fits, decoder)
