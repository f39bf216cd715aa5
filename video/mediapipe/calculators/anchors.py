"""Anchors of MediaPipe's detectors of faces, palms and persons (SsdAnchorsCalculator with ``fixed_anchor_size``)."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from ...basic_types import Array
from ...vision.ssd import grid


def anchor_middles(side: int, strides: tuple[int, ...], per_layer: int = 2) -> Array:
    """The middles (n, 2), as (x, y), of the anchors of a network with a square input of ``side`` pixels.

    A layer of stride s has ``per_layer`` anchors in each of (side / s) x (side / s) cells. Layers that follow each
    other with the same stride share a grid. All anchors have the size 1, which scales no box.
    """
    layers = [grid(-(-side // stride), [(1, 1)] * (per_layer * len([*group]))) for stride, group in groupby(strides)]
    return np.concatenate(layers)[:, :2].astype(np.float32)
