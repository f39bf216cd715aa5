"""The pass that finds bilinear samples of pictures, spelled as four gathers, and makes them one node.

PyTorch's grid_sample with zeros beyond the border becomes about a hundred operators, once for each level of RAFT's
correlations and of deformable attention. At column x and row y of a picture of width W and height H:

    x0 = floor(x)     x1 = x0 + 1     y0 = floor(y)     y1 = y0 + 1
    result = p(x0, y0) (x1 - x) (y1 - y) + p(x1, y0) (x - x0) (y1 - y) + p(x0, y1) (x1 - x) (y - y0)
             + p(x1, y1) (x - x0) (y - y0)

A corner outside of the picture counts as the pixel (0, 0) with the weight 0. Negative indices would count from the end;
none is left then.
"""

from __future__ import annotations

import numpy as np

from ...kernels.ops.indexing.bilinear_samples import BilinearSamples
from ...kernels.ops.indexing.gather_nd import GatherNd
from .graph import Graph, Node
from .numbering import Number, Numbering, between


def fuse_samples(graph: Graph) -> None:
    """Replace the nodes of each bilinear sample by one BILINEAR_SAMPLES node."""
    numbering: Numbering | None = None
    for node in graph.forwards():
        if not isinstance(node.operation, GatherNd) or len(graph.tensors[node.inputs[0]].shape) != 4:
            continue
        numbering = numbering or Numbering(graph)
        found = _match(graph, numbering, node)
        if found is not None:
            members, sources, result = found
            graph.substitute(members, Node("BILINEAR_SAMPLES", BilinearSamples(), sources, (result,)))


def _match(graph: Graph, numbering: Numbering, gather: Node) -> tuple[set[Node], tuple[int, int, int], int] | None:
    """The nodes around the gather of the first corner, what they read (picture, columns, rows), and their result."""
    indices = numbering.parts(numbering.of(gather.inputs[1]), "JOINED")
    if indices is None or len(indices) != 4 or gather.epilogue:
        return None
    batch, channel, y, x = indices
    places = tuple(_place(numbering, index) for index in (x, y))
    columns, rows = (None if place is None else numbering.tensor(place) for place in places)
    if columns is None or rows is None:
        return None
    picture, shape = gather.inputs[0], graph.tensors[gather.outputs[0]].shape
    result = numbering.tensor(_formula(graph, numbering, picture, (batch, channel), (columns, rows)))
    if result is None or len(shape) != 4 or shape[:2] != graph.tensors[picture].shape[:2]:
        return None
    if any(graph.tensors[tensor].shape != shape for tensor in (columns, rows, result)):
        return None
    if not all(_counts(graph, numbering, number, axis, shape) for axis, number in enumerate((batch, channel))):
        return None
    sources = picture, columns, rows
    members = between(graph, sources, result)
    return None if members is None else (members, sources, result)


def _place(numbering: Numbering, index: Number) -> Number | None:
    """The number x of an index that is floor(x), kept inside the picture."""
    for name, operand in (("SELECT", 2), ("SELECT", 1), ("TO_WHOLE", 0), ("FLOOR", 0)):
        parts = numbering.parts(index, name)
        if parts is None:
            return None
        index = parts[operand]
    return index


def _formula(
    graph: Graph, numbering: Numbering, picture: int, planes: tuple[Number, Number], places: tuple[int, int]
) -> Number:
    """The number of the samples of a picture, whose planes are indexed by two numbers, at columns and rows."""
    apply, constant = numbering.apply, numbering.constant
    sizes = graph.tensors[picture].shape[:1:-1]
    at = [numbering.of(place) for place in places]
    low = [apply("FLOOR", place) for place in at]
    high = [apply("ADD", first, constant(1)) for first in low]
    corners = [(apply("SUB", h, p), apply("SUB", p, f)) for f, h, p in zip(low, high, at, strict=True)]

    def inside(position: Number, size: int) -> Number:
        least, most = apply("GREATER_EQUAL", position, constant(0)), apply("LESS", position, constant(size))
        return apply("LOGICAL_AND", least, most)

    def index(position: Number, size: int, holds: Number) -> Number:
        kept = apply("SELECT", holds, apply("TO_WHOLE", position), constant(0))
        return apply("SELECT", apply("LESS", kept, constant(0)), apply("ADD", kept, constant(size)), kept)

    terms: list[Number] = []
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        corner = [(low[0], high[0])[column], (low[1], high[1])[row]]
        holds = apply("LOGICAL_AND", *(inside(position, size) for position, size in zip(corner, sizes, strict=True)))
        weight = apply("SELECT", holds, apply("MUL", corners[0][column], corners[1][row]), constant(0))
        x, y = (index(position, size, holds) for position, size in zip(corner, sizes, strict=True))
        pixel = numbering.gathered(numbering.of(picture), numbering.joined([*planes, y, x]), 4)
        terms.append(apply("MUL", pixel, weight))
    total = terms[0]
    for term in terms[1:]:
        total = apply("ADD", total, term)
    return total


def _counts(graph: Graph, numbering: Numbering, number: Number, axis: int, shape: tuple[int, ...]) -> bool:
    """Whether a number is that of a constant that counts 0, 1, 2 ... along one axis of this shape only."""
    if numbering.value(number) is not None:
        return numbering.value(number) == 0 and shape[axis] == 1
    tensor = numbering.parts(number, "TENSOR")
    values = None if tensor is None else graph.tensors[tensor[0]].constant
    if values is None or values.size != np.prod(shape):
        return False
    order = (1,) * axis + (shape[axis],) + (1,) * (3 - axis)
    return bool((values.reshape(shape) == np.arange(shape[axis]).reshape(order)).all())
