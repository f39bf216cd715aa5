"""The pass for chains of operators that only move values: TRANSPOSE, slices and reshapes, one after the other.

PyTorch keeps channels first, so that exports move channels to the end for a convolution and back behind it, and cut
pictures into windows by reshapes and transpositions. A chain is one copy, or none if it moves nothing.
"""

from __future__ import annotations

import math
from typing import Any

from ...kernels.ops.movement.reshape import ExpandDimensions, Reshape, Squeeze
from ...kernels.ops.movement.strided_copy import MAX_DIGITS, Digit, StridedCopy
from ...kernels.ops.pointwise.elementwise import Elementwise
from .graph import Graph, Node
from .layouts import Layout, movement

RESHAPES = (Reshape, Squeeze, ExpandDimensions)


def merge_movements(graph: Graph) -> None:
    """Merge chains of movements, and then those that only functions of single values divided."""
    _merge(graph)
    _compute_first(graph)
    _merge(graph)


def _merge(graph: Graph) -> None:
    """Let each copy read what the copies and reshapes before it read, and drop it if it moves nothing then."""
    for node in graph.forwards():
        moved = movement(graph, node)
        found = None if moved is None else _origin(graph, node, Layout((moved[0],), moved[1]))
        if found is None:
            continue
        source, layout = found
        result, (digits,) = node.outputs[0], layout.dimensions
        shapes = [graph.tensors[tensor].shape for tensor in (source, result)]
        operation = StridedCopy(digits, layout.base, shapes[1])
        if _is_in_order(digits, layout.base, math.prod(shapes[0])):
            operation = Reshape(shapes[1])
        elif isinstance(node.operation, RESHAPES):
            continue
        before = node.inputs[0]
        if isinstance(operation, Reshape) and shapes[0] == shapes[1] and result not in graph.outputs:
            graph.remove(node, "the copies before it and it move nothing together")
            graph.redirect(result, source)
        else:
            graph.update(node, operation=operation, inputs=(source,))
        _remove_unread(graph, before)


def _origin(graph: Graph, node: Node, layout: Layout) -> tuple[int, Layout] | None:
    """The first tensor of a chain of movements that one copy replaces, and the layout of the result in it; None if
    nothing but the node itself moves values.
    """
    tensor, found = node.inputs[0], None
    while (before := graph.producer(tensor)) is not None and (moved := movement(graph, before)) is not None:
        earlier = layout.before(*moved)
        if earlier is None or len(earlier.dimensions[0]) > MAX_DIGITS:
            break
        tensor, layout = before.inputs[0], earlier
        found = tensor, layout
    return found


def _is_in_order(digits: tuple[Digit, ...], base: int, count: int) -> bool:
    return base == 0 and digits in (((count, 1),), ()) and math.prod(size for size, _ in digits) == count


def _remove_unread(graph: Graph, tensor: int) -> None:
    """Remove the nodes of a chain that nothing reads any more."""
    node = graph.producer(tensor)
    while node is not None and not graph.readers(node.outputs[0]) and node.outputs[0] not in graph.outputs:
        graph.remove(node, "its reader moves values from before it")
        node = graph.producer(node.inputs[0])


def _compute_first(graph: Graph) -> None:
    """Apply functions of single values before values are moved, so that they are fused into what computes them."""
    for node in graph.forwards():
        current: Node | None = node if isinstance(node.operation, Elementwise) and node.epilogue else None
        while current is not None:
            current = _before_movement(graph, current)


def _before_movement(graph: Graph, node: Node) -> Node | None:
    """Let a node and the movement before it change places. Returns the node in its new place; None if it stays."""
    before = graph.producer(node.inputs[0])
    if before is None or graph.sole_reader(before.outputs[0]) is not node or movement(graph, before) is None:
        return None
    (source,), (result,) = before.inputs, node.outputs
    if graph.producer(source) is None or graph.sole_reader(source) is not before:
        return None  # nothing could absorb it there
    shape, moved = graph.tensors[source].shape, graph.tensors[result].shape
    is_slice = math.prod(shape) > math.prod(moved)
    if is_slice or graph.tensors[before.outputs[0]].shape != moved or before.integers != node.integers:
        return None
    if not all(_is_number(graph, op.operand) for op in node.epilogue):
        return None
    made = graph.new_tensor(result, shape)
    first = graph.update(before, **_work(node), inputs=(source,), outputs=(made,))
    graph.update(node, **_work(before), inputs=(made,), outputs=(result,))
    return first


def _work(node: Node) -> dict[str, Any]:
    """The fields of a node that say what it does."""
    return {field: getattr(node, field) for field in ("name", "operation", "epilogue", "indices")}


def _is_number(graph: Graph, operand: int | None) -> bool:
    """Whether an operand is no tensor, or a constant of one value."""
    values = None if operand is None else graph.tensors[operand].constant
    return operand is None or (values is not None and values.size == 1)
