"""The pass for chains of operators that only move values: TRANSPOSE, slices and reshapes, one after the other.

PyTorch keeps channels first, so that exports move channels to the end for a convolution and back behind it, and cut
pictures into windows by reshapes and transpositions. A chain is one copy, or none if it moves nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ...kernels.ops.movement.concat import Concatenation
from ...kernels.ops.movement.reshape import ExpandDimensions, Reshape, Squeeze
from ...kernels.ops.movement.strided_copy import MAX_DIGITS, Digit, StridedCopy, merged_digits
from ...kernels.ops.pointwise.elementwise import Elementwise
from .cleanup import remove_unread
from .graph import Graph, Node
from .layouts import Layout, inverse, movement

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
        if isinstance(operation, Reshape) and shapes[0] == shapes[1] and result not in graph.outputs:
            graph.remove(node, "the copies before it and it move nothing together")
            graph.redirect(result, source)
        else:
            graph.update(node, operation=operation, inputs=(source,))
    remove_unread(graph)


def _origin(graph: Graph, node: Node, layout: Layout) -> tuple[int, Layout] | None:
    """The first tensor of a chain of movements that one copy replaces, and the layout of the result in it; None if
    nothing but the node itself moves values.
    """
    tensor, found = node.inputs[0], None
    while (before := graph.producer(tensor)) is not None:
        moved = movement(graph, before)
        if moved is not None:
            earlier = layout.before(*moved)
            step = None if earlier is None else (before.inputs[0], earlier)
        else:
            step = _part(graph, before, layout)
        if step is None or len(step[1].dimensions[0]) > MAX_DIGITS:
            break
        found = tensor, layout = step
    return found


def _part(graph: Graph, joined: Node, layout: Layout) -> tuple[int, Layout] | None:
    """The only input of a concatenation that is read by a layout of its result, and the layout in that input."""
    operation, (digits,) = joined.operation, layout.dimensions
    if not isinstance(operation, Concatenation) or joined.epilogue:
        return None
    axis, shape = operation.axis, graph.tensors[joined.outputs[0]].shape
    inner = math.prod(shape[axis + 1 :])
    period = shape[axis] * inner
    within = sum((size - 1) * stride for size, stride in digits if stride < period)
    if any(stride < 0 or (stride > period and stride % period) for _, stride in digits):
        return None
    start, first = 0, layout.base % period
    for tensor in joined.inputs:
        length = graph.tensors[tensor].shape[axis] * inner
        if start <= first and first + within < start + length:
            own = tuple((n, s if s < period else s // period * length) for n, s in digits)
            return tensor, Layout((tuple(merged_digits(own)),), layout.base // period * length + first - start)
        start += length
    return None


def _is_in_order(digits: tuple[Digit, ...], base: int, count: int) -> bool:
    return base == 0 and digits in (((count, 1),), ()) and math.prod(size for size, _ in digits) == count


def _compute_first(graph: Graph) -> None:
    """Apply functions of values and constants before the values are moved, so that what computes these absorbs them."""
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
    operands = [_moved_back(graph, op.operand, before, node) for op in node.epilogue]
    if any(op.operand is not None and new is None for op, new in zip(node.epilogue, operands, strict=True)):
        return None
    epilogue = tuple(replace(op, operand=new) for op, new in zip(node.epilogue, operands, strict=True))
    made = graph.new_tensor(result, shape)
    first = graph.update(before, **_work(node) | {"epilogue": epilogue}, inputs=(source,), outputs=(made,))
    graph.update(node, **_work(before), inputs=(made,), outputs=(result,))
    return first


def _work(node: Node) -> dict[str, Any]:
    """The fields of a node that say what it does."""
    return {field: getattr(node, field) for field in ("name", "operation", "epilogue", "indices")}


def _moved_back(graph: Graph, operand: int | None, moved: Node, node: Node) -> int | None:
    """The constant operand of a node for the values before they are moved; None if there is none, or no operand."""
    values = None if operand is None else graph.tensors[operand].constant
    if values is None or operand is None or values.size == 1:
        return None if values is None else operand
    result, digits = graph.tensors[node.outputs[0]].shape, movement(graph, moved)
    if digits is None or values.size != math.prod(result) or inverse(*digits) is None:
        return None
    before, places = np.empty(values.size, values.dtype), np.zeros(1, np.int64)
    for size, stride in digits[0]:
        places = (places[:, None] + np.arange(size) * stride).reshape(-1)
    before[places] = values.reshape(-1)
    shape = graph.tensors[moved.inputs[0]].shape
    return graph.new_tensor(operand, shape, before.reshape(shape))
