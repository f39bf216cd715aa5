"""MediaPipe's face detector of the front camera (BlazeFace, Bazarevsky et al., 2019)."""

from __future__ import annotations

from collections.abc import Sequence

from ..answers.selection import Columns, Selection
from ..basic_types import Array
from ..head import Decoder, Found, Head
from ..network_outputs import candidates_of
from ..task import Fit, Match, Model
from ..vision import ssd
from ..vision.boxes import CANDIDATES, best_boxes, decode_faces

LEAST, OVERLAP = 0.75, 0.3
PAD = 0.0
"""The texel around a picture: MediaPipe's graphs fill with black (BORDER_ZERO)."""


def fits(model: Model) -> Fit | None:
    """Whether the outputs are (1, 896, 16) and (1, 896, 1)."""
    if sorted(shape[-2:] for shape in model.outputs.values()) != [(896, 1), (896, 16)]:
        return None
    return Fit(Match.OUTPUTS, "its outputs 1x896x16 and 1x896x1 are those of MediaPipe's face detector")


def decoder(model: Model) -> Decoder:
    """1x896x16 and 1x896x1 (MediaPipe's faces).

    Each face has six points: right eye, left eye, nose, mouth, right ear, left ear.
    """
    anchors, (one, _) = ssd.face_anchors(), model.outputs.values()
    places = 0 if one[-1] == 16 else 1
    selection = Selection(len(anchors), Columns(1 - places, 0, 1), (Columns(places, 0, 16),), CANDIDATES)

    def decode(outputs: Sequence[Array], least: float) -> Found:
        likely = candidates_of(outputs, selection, ssd.logit(least))
        found, numbers, scores = best_boxes(likely, anchors, decode_faces, OVERLAP)
        return Found(found[:, :4], numbers, ssd.sigmoid(scores), found[:, 4:].reshape(-1, 6, 2))

    return Decoder(decode, 1, LEAST, "letterboxed", (0.5, 0.5), ["face"], pad=PAD)


HEAD = Head("detect", fits, decoder)
