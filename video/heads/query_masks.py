"""Queries with masks (RF-DETR-seg, Robinson et al., 2025): logits, a box and a mask of the whole picture for each.

A mask is given in logits, at a quarter of the picture's size: above 0 is the object. Boxes and scores are those of
queries.py, with a sigmoid for each class. Masks count as prototypes, of which each object takes one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..basic_types import Array
from ..head import Decoder, Found, Head
from ..layouts import PictureShape, is_alike
from ..task import Fit, Match, Model, picture_of
from . import queries


class _Parts(NamedTuple):
    """The outputs with boxes and logits, and the number and sizes of that with masks: a channel for each query."""

    queries: queries.QueryOutputs
    masks: int
    shape: PictureShape


def fits(model: Model) -> Fit | None:
    """Whether the outputs are logits, boxes and masks of up to 1000 queries."""
    parts = _parts_of(model)
    if parts is None:
        return None
    return Fit(Match.OUTPUTS, f"its outputs are logits, boxes and masks of {parts.queries.queries} queries")


def decoder(model: Model) -> Decoder:
    """1xQx4, 1xQxC and 1xQxHxW: boxes, logits and masks of queries (RF-DETR-seg)."""
    parts = _parts_of(model)
    assert parts is not None, "the model fits"
    find = queries.by_sigmoids(parts.queries)

    def decode(outputs: Sequence[Array], least: float) -> Found:
        found, numbers = find(outputs, least)
        return found._replace(coefficients=np.eye(parts.queries.queries, dtype=np.float32)[numbers])

    return Decoder(
        decode, parts.queries.values, queries.LEAST, "stretched", queries.IMAGENET,
        prototypes=(parts.masks, parts.shape), takes_one=True,
    )  # fmt: skip


def _parts_of(model: Model) -> _Parts | None:
    picture, shapes = picture_of(model), list(model.outputs.values())
    masks = [number for number, shape in enumerate(shapes) if len(shape) == 4 and shape[0] == 1]
    if picture is None or len(shapes) != 3 or len(masks) != 1:
        return None
    found = queries.outputs_of(model, [number for number in range(3) if number not in masks])
    _, count, height, width = shapes[masks[0]]
    shape = PictureShape(height, width, count, "nchw")
    return (
        _Parts(found, masks[0], shape)
        if found is not None and found.queries == count and is_alike(shape, picture)
        else None
    )


HEAD = Head("instances", fits, decoder)
