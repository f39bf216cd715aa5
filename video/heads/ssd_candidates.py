"""SSD MobileNet of TensorFlow's Object Detection API without its last operator: a box and scores for each anchor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..head import Decoder, Found, Head
from ..task import Fit, Match, Model, picture_of
from ..vision import ssd
from ..vision.boxes import decode_boxes, select

Array = npt.NDArray[Any]
LEAST, OVERLAP = 0.5, 0.5


def fits(model: Model) -> Fit | None:
    """Whether there are a box and scores for each anchor of the input's size."""
    if _places_and_scores(model) is None:
        return None
    return Fit(Match.OUTPUTS, f"its outputs {list(model.outputs.values())} are those of SSD for its input")


def decoder(model: Model) -> Decoder:
    """1xNx4 and 1xNxC with SSD MobileNet's anchors (2034 at 320x320, 1917 at 300x300).

    Class 0 is the background. Models put out probabilities or logits; the first frame says which: a score below 0 is no
    probability.
    """
    found, picture = _places_and_scores(model), picture_of(model)
    assert found is not None and picture is not None, "the model fits"
    (places, numbers, classes), is_logit = found, None
    anchors = ssd.coco_anchors(picture.height)

    def decode(outputs: Sequence[Array], least: float) -> Found:
        nonlocal is_logit
        values, scores = outputs[places].reshape(-1, 4), outputs[numbers].reshape(-1, classes)
        if is_logit is None:
            is_logit = bool(np.nanmin(scores) < 0)
        boxes, kept, best = select(
            scores, values, anchors, decode_boxes, least=ssd.logit(least) if is_logit else least, first=1,
            overlap=OVERLAP,
        )  # fmt: skip
        return Found(boxes, kept, ssd.sigmoid(best) if is_logit else best)

    return Decoder(decode, classes, LEAST, "stretched", (0.5, 0.5))


def _places_and_scores(model: Model) -> tuple[int, int, int] | None:
    """The numbers of the outputs with boxes and with scores, and the number of classes; None for another model."""
    picture = picture_of(model)
    if picture is None or picture.height != picture.width:
        return None
    return ssd.places_and_scores(list(model.outputs.values()), ssd.coco_count(picture.height))


HEAD = Head("detect", fits, decoder)
