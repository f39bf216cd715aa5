"""EfficientDet without a last operator that selects (Tan, Pang and Le, "EfficientDet", 2020).

A box and scores for each anchor: 9 in each cell of 5 layers, with strides of 8 to 128 pixels. A box is y, x, height and
width relative to its anchor.
"""

from __future__ import annotations

import itertools

import numpy as np

from ..basic_types import Array
from ..head import Decoder, Head, decode_anchors
from ..layouts import PictureShape
from ..task import Fit, Match, Model, picture_of
from ..vision import ssd

LEAST, OVERLAP = 0.4, 0.5
PAD = 0.5
"""The texel around a picture: automl fills with zeros after the normalization from -1 to 1."""
STRIDES = (8, 16, 32, 64, 128)
ASPECTS, OCTAVES = (1.0, 2.0, 0.5), 3
"""Ratios of an anchor's width to its height, and sizes of it between two layers (hparams_config of Google's automl)."""
SMALL_SIDE, SMALL_SCALE, SCALE = 448, 3.0, 4.0
"""Sides of an anchor in strides: SMALL_SCALE up to EfficientDet-Lite2, whose input has SMALL_SIDE, and else SCALE."""
CODING = np.array([10, 10, 5, 5], np.float32)
"""The scales that ``decode_boxes`` divides by, and that EfficientDet does not have."""


def fits(model: Model) -> Fit | None:
    """Whether there are a box and scores for each of EfficientDet's anchors."""
    if _places_and_scores(model) is None:
        return None
    return Fit(Match.OUTPUTS, f"its outputs {list(model.outputs.values())} are those of EfficientDet for its input")


def decoder(model: Model) -> Decoder:
    """1xNx4 and 1xNxC with EfficientDet's anchors (19206 at 320x320)."""
    found, picture = _places_and_scores(model), picture_of(model)
    assert found is not None and picture is not None, "the model fits"
    decode = decode_anchors(found, anchors_of(picture), first=0, overlap=OVERLAP, coding=CODING)
    return Decoder(decode, found[2], LEAST, "letterboxed", (0.5, 0.5), pad=PAD)


def anchors_of(picture: PictureShape) -> Array:
    """The anchors: rows of centre x, centre y, width and height, as parts of the input.

    Layer after layer, row after row; in a cell three sizes, of three ratios each (anchors of Google's automl).
    """
    scale = SMALL_SCALE if picture.height <= SMALL_SIDE else SCALE
    kinds = [(2 ** (octave / OCTAVES), aspect) for octave, aspect in itertools.product(range(OCTAVES), ASPECTS)]
    sides = np.array([(size * aspect**0.5, size * aspect**-0.5) for size, aspect in kinds]) * scale
    layers = list[Array]()
    for stride in STRIDES:
        rows, columns = -(-picture.height // stride), -(-picture.width // stride)
        y, x, kind = np.meshgrid(np.arange(rows), np.arange(columns), np.arange(len(kinds)), indexing="ij")
        middles = np.column_stack([x.ravel() + 0.5, y.ravel() + 0.5])
        layers.append(np.hstack([middles, sides[kind.ravel()]]) * stride)
    return (np.concatenate(layers) / np.tile(picture.size, 2)).astype(np.float32)


def _places_and_scores(model: Model) -> tuple[int, int, int] | None:
    """The numbers of the outputs with boxes and with scores, and the number of classes; None for another model."""
    picture = picture_of(model)
    if picture is None:
        return None
    cells = sum(-(-picture.height // stride) * -(-picture.width // stride) for stride in STRIDES)
    return ssd.places_and_scores(list(model.outputs.values()), len(ASPECTS) * OCTAVES * cells)


HEAD = Head("detect", fits, decoder)
