"""A detector at anchors, of faces, palms or persons: from a picture to detections."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...basic_types import Array
from ..calculators.anchors import anchor_middles
from ..calculators.detections import Detections, decode_detections, project_detections, without_bars
from ..calculators.image_to_tensor import WHOLE, region_matrix, region_of
from ..calculators.suppression import suppress_weighted
from .network import TaskNetwork


class AnchorDetector:
    """A network with boxes and ``points`` key points at anchors.

    ``strides`` are those of its layers, which have ``per_layer`` anchors in each cell. ``confidence`` is the least
    score, and ``overlap`` the share of two boxes above which they are one thing. ``removes_bars`` chooses the roundings
    of ``without_bars`` for whole pictures.
    """

    def __init__(
        self,
        network: TaskNetwork,
        strides: tuple[int, ...],
        points: int,
        confidence: float,
        overlap: float,
        *,
        per_layer: int = 2,
        removes_bars: bool = False,
    ) -> None:
        side = network.side[1]
        self._anchors = anchor_middles(side, strides, per_layer)
        count = len(self._anchors)
        self._network = network.expect((1, side, side, 3), (1, count, 4 + 2 * points), (1, count, 1))
        self._side, self._confidence, self._overlap = side, confidence, overlap
        self._removes_bars = removes_bars

    def find(self, pixels: Any, rectangle: Array) -> Detections:
        """The detections in a rectangle (5) of a picture, best first, in its coordinates."""
        size = pixels.shape[1], pixels.shape[0]
        region = region_of(rectangle, size, aspect=1.0)
        outputs = self._network.run_on(pixels, region, replicate=False)
        boxes, logits = outputs[0], outputs[1]
        found = decode_detections(boxes[0], logits.ravel(), self._anchors, self._side, self._confidence)
        kept = suppress_weighted(found, self._overlap)
        if self._removes_bars and np.array_equal(rectangle, WHOLE):
            return without_bars(kept, size)
        return project_detections(kept, region_matrix(region, size))
