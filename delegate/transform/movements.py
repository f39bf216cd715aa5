"""The pass for chains of operators that only move values: TRANSPOSE, slices and reshapes, one after the other.

PyTorch keeps channels first, so that exports move channels to the end for a convolution and back behind it, and cut
pictures into windows by reshapes and transpositions. A chain is one copy, or none if it moves nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ...kernels.operation import FusedOp
from ...kernels.ops.movement.concat import Concatenation
from ...kernels.ops.movement.reshape import ExpandDimensions, Reshape, Squeeze
from ...kernels.ops.movement.strided_copy import MAX_DIGITS, Digit, StridedCopy, merged_digits
from ...kernels.ops.pointwise.elementwise import Elementwise
from ...kernels.tensor import bhwc, bhwc_axis, strides_of
from .cleanup import remove_unread
from .epilogues import ways_to_apply
from .graph import Graph, Node
from .layouts import Layout, inverse, movement
from .patterns import is_reshape

MOST_EXCHANGES = 16
"""The most movements that a function passes."""
RESHAPES = (Reshape, Squeeze, ExpandDimensions)


def merge_movements(graph: Graph) -> None:
    """Merge chains of movements, and then those that only functions of single values divided, or came before."""
    merge_chains(graph)
    _compute_first(graph)
    _move_first(graph)
    merge_chains(graph)


def merge_chains(graph: Graph) -> None:
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
    # A reshape beside it may have changed the rank of a tensor, not that of the operation.
    axis, shape = bhwc_axis(operation.axis, operation.rank), graph.tensors[joined.outputs[0]].bhwc
    inner = math.prod(shape[axis + 1 :])
    period = shape[axis] * inner
    within = sum((size - 1) * stride for size, stride in digits if stride < period)
    if any(stride < 0 or (stride > period and stride % period) for _, stride in digits):
        return None
    start, first = 0, layout.base % period
    for tensor in joined.inputs:
        length = graph.tensors[tensor].bhwc[axis] * inner
        if start <= first and first + within < start + length:
            own = tuple((n, s if s < period else s // period * length) for n, s in digits)
            return tensor, Layout((tuple(merged_digits(own)),), layout.base // period * length + first - start)
        start += length
    return None


def _is_in_order(digits: tuple[Digit, ...], base: int, count: int) -> bool:
    return base == 0 and digits in (((count, 1),), ()) and math.prod(size for size, _ in digits) == count


def _compute_first(graph: Graph) -> None:
    """Apply functions before values are moved, so that what computes these absorbs them: functions of a value and of
    constants, or of values that were moved alike.
    """
    for node in graph.forwards():
        current: Node | None = node if isinstance(node.operation, Elementwise) and node.epilogue else None
        for _ in range(MOST_EXCHANGES):
            current = None if current is None else _before_movement(graph, current)


def _before_movement(graph: Graph, node: Node) -> Node | None:
    """Let a node and the movements before a value of it change places, as few as possible. Returns the node in its new
    place; None if it stays.
    """
    shape = graph.tensors[node.outputs[0]].shape
    is_join = any(op.operand is not None and graph.tensors[op.operand].constant is None for op in node.epilogue)
    for value, functions in ways_to_apply(graph, node):
        tensor, layout = value, Layout((((math.prod(shape), 1),),))
        while (before := graph.producer(tensor)) is not None and (move := movement(graph, before)) is not None:
            is_alone = graph.sole_reader(value) is node
            fits = graph.tensors[value].shape == shape and before.integers == node.integers
            if not fits or not (is_join or (is_alone and _reaches_a_layer(graph, before))):
                break  # nothing could absorb it there
            earlier, tensor = layout.before(*move), before.inputs[0]
            if earlier is None or len(earlier.dimensions[0]) > MAX_DIGITS:
                break
            layout = earlier
            epilogue = _moved_back(graph, node, functions, layout, tensor)
            if epilogue is not None:
                operation = before.operation if before.outputs == (value,) else _copy(layout, shape)
                return _exchange(graph, node, value, replace(before, operation=operation), epilogue)
    return None


def _copy(layout: Layout, shape: tuple[int, ...]) -> StridedCopy:
    return StridedCopy(layout.dimensions[0], layout.base, shape)


def _exchange(graph: Graph, node: Node, value: int, move: Node, epilogue: tuple[FusedOp, ...]) -> Node:
    """Put a function before a movement of its value. Returns it there."""
    before = graph.producer(value)
    made = graph.new_tensor(node.outputs[0], graph.tensors[move.inputs[0]].shape)
    first = replace(node, epilogue=epilogue, inputs=move.inputs, outputs=(made,))
    graph.insert_before(node, first)  # its operands are computed by then
    graph.update(node, **_work(move), inputs=(made,))
    while before is not None and movement(graph, before) and not graph.readers(before.outputs[0]):
        if before.outputs[0] in graph.outputs:
            break
        graph.remove(before, "a function is computed before it")
        before = graph.producer(before.inputs[0])
    return first


def _reaches_a_layer(graph: Graph, node: Node) -> bool:
    """Whether functions may pass a movement and those before it, as far as a step that computes the values."""
    before, is_function = graph.producer(node.inputs[0]), isinstance(node.operation, Elementwise)
    if before is None or graph.sole_reader(node.inputs[0]) is not node:
        return is_function  # which is a step of its own
    source, result = (graph.tensors[tensor].shape for tensor in (node.inputs[0], node.outputs[0]))
    if math.prod(source) > math.prod(result):
        return False
    passes = movement(graph, before) is not None or isinstance(before.operation, Elementwise)
    return not passes or _reaches_a_layer(graph, before)


def _move_first(graph: Graph) -> None:
    """Move values before functions of them and of constants are computed, if only parts of these are read, or if a
    movement comes before the function, too: each function is then computed where its part is written.
    """
    for node in graph.backwards():
        waiting = [node]
        while waiting:
            waiting += _move_before(graph, waiting.pop())


def _move_before(graph: Graph, node: Node) -> list[Node]:
    """Let a function and the movements that read it change places, if that is of use. Returns the functions then."""
    if not (isinstance(node.operation, Elementwise) and node.epilogue and _is_only_moved(graph, node)):
        return []
    readers = graph.readers(node.outputs[0])
    moves = [move for reader in readers if (move := _earlier(graph, node, reader)) is not None]
    if len(moves) < len(readers):
        return []
    functions: list[Node] = []
    for reader, (copy, epilogue) in zip(readers, moves, strict=True):
        graph.insert_before(reader, copy)
        fields = _work(node) | {"epilogue": epilogue, "indices": node.indices + reader.indices}
        functions.append(graph.update(reader, **fields, inputs=copy.outputs))
    graph.remove(node, "it is computed where its result is moved to")
    return functions


def _is_only_moved(graph: Graph, node: Node) -> bool:
    """Whether all that reads the result moves it, no more than once, and a part of it, or what was moved before. No
    layer may be there to absorb the function.
    """
    result, readers = node.outputs[0], graph.readers(node.outputs[0])
    whole = math.prod(graph.tensors[result].shape)
    parts = [math.prod(graph.tensors[reader.outputs[0]].shape) for reader in readers]
    layer = _before_functions(graph, node)
    merges = movement(graph, layer) is not None
    if result in graph.outputs or sum(parts) > whole or (layer is not None and not merges):
        return False
    fits = all(movement(graph, reader) and reader.integers == node.integers for reader in readers)
    return fits and bool(readers) and (merges or min(parts) < whole)


def _before_functions(graph: Graph, node: Node) -> Node | None:
    """The node that computes what a function, and others before it, are applied to; None if others read that, too."""
    while graph.sole_reader(node.inputs[0]) is node:
        before = graph.producer(node.inputs[0])
        if before is None or not isinstance(before.operation, Elementwise):
            return before
        node = before
    before = graph.producer(node.inputs[0])
    return before if movement(graph, before) is not None else None


def _earlier(graph: Graph, node: Node, part: Node) -> tuple[Node, tuple[FusedOp, ...]] | None:
    """The movement ``part`` of what a node reads, and the functions of the result; None if this is not possible."""
    move, shape = movement(graph, part), graph.tensors[part.outputs[0]].shape
    source, whole = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]].shape
    if move is None or source.constant is not None or node.input_ops:
        return None
    layout = Layout((move[0],), move[1]).before(_repeated(source.shape, whole), 0)
    operands = [_moved(graph, op.operand, node, move, shape) for op in node.epilogue]
    missing = any(op.operand is not None and new is None for op, new in zip(node.epilogue, operands, strict=True))
    if layout is None or len(layout.dimensions[0]) > MAX_DIGITS or missing:
        return None
    operation = _copy(layout, shape)
    made = graph.new_tensor(node.inputs[0], shape)
    copy = Node(part.name, operation, node.inputs, (made,), integers=node.integers)
    return copy, tuple(replace(op, operand=new) for op, new in zip(node.epilogue, operands, strict=True))


def _work(node: Node) -> dict[str, Any]:
    """The fields of a node that say what it does."""
    return {field: getattr(node, field) for field in ("name", "operation", "epilogue", "indices")}


def _moved_back(
    graph: Graph, node: Node, functions: tuple[FusedOp, ...], layout: Layout, source: int
) -> tuple[FusedOp, ...] | None:
    """The functions of a node for the values before they are moved; None if an operand is not there as these are."""
    shape = graph.tensors[source].shape
    back = inverse(layout.dimensions[0], layout.base)
    if back is None or math.prod(shape) != math.prod(graph.tensors[node.outputs[0]].shape):
        return None
    found: list[FusedOp] = []
    for op in functions:
        operand = op.operand
        if operand is not None and graph.tensors[operand].constant is not None:
            operand = _moved(graph, operand, node, (back, 0), shape)
        elif operand is not None:
            operand = _as_before(graph, operand, node, back, source)
        if op.operand is not None and operand is None:
            return None
        found.append(replace(op, operand=operand))
    return tuple(found)


def _as_before(graph: Graph, operand: int, node: Node, back: tuple[Digit, ...], source: int) -> int | None:
    """The tensor that an operand was moved from, if that undoes the movement ``back`` from the source; else None. If a
    layer computes the source, to which a reshape adds the operand, that is reshaped in its place.
    """
    shape = graph.tensors[source].shape
    if graph.tensors[operand].shape != graph.tensors[node.outputs[0]].shape:
        return None
    may_reshape = _is_layer_alone(graph, source) and not _is_layer_alone(graph, operand)
    layout: Layout | None = Layout((back,))
    while layout is not None:
        own = graph.tensors[operand].shape
        if _is_in_order(layout.dimensions[0], layout.base, math.prod(shape)) and math.prod(own) == math.prod(shape):
            if own == shape:
                return operand
            if may_reshape and own[-1] == shape[-1] and bhwc(own) != bhwc(shape):
                return _reshaped(graph, operand, node, shape)
        producer = graph.producer(operand)
        moved = movement(graph, producer)
        if producer is None or moved is None:
            return None
        layout, operand = layout.before(*moved), producer.inputs[0]
    return None


def _is_layer_alone(graph: Graph, tensor: int) -> bool:
    """Whether a layer computes a tensor that is only moved."""
    layer, readers = graph.producer(tensor), graph.readers(tensor)
    is_step = layer is not None and movement(graph, layer) is None and not isinstance(layer.operation, Elementwise)
    return is_step and tensor not in graph.outputs and len(readers) == 1


def _reshaped(graph: Graph, tensor: int, node: Node, shape: tuple[int, ...]) -> int:
    """The tensor in another shape, for a node that reads it: a new one, if none is computed before."""
    for reader in graph.readers(tensor):
        known = reader.outputs[0]
        if is_reshape(reader) and graph.tensors[known].shape == shape and graph.position(reader) < graph.position(node):
            return known
    made = graph.new_tensor(tensor, shape)
    graph.insert_before(node, Node("RESHAPE", Reshape(shape), (tensor,), (made,), integers=node.integers))
    return made


def _moved(
    graph: Graph, operand: int | None, node: Node, move: tuple[tuple[Digit, ...], int], result: tuple[int, ...]
) -> int | None:
    """The constant operand of a node for values that are moved to the shape ``result``; None if there is none.

    A constant that broadcasts stays as small as it is: what its dimensions repeat, the moved ones repeat.
    """
    values = None if operand is None else graph.tensors[operand].constant
    if values is None or operand is None or values.size == 1:
        return None if values is None else operand
    layout = Layout((move[0],), move[1]).before(_repeated(values.shape, graph.tensors[node.outputs[0]].shape), 0)
    if layout is None:
        return None
    (digits,), flat = layout.dimensions, np.ascontiguousarray(values).reshape(-1)[layout.base :]
    sizes, strides = zip(*(digits or ((1, 1),)), strict=True)
    moved = np.lib.stride_tricks.as_strided(flat, sizes, [stride * flat.itemsize for stride in strides]).reshape(result)
    if moved.size > values.size and not np.may_share_memory(moved, flat):
        return None  # repeated values do not repeat in whole dimensions there
    kept = moved[tuple(slice(1 if step == 0 else None) for step in moved.strides)]
    if max(kept.shape[:-3], default=1) > 1 and kept.shape[:-3] != result[:-3]:
        return None  # kernels have one batch for all these dimensions
    return graph.new_tensor(operand, kept.shape, np.ascontiguousarray(kept))


def _repeated(shape: tuple[int, ...], whole: tuple[int, ...]) -> tuple[Digit, ...]:
    """The digits of the copy that broadcasts a shape to another one, as kernels do: a reshape that was taken out
    between them may have changed the rank.
    """
    own, wide = bhwc(shape), bhwc(whole)
    strides = zip(own, strides_of(own), wide, strict=True)
    return tuple((size, 0 if mine < size else stride) for mine, stride, size in strides)
