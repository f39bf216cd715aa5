"""Masks of regions, warped to the whole picture."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from ...answers.graph import AnswerGraph
from ...basic_types import Array, Size
from ..calculators.image_to_tensor import STEPS
from ..calculators.masks import FINE, KEPT, LEAST_AREA, UNCERTAINTY
from .detections import LEAST
from .tracks import COLUMNS, corner_matrix

OPTIONS = struct.Struct("<5i")
"""The options of WarpAffine: the number of the mask, height and width, and the steps of parts and of coordinates."""


def warp(graph: AnswerGraph, masks: int, placed: int, size: Size, side: int) -> Iterator[int]:
    """The mask (1, height, width, 1) of each region in a picture of ``size`` (width, height), as ``warp_mask``.

    ``masks`` (n, rows, columns, 1) are those of the regions ``placed`` (n, 8), which a network of ``side`` pixels saw.
    """
    n, rows, columns, _ = graph.shape(masks)
    slopes, starts, area = _inverse(graph, placed, np.array([columns, rows]) * FINE, side)
    seen = graph.binary("GREATER", area, size[0] * size[1] * LEAST_AREA)
    masks = graph.binary("MUL", masks, graph.reshape(seen, (n, 1, 1, 1)))
    for number in range(n):
        options = OPTIONS.pack(number, size[1], size[0], FINE, STEPS)
        yield graph.custom("WarpAffine", [masks, slopes, starts], (1, size[1], size[0], 1), options)


def mixed(graph: AnswerGraph, mask: int, before: int, was_there: int) -> int:
    """A mask that keeps some of the one ``before`` in places where it is uncertain, as ``smooth_mask``.

    ``was_there`` (1, 1, 1, 1) is 0 if there was none before.
    """
    half = graph.binary("SUB", mask, 0.5)
    square = graph.binary("MUL", half, half)
    sure = graph.binary("MUL", square, UNCERTAINTY[-1])
    for each in reversed(UNCERTAINTY[:-1]):
        sure = graph.binary("MUL", graph.binary("ADD", sure, each), square)
    kept = graph.binary("MUL", graph.binary("SUB", graph.number(1.0), graph.binary("MINIMUM", sure, 1.0)), KEPT)
    kept = graph.binary("MUL", kept, was_there)
    return graph.binary("ADD", mask, graph.binary("MUL", graph.binary("SUB", before, mask), kept))


def _inverse(graph: AnswerGraph, placed: int, scale: Array, side: int) -> tuple[int, int, int]:
    """The maps from the picture's pixels back to regions (n, 8), whose sides are ``scale`` (2).

    They are the steps of both coordinates for a column and for a row (n, 4), both coordinates at the pixel (0, 0)
    (n, 2), and the areas of the regions in pixels (n, 1).
    """
    left, right = np.zeros((COLUMNS, 2)), np.zeros((COLUMNS, 2))
    left[[0, 1], [0, 1]] = right[[5, 4], [0, 1]] = 1  # a e - b d
    products = graph.binary("MUL", graph.linear(placed, left), graph.linear(placed, right))
    area = graph.linear(products, np.array([[1], [-1]]))
    turned = np.zeros((COLUMNS, 4))
    turned[[5, 4, 1, 0], range(4)] = np.tile(scale, 2) * [1, -1, -1, 1]
    slopes = graph.binary("DIV", graph.linear(placed, turned), graph.binary("MAXIMUM", area, LEAST))
    corner = graph.linear(placed, np.repeat(corner_matrix(side), 2, axis=1), -0.5)
    moved = graph.binary("MUL", slopes, corner)
    return slopes, graph.linear(moved, np.array([[-1, 0], [0, -1], [-1, 0], [0, -1]])), area
