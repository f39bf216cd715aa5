"""The pass for windows of attention: layers of weights compute rows before these are cut into windows, and after they
are joined again.

A network cuts a picture into windows by RESHAPE and TRANSPOSE. A layer makes queries, keys and values of their rows.
It computes each row by itself, so that the two may change places. Attention then finds the rows of its windows in the
picture (delegate/transform/attention.py), and writes there what the next layer reads: neither is copied.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ...kernels.ops.convolution.fully_connected import FullyConnected
from ...kernels.ops.convolution.matmul import MatrixProduct
from ...kernels.ops.movement.strided_copy import Digit, StridedCopy
from ...kernels.ops.pointwise.elementwise import Elementwise
from .cleanup import remove_unread
from .graph import Graph, Node
from .layouts import Layout, inverse, movement

LONGEST = 16
"""The most operators between a layer and a product of attention, one after the other."""


def compute_rows_in_place(graph: Graph) -> None:
    """Let layers before attention read rows before they are moved, and those behind it write them as they are moved."""
    for node in graph.forwards():
        if _is_layer(node) and _reaches_product(graph, node.outputs[0]):
            _move_after(graph, node)
    for node in graph.backwards():
        if _is_layer(node) and _comes_from_product(graph, node):
            move_before(graph, node)
    remove_unread(graph)


def move_narrow_rows(graph: Graph) -> None:
    """Move rows before a layer again that makes longer ones, if nothing but a copy reads these."""
    for node in graph.backwards():
        if _is_layer(node) and _lengths(node)[0] > _lengths(node)[1]:
            move_before(graph, node)
    remove_unread(graph)


def _move_after(graph: Graph, layer: Node) -> None:
    """Let a layer and the movements before it change places."""
    units, length = _lengths(layer)
    source, rows = _moved_rows(graph, layer.inputs[0], length)
    if rows is None:
        return
    shape = graph.tensors[source].shape
    made = graph.new_tensor(layer.outputs[0], (*shape[:-1], units))
    graph.insert_before(layer, _at(layer, source, made))
    copy = StridedCopy(_digits(rows, units), 0, graph.tensors[layer.outputs[0]].shape)
    graph.update(layer, name="TRANSPOSE", operation=copy, inputs=(made,), epilogue=())


def move_before(graph: Graph, layer: Node) -> None:
    """Let a layer and the movements behind it change places."""
    units, length = _lengths(layer)
    last, rows, tensor, reader = layer, None, layer.outputs[0], graph.sole_reader(layer.outputs[0])
    for _ in range(LONGEST):
        if reader is None or movement(graph, reader) is None:
            break
        tensor = reader.outputs[0]
        _, found = _moved_rows(graph, tensor, units, layer.outputs[0])
        if found is not None:
            last, rows = reader, found
        reader = graph.sole_reader(tensor)
    if rows is None:
        return
    shape = graph.tensors[last.outputs[0]].shape
    made = graph.new_tensor(layer.inputs[0], (*shape[:-1], length))
    copy = StridedCopy(_digits(rows, length), 0, graph.tensors[made].shape)
    graph.insert_before(layer, Node("TRANSPOSE", copy, (layer.inputs[0],), (made,), indices=last.indices))
    graph.update(last, **vars(_at(layer, made, last.outputs[0])))


def _at(layer: Node, source: int, result: int) -> Node:
    """The layer of other rows, which keeps all their dimensions."""
    assert isinstance(layer.operation, FullyConnected)
    operation = replace(layer.operation, keep_dimensions=True)
    return replace(layer, operation=operation, inputs=(source,), outputs=(result,))


def _is_layer(node: Node) -> bool:
    """Whether a node computes rows of floats, each by itself."""
    plain = isinstance(node.operation, FullyConnected) and node.operation.weights is not None and not node.integers
    return plain and not node.input_ops and all(op.operand is None for op in node.epilogue)


def _lengths(layer: Node) -> tuple[int, int]:
    """The values of a row that a layer writes, and of one that it reads: not always the last dimension of its input."""
    assert isinstance(layer.operation, FullyConnected) and layer.operation.weights is not None
    units, length = layer.operation.weights.shape
    return units, length


def _moved_rows(
    graph: Graph, tensor: int, length: int, first: int | None = None
) -> tuple[int, tuple[Digit, ...] | None]:
    """The tensor from which movements bring whole rows of this length to a tensor, in another order, and the rows'
    digits, counted in rows. ``first``: no earlier tensor than that one. None if there is no such tensor.
    """
    size = math.prod(graph.tensors[tensor].shape)
    layout, found = Layout((((size, 1),),)), None
    source = tensor
    while tensor != first and (node := graph.producer(tensor)) is not None:
        moved = movement(graph, node)
        earlier = None if moved is None else layout.before(*moved)
        if earlier is None:
            break
        layout, tensor = earlier, node.inputs[0]
        shape, (digits,) = graph.tensors[tensor].shape, layout.dimensions
        if shape[-1:] == graph.tensors[source].shape[-1:] == (length,) and math.prod(shape) == size:
            rows = _rows(digits, length) if inverse(digits, layout.base) is not None else None
            found = (tensor, rows) if rows else found
    return found or (source, None)


def _rows(digits: tuple[Digit, ...], length: int) -> tuple[Digit, ...] | None:
    """The digits of whole rows; None if rows are cut, or in order: a single value has no digits."""
    *outer, (size, stride) = digits or ((1, 1),)
    if stride != 1 or size % length or any(step % length for _, step in outer) or not outer:
        return None
    return (*((count, step // length) for count, step in outer), (size // length, 1))


def _digits(rows: tuple[Digit, ...], length: int) -> tuple[Digit, ...]:
    """The digits of rows of another length."""
    *outer, (size, _) = rows
    return (*((count, step * length) for count, step in outer), (size * length, 1))


def _reaches_product(graph: Graph, tensor: int, left: int = LONGEST) -> bool:
    """Whether a product of matrices reads a tensor behind movements and functions."""
    return any(
        isinstance(reader.operation, MatrixProduct)
        or (left > 0 and _passes(graph, reader) and _reaches_product(graph, reader.outputs[0], left - 1))
        for reader in graph.readers(tensor)
    )


def _comes_from_product(graph: Graph, layer: Node) -> bool:
    """Whether the rows of a layer come from a product of matrices over movements."""
    node = graph.producer(layer.inputs[0])
    while node is not None and movement(graph, node) is not None:
        node = graph.producer(node.inputs[0])
    return node is not None and isinstance(node.operation, MatrixProduct)


def _passes(graph: Graph, node: Node) -> bool:
    return movement(graph, node) is not None or isinstance(node.operation, Elementwise)
