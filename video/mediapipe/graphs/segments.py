"""Masks of an image segmenter on the GPU, from its output to the picture's size."""

from __future__ import annotations

from collections.abc import Iterator

import framebind as fb

from ...answers.graph import AnswerGraph
from ...basic_types import Size
from ...embedded_network import embedded
from ..calculators.segments import BACKGROUND

Shape = tuple[int, int, int]
HALF = 0.5


def marked_network(content: bytes) -> bytes:
    """A network whose input (1, height, width, 4) is in two: a picture (1, height, width, 3) and a mark for it.

    Raises ModelError if its input is not float32.
    """
    found = embedded(content)
    taken = found.tensors[found.inputs[0]]
    if taken.dtype != "float32":
        raise fb.ModelError(f"a network of {taken.dtype} takes a marked picture as an mp.Image only: read the pixels")
    graph, shape = AnswerGraph(), tuple(taken.shape)[:3]
    picture, mark = graph.input((*shape, 3)), graph.input((*shape, 1))
    return graph.build(*graph.network(content, [graph.join([picture, mark], 3)]))


def masks_of(shape: Shape, size: Size, activation: str, *, confidence: bool, category: bool) -> bytes:
    """A model that takes the scores (1, height, width, classes) of a ``shape`` without the 1.

    It gives the confidence masks of all classes, as ``confidence_masks``, and the category mask, as ``category_mask``
    divided by 255, each (1, height, width, 1) of a picture of ``size`` (width, height). ``activation`` is "sigmoid",
    "softmax" or nothing ("").
    """
    graph = AnswerGraph()
    scores, outputs = graph.input((1, *shape)), list[int]()
    sigmoids = graph.unary("LOGISTIC", scores) if activation == "sigmoid" else scores
    if confidence:
        softmax = activation == "softmax"
        values = graph.apply("SOFTMAX", [scores], (1, *shape), beta=1.0) if softmax else sigmoids
        outputs += _enlarged(graph, values, size, "halfPixelCenters")
    if category:
        outputs.append(_best(graph, [*_enlarged(graph, sigmoids, size, "alignCorners")]))
    return graph.build(*outputs)


def _enlarged(graph: AnswerGraph, values: int, size: Size, kind: str) -> Iterator[int]:
    """Each channel of values (1, rows, columns, classes), bilinear at a picture's ``size``: (1, height, width, 1).

    ``kind`` is the option of RESIZE_BILINEAR that says how pixels lie.
    """
    shape = 1, size[1], size[0], 1
    for plane in graph.parts(values, 3):
        yield graph.apply("RESIZE_BILINEAR", [plane, graph.integers(*shape[1:3])], shape, "float32", **{kind: True})


def _best(graph: AnswerGraph, planes: list[int]) -> int:
    """The number of the first plane with the highest value, over 255; of one plane 0 above a half, and else 1."""
    if len(planes) == 1:
        outside = graph.binary("GREATER", planes[0], HALF)
        return graph.binary("SUB", graph.number(1.0), outside)
    best, number = planes[0], graph.number(0.0)
    for each, plane in enumerate(planes[1:], 1):
        is_better = graph.binary("GREATER", plane, best)
        step = graph.binary("SUB", graph.number(each / BACKGROUND), number)
        number = graph.binary("ADD", number, graph.binary("MUL", is_better, step))
        best = graph.binary("MAXIMUM", best, plane)
    return number
