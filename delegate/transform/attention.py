"""The pass that makes one node of attention: softmax(q k^T * scale + mask) v.

The model has two products of matrices (BATCH_MATMUL, or FULLY_CONNECTED with computed weights) and a SOFTMAX. Reshapes,
a scale and a mask may stand between them. The node reads queries, keys and values where they were computed: what splits
them into heads by RESHAPE, TRANSPOSE and SLICE becomes places (Layout), and so does what joins the heads of the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...kernels.ops.attention.attention import MOST_CHANNELS, Attention, Places
from ...kernels.ops.convolution.fully_connected import FullyConnected
from ...kernels.ops.convolution.matmul import MatrixProduct
from ...kernels.ops.movement.reshape import Reshape
from ...kernels.ops.movement.strided_copy import Digit, StridedCopy
from ...kernels.ops.movement.transpose import Transpose
from ...kernels.ops.pointwise.elementwise import Elementwise
from ...kernels.ops.reduction.softmax import Normalize
from .cleanup import remove_unused
from .graph import Graph, Node
from .layouts import Dimension, Layout, dense, inverse, movement
from .patterns import is_reshape

LONGEST = 16
"""The most operators that move heads, one after the other."""


@dataclass
class Scores:
    """The product of queries and keys, the nodes from it to the softmax, and what they do with it."""

    product: Node
    scale: float
    members: set[Node] = field(default_factory=set[Node])
    mask: int | None = None
    masked: tuple[int, ...] = ()
    """The shape of the scores, as four dimensions, at the mask."""


@dataclass(frozen=True)
class Second:
    """The product of the softmax and values, and the nodes between them.

    ``turned``: it is the product of the values, one column a key, and of the softmax turned, so that the result has a
    column a query, as in networks with channels first.
    """

    product: Node
    members: set[Node]
    turned: bool

    @property
    def values(self) -> int:
        return self.product.inputs[0 if self.turned else 1]


@dataclass(frozen=True)
class Rows:
    """Rows of channels in the memory of a tensor: heads, rows and channels are the dimensions of the layout."""

    tensor: int
    layout: Layout
    factor: float = 1.0
    members: frozenset[Node] = frozenset()

    def places(self, graph: Graph, outer: int, inner: int) -> Places | None:
        """The places of the rows of ``outer`` times ``inner`` heads; None if no kernel reads such rows."""
        heads, rows, channels = self.layout.dimensions
        if len(rows) > 2 or len(channels) != 1 or channels[0][1] != 1:
            return None
        strides = _strides(heads, outer, inner)
        if strides is None:
            return None
        (far, near), within = strides
        (far_row, row) = _two(rows)
        places = Places(self.layout.base, near[1], within, row[1], _beyond(far, near), _beyond(far_row, row))
        pixel = graph.tensors[self.tensor].shape[-1]
        return places if places.fit(pixel, channels[0][0], inner) else None


def fuse_attention(graph: Graph) -> None:
    """Replace two products and the softmax between them by one ATTENTION node."""
    for node in graph.forwards():
        if not isinstance(node.operation, Normalize) or node.operation.kind != "SOFTMAX" or node.epilogue:
            continue
        scores = _scores(graph, node)
        second = None if scores is None else _second_product(graph, node, _scores_shape(graph, scores.product))
        if scores is None or second is None:
            continue
        found = _attention(graph, scores, second)
        if found is not None:
            nodes, after = found
            graph.substitute({node, second.product, *scores.members, *second.members, *after}, *nodes)
    remove_unused(graph)


def _scores(graph: Graph, softmax: Node) -> Scores | None:
    """The product before a softmax over its columns, if only reshapes, numbers and one mask stand between."""
    found = Scores(softmax, getattr(softmax.operation, "beta", 0.0))
    tensor, reader = softmax.inputs[0], softmax
    while True:
        node = graph.producer(tensor)
        if node is None or graph.sole_reader(tensor) is not reader:
            return None
        found.members.add(node)
        factor = _factor(graph, node)
        if _is_product(node):
            found.product = node
            return found if _is_over_keys(graph, softmax, found) else None
        if factor is not None:
            found.scale *= factor
        elif _adds_mask(node) and found.mask is None and found.scale == 1:
            source = _computed_operand(graph, node)
            shape = (1, 1, *graph.tensors[node.outputs[0]].shape)[-4:]
            if source is None or len(graph.tensors[node.outputs[0]].shape) > 4:
                return None
            (mask,) = {*node.operands} - {source}
            values = graph.tensors[mask].constant
            if values is None or values.any():
                found.mask, found.masked = mask, shape
            tensor, reader = source, node
            continue
        elif not is_reshape(node):
            return None
        tensor, reader = node.inputs[0], node


def _is_over_keys(graph: Graph, softmax: Node, scores: Scores) -> bool:
    """Whether the softmax and the mask have the scores of all keys in a row, and the mask has the queries above them.
    A reshape may have joined or divided either.
    """
    rows, keys = _scores_shape(graph, scores.product)
    if graph.tensors[softmax.inputs[0]].shape[-1] != keys:
        return False
    masks = () if scores.mask is None else graph.tensors[scores.mask].shape[-1:]
    return scores.mask is None or (scores.masked[2:] == (rows, keys) and masks == (keys,))


def _second_product(graph: Graph, softmax: Node, size: tuple[int, int]) -> Second | None:
    """The product that reads the result of a softmax, if only reshapes and transpositions stand between the two.
    ``size``: the numbers of queries and keys.
    """
    members, node, turned = set[Node](), softmax, False
    while True:
        reader = graph.sole_reader(node.outputs[0])
        if reader is None:
            return None
        moves = _is_product(reader) or _swaps_rows(reader)
        if moves and graph.tensors[node.outputs[0]].shape[-2:] != (size[::-1] if turned else size):
            return None
        if _is_product(reader):
            place = reader.inputs.index(node.outputs[0])
            if (turned != _transposed(reader)[place]) != bool(place):
                return None
            return Second(reader, members, turned=bool(place))
        if _swaps_rows(reader):
            turned = not turned
        elif not is_reshape(reader) or (turned and not _keeps_matrices(graph, reader)):
            return None
        members.add(reader)
        node = reader


def _attention(graph: Graph, scores: Scores, second: Second) -> tuple[list[Node], set[Node]] | None:
    """The node, with a copy if its result is turned, and the nodes that move the result, which it replaces; None if no
    kernel fits.
    """
    rows, keys = _scores_shape(graph, scores.product)
    heads = math.prod(graph.tensors[scores.product.outputs[0]].shape) // (rows * keys)
    shape = graph.tensors[second.product.outputs[0]].shape
    if shape[-1 if second.turned else -2] != rows or math.prod(shape[:-2]) != heads:
        return None
    (turned_q, turned_k), turned_v = _transposed(scores.product), _transposed(second.product)[not second.turned]
    turns = (turned_q, not turned_k, turned_v != second.turned)
    given = zip((*scores.product.inputs, second.values), (rows, keys, keys), turns, strict=True)
    operands = [_operand(graph, tensor, (heads, size), turned=turned) for tensor, size, turned in given]
    sides = [list(_sources(graph, operand)) for operand in operands if operand is not None]
    if len(sides) < 3:
        return None
    sides[2] = [side for side in sides[2] if side.factor == 1]  # the scores have a scale, values have none
    depth, width = (sides[number][-1].layout.dimensions[2] for number in (0, 2))
    channels = [size[0][0] if size else 1 for size in (depth, width)]
    if max(channels) > MOST_CHANNELS:
        return None
    results = list(_results(graph, Rows(second.product.outputs[0], _by_heads(shape, heads))))
    for outer, inner in _divisions([*sides, results], heads):
        turned = _turned_result(graph, second, outer, inner) if second.turned else None
        sides[3:] = [results if turned is None else [turned[0]]]
        chosen = [next(((s, p) for s in side if (p := s.places(graph, outer, inner))), None) for side in sides]
        ends = [each for each in chosen if each is not None]
        if len(ends) < 4:
            continue
        (q, _), (k, _), (v, _), (result, _) = ends
        operation = Attention(
            outer, inner, rows, keys, channels[0], channels[1], (ends[0][1], ends[1][1], ends[2][1], ends[3][1]),
            scores.scale * q.factor * k.factor, graph.tensors[result.tensor].shape,
            0 if scores.mask is None else scores.masked[1],
        )  # fmt: skip
        masks, before = ((), ()) if scores.mask is None else _with_four_dimensions(graph, scores.mask)
        attention = Node("ATTENTION", operation, (q.tensor, k.tensor, v.tensor, *masks), (result.tensor,))
        return [*before, attention, *(() if turned is None else (turned[1],))], set(result.members)
    return None


def _turned_result(graph: Graph, second: Second, outer: int, inner: int) -> tuple[Rows, Node]:
    """The rows of a new tensor, of all heads side by side, and the copy of it that has a column for each query."""
    result = second.product.outputs[0]
    shape = graph.tensors[result].shape
    width, queries = shape[-2:]
    pixel = inner * width
    rows = graph.new_tensor(result, (outer, queries, pixel))
    heads = ((outer, queries * pixel), (inner, width))
    copy = StridedCopy((*heads, (width, 1), (queries, pixel)), 0, shape)
    layout = Layout((heads, ((queries, pixel),), ((width, 1),)))
    return Rows(rows, layout), Node("TRANSPOSE", copy, (rows,), (result,))


def _divisions(sides: list[list[Rows]], heads: int) -> Iterator[tuple[int, int]]:
    """The ways to divide the heads that suit the rows farthest from the products, then any."""
    inner = {digits[-1][0] for side in sides if len(digits := side[0].layout.dimensions[0]) > 1}
    yield from ((heads // size, size) for size in sorted(inner, reverse=True) if size > 1)
    yield 1, heads


def _sources(graph: Graph, rows: Rows, left: int = LONGEST) -> Iterator[Rows]:
    """The rows in each tensor from which at most ``left`` nodes moved them, the farthest first."""
    node = graph.producer(rows.tensor) if left else None
    moved, factor = movement(graph, node), None if node is None else _factor(graph, node)
    if node is not None and moved is not None:
        layout = rows.layout.before(*moved)
        if layout is not None:
            yield from _sources(graph, Rows(node.inputs[0], layout, rows.factor), left - 1)
    elif node is not None and factor is not None:
        yield from _sources(graph, Rows(node.inputs[0], rows.layout, rows.factor * factor), left - 1)
    yield rows


def _results(graph: Graph, rows: Rows, left: int = LONGEST) -> Iterator[Rows]:
    """The rows in each tensor to which at most ``left`` nodes move them, the farthest first."""
    node = graph.sole_reader(rows.tensor)
    moved = movement(graph, node) if left else None
    undone = None if moved is None else inverse(*moved)
    if node is not None and undone is not None:
        layout = rows.layout.before(undone, 0)
        if layout is not None:
            yield from _results(graph, Rows(node.outputs[0], layout, members=rows.members | {node}), left - 1)
    yield rows


def _with_four_dimensions(graph: Graph, mask: int) -> tuple[tuple[int], tuple[Node, ...]]:
    """The mask with a dimension for each of the scores', and the nodes that give it these."""
    info = graph.tensors[mask]
    shape = (1, 1, 1, *info.shape)[-4:]
    if info.shape == shape:
        return (mask,), ()
    made = graph.new_tensor(mask, shape, None if info.constant is None else info.constant.reshape(shape))
    return (made,), () if info.constant is not None else (Node("RESHAPE", Reshape(shape), (mask,), (made,)),)


def _operand(graph: Graph, tensor: int, size: tuple[int, int], *, turned: bool) -> Rows | None:
    """The matrices of a tensor as rows of channels, which are the columns if they are ``turned``. None if they are not
    of this ``size``, heads and rows: a FULLY_CONNECTED may read rows of another length.
    """
    heads, count = size
    shape = graph.tensors[tensor].shape
    if shape[-1 if turned else -2] != count or graph.tensors[tensor].constant is not None:
        return None
    if math.prod(shape[:-2]) not in (1, heads):
        return None
    batch, rows, columns = _by_heads(shape, math.prod(shape[:-2])).dimensions
    if math.prod(shape[:-2]) != heads:
        batch = ((heads, 0),)
    return Rows(tensor, Layout((batch, columns, rows) if turned else (batch, rows, columns)))


def _by_heads(shape: tuple[int, ...], heads: int) -> Layout:
    """A tensor without its own order of heads: one dimension of heads, then rows and columns."""
    return dense((heads, *shape[-2:]))


def _strides(heads: Dimension, outer: int, inner: int) -> tuple[tuple[Digit, Digit], int] | None:
    """The two digits of the outer heads, and the stride of the inner ones."""
    if len(heads) == 1 and heads[0][0] == outer * inner:
        return _two(((outer, heads[0][1] * inner),)), heads[0][1]
    split = len(heads) - (inner > 1)
    before, within = heads[:split], heads[split:] or ((1, 0),)
    whole = math.prod(size for size, _ in before) == outer and len(before) <= 2
    return (_two(before), within[0][1]) if whole and within[0][0] == inner else None


def _two(digits: Sequence[Digit]) -> tuple[Digit, Digit]:
    """Two digits that count as one or two given ones do: the first may be of size 1."""
    far, near = ((1, 0), (1, 0), *digits)[-2:]
    return far, near


def _beyond(far: Digit, near: Digit) -> tuple[int, int]:
    """The number of neighbours before one that lies far, and its distance; (0, 0) if all are neighbours."""
    return (near[0], far[1]) if far[0] > 1 else (0, 0)


def _scores_shape(graph: Graph, product: Node) -> tuple[int, int]:
    """The numbers of queries and keys."""
    rows, keys = graph.tensors[product.outputs[0]].shape[-2:]
    return rows, keys


def _is_product(node: Node) -> bool:
    operation = node.operation
    if isinstance(operation, FullyConnected):
        return operation.weights is None and operation.bias is None and not node.epilogue
    return isinstance(operation, MatrixProduct) and not node.epilogue


def _transposed(node: Node) -> tuple[bool, bool]:
    operation = node.operation
    return operation.transposed if isinstance(operation, MatrixProduct) else (False, True)


def _swaps_rows(node: Node) -> bool:
    """Whether a node swaps rows and columns."""
    operation = node.operation
    if not isinstance(operation, Transpose) or node.epilogue or node.input_ops:
        return False
    order = tuple(range(len(operation.permutation)))
    return operation.permutation == (*order[:-2], *order[:-3:-1])


def _keeps_matrices(graph: Graph, node: Node) -> bool:
    """Whether a reshape only changes the dimensions before the last two."""
    return graph.tensors[node.inputs[0]].shape[-2:] == graph.tensors[node.outputs[0]].shape[-2:]


def _factor(graph: Graph, node: Node) -> float | None:
    """The number that a node multiplies, or divides, its one computed input by; else None."""
    if not isinstance(node.operation, Elementwise) or len(node.epilogue) != 1 or node.epilogue[0].operand is None:
        return None
    op, values = node.epilogue[0], graph.tensors[node.operands[-1]].constant
    same = graph.tensors[node.inputs[0]].shape == graph.tensors[node.outputs[0]].shape
    if values is None or values.size != 1 or not same or (op.expression == "DIV" and op.swapped):
        return None
    number = float(values.reshape(-1)[0])
    return number if op.expression == "MUL" else 1 / number if op.expression == "DIV" and number else None


def _adds_mask(node: Node) -> bool:
    return isinstance(node.operation, Elementwise) and [op.expression for op in node.epilogue] == ["ADD"]


def _computed_operand(graph: Graph, node: Node) -> int | None:
    """The one operand of a sum that is a product, with reshapes and numbers behind it; None if both are, or none."""
    found: list[int] = []
    for operand in node.operands:
        tensor = operand
        while (before := graph.producer(tensor)) and (is_reshape(before) or _factor(graph, before) is not None):
            tensor = before.inputs[0]
        if before is not None and _is_product(before):
            found.append(operand)
    size = math.prod(graph.tensors[node.outputs[0]].shape)
    return found[0] if len(found) == 1 and math.prod(graph.tensors[found[0]].shape) == size else None
