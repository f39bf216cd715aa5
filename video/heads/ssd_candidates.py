"""SSD MobileNet of TensorFlow's Object Detection API without its last operator: a box and scores for each anchor."""

from __future__ import annotations

from ..head import Decoder, Head, decode_anchors
from ..task import Fit, Match, Model, picture_of
from ..vision import ssd

LEAST, OVERLAP = 0.5, 0.5


def fits(model: Model) -> Fit | None:
    """Whether there are a box and scores for each anchor of the input's size."""
    if _places_and_scores(model) is None:
        return None
    return Fit(Match.OUTPUTS, f"its outputs {list(model.outputs.values())} are those of SSD for its input")


def decoder(model: Model) -> Decoder:
    """1xNx4 and 1xNxC with SSD MobileNet's anchors (2034 at 320x320, 1917 at 300x300). Class 0 is the background."""
    found, picture = _places_and_scores(model), picture_of(model)
    assert found is not None and picture is not None, "the model fits"
    decode = decode_anchors(found, ssd.coco_anchors(picture.height), first=1, overlap=OVERLAP)
    return Decoder(decode, found[2], LEAST, "stretched", (0.5, 0.5))


def _places_and_scores(model: Model) -> tuple[int, int, int] | None:
    """The numbers of the outputs with boxes and with scores, and the number of classes; None for another model."""
    picture = picture_of(model)
    if picture is None or picture.height != picture.width:
        return None
    return ssd.places_and_scores(list(model.outputs.values()), ssd.coco_count(picture.height))


HEAD = Head("detect", fits, decoder)
