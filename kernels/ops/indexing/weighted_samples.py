"""Sums of weighted bilinear samples: deformable attention (arXiv:2010.04159, equation 3).

delegate/transform/deformable.py makes it of the samples of each level, their weights and the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...operation import Collapsed, Launch, Lowering, Operation, PackedArray
from ...tensor import slices


@dataclass(frozen=True)
class Point:
    """A sample that is taken for each query and each head.

    ``value`` is the place of the map's first value in the tensor of values, and ``row_stride`` that between rows.
    ``column``, ``row`` and ``weight`` are the places of the first query's in their tensors. The sample lies at column *
    ``scale[0]`` + ``scale[1]`` and at row * ``scale[2]`` + ``scale[3]``.
    """

    size: tuple[int, int]
    """Width and height of the map."""
    value: int
    row_stride: int
    column: int
    row: int
    weight: int
    scale: tuple[float, float, float, float]


@dataclass(frozen=True)
class WeightedSamples(Operation):
    """The sum of samples, for ``queries`` rows of ``heads`` times ``width`` channels.

    Inputs: values, whose channels lie side by side and whose pixels are whole slices; places; weights. Strides count
    the values of a tensor in the order of its dimensions; those of values are whole slices.
    """

    heads: int
    queries: int
    width: int
    points: tuple[Point, ...]
    value_strides: tuple[int, int]
    """The distances between the heads and between the columns of the values."""
    place_strides: tuple[int, int]
    """The distances between the heads and between the queries of the places."""
    weight_strides: tuple[int, int]
    """The distances between the heads and between the queries of the weights."""

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [(1, self.queries, self.heads * self.width)]

    def lower(self, lowering: Lowering) -> list[Launch]:
        constants = {
            "POINTS": len(self.points), "HEAD_S": slices(self.width), "VALUE_HEAD": self.value_strides[0] // 4,
            "VALUE_COLUMN": self.value_strides[1] // 4, "PLACE_HEAD": self.place_strides[0],
            "PLACE_QUERY": self.place_strides[1], "WEIGHT_HEAD": self.weight_strides[0],
            "WEIGHT_QUERY": self.weight_strides[1],
        }  # fmt: skip
        launch = lowering.launch("weighted_samples", ("src", "places", "weights"), {**constants})
        launch.arrays["points"] = PackedArray(3 * len(self.points), self._rows, exact=True)
        return [launch]

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        return ()

    def _rows(self) -> np.ndarray:
        rows = [
            (
                (*point.size, point.value // 4, point.row_stride // 4),
                (point.column, point.row, point.weight, 0),
                point.scale,
            )
            for point in self.points
        ]
        return np.array(rows, np.float32).reshape(-1, 4)
