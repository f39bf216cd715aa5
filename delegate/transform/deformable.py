"""The pass that makes one node of deformable attention: sums of weighted bilinear samples of several maps.

Detectors such as RT-DETR (arXiv:2304.08069) take a few samples for each query and head, at places that the query names,
from maps of each size. Exports have a BILINEAR_SAMPLES for each map, whose picture has the channels of a head first and
whose places are repeated for each channel, then a CONCATENATION, a product with weights and a SUM. The node reads
values, places and weights where they were computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...kernels.ops.indexing.bilinear_samples import BilinearSamples
from ...kernels.ops.indexing.weighted_samples import Point, WeightedSamples
from ...kernels.ops.movement.concat import Concatenation
from ...kernels.ops.movement.strided_copy import StridedCopy
from ...kernels.ops.pointwise.elementwise import Elementwise
from ...kernels.ops.reduction.reduce import Reduction
from .graph import Graph, Node
from .layouts import Layout, dense, movement
from .movements import merge_chains

MOST_POINTS = 256
"""The most samples of a query and a head."""
Strides = tuple[int, ...]


@dataclass(frozen=True)
class _Source:
    """The place of a tensor's values in the one that they were moved from, times a factor, plus an addend."""

    tensor: int
    base: int
    strides: Strides
    """Along each of four dimensions."""
    factor: float = 1.0
    addend: float = 0.0


@dataclass(frozen=True)
class _Map:
    """The samples of one map: the sources of its pixels, of columns and of rows, its size, and the number of points."""

    pixels: _Source
    columns: _Source
    rows: _Source
    size: tuple[int, int]
    points: int


def fuse_deformable(graph: Graph) -> None:
    """Replace each sum of weighted samples by one WEIGHTED_SAMPLES node."""
    for node in graph.forwards():
        operation = node.operation
        if not isinstance(operation, Reduction) or (operation.kind, operation.axes, operation.rank) != ("SUM", (3,), 4):
            continue
        found = _match(graph, node)
        if found is None:
            continue
        operation, shape = found.operation, graph.tensors[node.outputs[0]].shape
        assert isinstance(operation, WeightedSamples)
        width, channels = operation.width, operation.heads * operation.width
        rows = graph.new_tensor(node.outputs[0], (1, operation.queries, channels))
        digits = ((operation.heads, width), (width, 1), (operation.queries, channels))
        copy = Node("TRANSPOSE", StridedCopy(digits, 0, shape), (rows,), node.outputs, node.epilogue)
        graph.substitute(_replaced(graph, node, found.inputs), Node(found.name, operation, found.inputs, (rows,)), copy)
    merge_chains(graph)


def _replaced(graph: Graph, last: Node, sources: tuple[int, ...]) -> set[Node]:
    """The nodes between the sources and the last one, without those that others read, too: a value of all layers."""
    waiting, found = [last], {last}
    while waiting:
        before = [graph.producer(tensor) for tensor in waiting.pop().operands if tensor not in sources]
        waiting += (new := [node for node in before if node is not None and node not in found])
        found.update(new)
    members = {last}
    for node in sorted(found - members, key=graph.position, reverse=True):
        if all(i not in graph.outputs and members.issuperset(graph.readers(i)) for i in node.outputs):
            members.add(node)
    return members


def _match(graph: Graph, total: Node) -> Node | None:
    """The node that computes a sum, without its output; None if it is not one of weighted samples."""
    product = graph.producer(total.inputs[0])
    shape = graph.tensors[total.inputs[0]].shape
    if product is None or total.input_ops or not _is_product(product):
        return None
    for samples, other in (product.operands, product.operands[::-1]):
        weights = _source(graph, other, shape, functions=False)
        maps = None if weights is None else list(_maps(graph, samples))
        if maps and weights is not None and None not in maps:
            return _node(shape, [each for each in maps if each is not None], weights)
    return None


def _is_product(node: Node) -> bool:
    return isinstance(node.operation, Elementwise) and [op.expression for op in node.epilogue] == ["MUL"]


def _maps(graph: Graph, samples: int) -> Iterator[_Map | None]:
    """The maps of samples side by side; None for what is not the samples of a map."""
    node = graph.producer(samples)
    if node is not None and isinstance(node.operation, Concatenation) and node.operation.axis == 3:
        for tensor in node.inputs if not node.epilogue else ():
            yield from _maps(graph, tensor)
    elif node is not None and isinstance(node.operation, BilinearSamples) and not node.epilogue:
        picture, *places = node.inputs
        shape = graph.tensors[samples].shape
        pixels = _source(graph, picture, graph.tensors[picture].shape, functions=False)
        columns, rows = (_source(graph, place, shape, functions=True) for place in places)
        if pixels is None or columns is None or rows is None or graph.tensors[pixels.tensor].shape[-1] % 4:
            yield None
        else:
            height, width = graph.tensors[picture].shape[2:]
            yield _Map(pixels, columns, rows, (width, height), shape[3])
    else:
        yield None


def _source(graph: Graph, tensor: int, shape: tuple[int, ...], *, functions: bool) -> _Source | None:
    """The source of a tensor that broadcasts to four dimensions, the farthest that has strides along them."""
    own = (1,) * (4 - len(graph.tensors[tensor].shape)) + graph.tensors[tensor].shape
    if len(own) != 4 or len(shape) != 4:
        return None
    layout, factor, addend, found = dense(own), 1.0, 0.0, None
    while True:
        strides = _strides(layout, own, shape)
        if strides is not None:
            found = _Source(tensor, layout.base, strides, factor, addend)
        node = graph.producer(tensor)
        moved, line = movement(graph, node), _line(graph, node) if functions else None
        earlier = layout if moved is None else layout.before(*moved)
        if node is None or (moved is None and line is None) or earlier is None:
            return found
        if line is not None:
            factor, addend = line[0] * factor, line[1] * factor + addend
        layout, tensor = earlier, node.inputs[0]


def _strides(layout: Layout, own: tuple[int, ...], shape: tuple[int, ...]) -> Strides | None:
    """The strides along dimensions of this shape; None if one has several digits."""
    if any(len(digits) > 1 for digits in layout.dimensions) or any(
        a not in (1, b) for a, b in zip(own, shape, strict=True)
    ):
        return None
    return tuple(
        digits[0][1] if digits and size > 1 else 0 for digits, size in zip(layout.dimensions, own, strict=True)
    )


def _line(graph: Graph, node: Node | None) -> tuple[float, float] | None:
    """Factor and addend of a node that multiplies and adds numbers; else None."""
    if node is None or not isinstance(node.operation, Elementwise) or not node.epilogue or node.integers:
        return None
    if graph.tensors[node.inputs[0]].shape != graph.tensors[node.outputs[0]].shape:
        return None
    factor, addend = 1.0, 0.0
    for op in node.epilogue:
        values = None if op.operand is None else graph.tensors[op.operand].constant
        if values is None or values.size != 1 or (op.swapped and op.expression not in ("ADD", "MUL")):
            return None
        number = float(values.reshape(-1)[0])
        if op.expression == "MUL":
            factor, addend = factor * number, addend * number
        elif op.expression in ("ADD", "SUB"):
            addend += number if op.expression == "ADD" else -number
        else:
            return None
    return factor, addend


def _node(shape: tuple[int, ...], maps: list[_Map], weights: _Source) -> Node | None:
    """The node of samples of these maps; None if they are of no common tensors, or not in whole slices."""
    heads, width, queries, count = shape
    first = maps[0]
    common = {(m.pixels.tensor, m.columns.tensor, m.rows.tensor) for m in maps}
    steps = {(m.pixels.strides[0], m.pixels.strides[3], *_along(m.columns), *_along(m.rows)) for m in maps}
    places = {m.columns.tensor for m in maps} | {m.rows.tensor for m in maps}
    channels = {m.pixels.strides[1] for m in maps} | {m.columns.strides[1] + 1 for m in maps}
    whole = [*(m.pixels.base for m in maps), *(m.pixels.strides[i] for m in maps for i in (0, 2, 3)), width]
    if len(common) != 1 or len(places) != 1 or len(steps) != 1 or channels != {1} or any(i % 4 for i in whole):
        return None
    if _along(first.columns) != _along(first.rows) or weights.strides[1] or any(m.rows.strides[1] for m in maps):
        return None
    if sum(m.points for m in maps) != count or count > MOST_POINTS:
        return None
    points: list[Point] = []
    for each in maps:
        for n in range(each.points):
            column, row = (side.base + n * side.strides[3] for side in (each.columns, each.rows))
            scale = (each.columns.factor, each.columns.addend, each.rows.factor, each.rows.addend)
            weight = weights.base + len(points) * weights.strides[3]
            points.append(Point(each.size, each.pixels.base, each.pixels.strides[2], column, row, weight, scale))
    operation = WeightedSamples(
        heads, queries, width, tuple(points), (first.pixels.strides[0], first.pixels.strides[3]),
        _along(first.columns), _along(weights),
    )  # fmt: skip
    return Node("WEIGHTED_SAMPLES", operation, (first.pixels.tensor, first.columns.tensor, weights.tensor), ())


def _along(source: _Source) -> tuple[int, int]:
    """The strides along heads and queries."""
    return source.strides[0], source.strides[2]
