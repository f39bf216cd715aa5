"""Passes for ranks: kernels have the four dimensions of BHWC, and TFLite's operators have up to eight.

TFLite aligns shapes at the last dimension to broadcast, BHWC by meaning. A [w, c] beside a [b, h, w, c] is one row of
it, but its BHWC form has w as the batch. Such an operand is read through a reshape to the output's rank, or, if
constant, gets that shape. With rank 5 and more, all dimensions before the last three are the batch in BHWC. A reshape
keeps the order of values in memory. So an operator that distinguishes these dimensions becomes one of rank 4 at most
between reshapes, most of which cost nothing. An operator that only moves values by strides absorbs the reshapes around
it. An operand that broadcasts along only some of these dimensions is repeated along the others first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...kernels.operation import Collapsed
from ...kernels.ops.convolution.fully_connected import FullyConnected
from ...kernels.ops.movement.reshape import ExpandDimensions, Reshape, Squeeze
from ...kernels.ops.movement.strided_copy import StridedCopy
from ...kernels.ops.movement.tile import BroadcastTo
from ...kernels.ops.pointwise.elementwise import Elementwise
from ...kernels.ops.pointwise.logic import Select
from ...kernels.tensor import bhwc
from .graph import Graph, Node


def collapse_ranks(graph: Graph) -> None:
    """Replace nodes with a tensor of rank 5 or more by nodes that compute the same on four dimensions at most."""
    high = {tensor for tensor, info in graph.tensors.items() if len(info.shape) > 4}
    for node in graph.forwards():
        if high.isdisjoint((*node.inputs, *node.outputs)):
            continue
        steps = node.operation.collapsed([graph.tensors[tensor].shape for tensor in node.inputs])
        if steps:
            graph.substitute({node}, *_nodes(graph, node, steps))


def keep_rows(graph: Graph) -> None:
    """Let layers (FULLY_CONNECTED) keep the dimensions of their input, with a reshape behind them in place of one
    before. Others write through that, or take what moves values to it, and the layer absorbs functions as before.
    """
    for node in graph.forwards():
        operation, (source, *_), result = node.operation, node.inputs, node.outputs[0]
        if not isinstance(operation, FullyConnected) or operation.weights is None:
            continue
        units, length = operation.weights.shape
        shape = graph.tensors[source].shape
        kept = (*shape[:-1], units)
        if shape[-1:] != (length,) or bhwc(kept) == graph.tensors[result].bhwc:
            continue
        made = graph.new_tensor(result, kept)
        layer = replace(node, operation=replace(operation, keep_dimensions=True), outputs=(made,))
        graph.insert_before(node, layer)
        graph.update(node, name="RESHAPE", operation=Reshape(graph.tensors[result].shape), inputs=(made,), epilogue=())


def merge_reshapes(graph: Graph) -> None:
    """Let strided copies absorb reshapes of their input and of their result."""
    for node in graph.forwards():
        if not isinstance(node.operation, StridedCopy):
            continue
        before = graph.producer(node.inputs[0])
        if before is not None and _is_plain_reshape(before):
            node = graph.update(node, inputs=before.inputs)
            if not graph.readers(before.outputs[0]) and before.outputs[0] not in graph.outputs:
                graph.remove(before, "its reader moves values from before it")
        after = graph.sole_reader(node.outputs[0])
        if after is not None and _is_plain_reshape(after) and not node.epilogue:
            graph.substitute({node, after}, node, outputs=after.outputs)


def _nodes(graph: Graph, node: Node, steps: Sequence[Collapsed]) -> list[Node]:
    """The nodes of the steps, with reshapes if shapes differ. The last step has the node's epilogue."""
    nodes: list[Node] = []
    current = node.inputs
    for number, step in enumerate(steps):
        is_last = number == len(steps) - 1
        inputs = tuple(_viewed(graph, node, nodes, *view) for view in zip(current, step.inputs, strict=True))
        made = tuple(graph.new_tensor(node.outputs[i], shape) for i, shape in enumerate(step.outputs))
        if is_last:
            pairs = zip(node.outputs, made, strict=True)
            made = tuple(old if graph.tensors[old].bhwc == graph.tensors[new].bhwc else new for old, new in pairs)
        epilogue = node.epilogue if is_last else ()
        nodes.append(replace(node, operation=step.operation, inputs=inputs, outputs=made, epilogue=epilogue))
        current = made
    for old, new in zip(node.outputs, current, strict=True):
        if old != new and 0 not in graph.tensors[old].shape:
            nodes.append(_reshape(node, new, old, graph.tensors[old].shape))
    return nodes


def _viewed(graph: Graph, node: Node, nodes: list[Node], tensor: int, shape: tuple[int, ...]) -> int:
    """The tensor if it has this shape for kernels, else a new one with its values, computed by a new node that is
    appended to ``nodes``, the nodes that replace ``node``.
    """
    info = graph.tensors[tensor]
    if info.bhwc == bhwc(shape):
        return tensor
    if info.constant is not None:
        return graph.new_tensor(tensor, shape, info.constant.reshape(shape))
    new = graph.new_tensor(tensor, shape)
    nodes.append(_reshape(node, tensor, new, shape))
    return new


def _reshape(node: Node, source: int, destination: int, shape: tuple[int, ...]) -> Node:
    """A reshape on the same type (floats or integers) as ``node``."""
    return Node("RESHAPE", Reshape(shape), (source,), (destination,), integers=node.integers)


def _is_plain_reshape(node: Node) -> bool:
    return isinstance(node.operation, Reshape | Squeeze | ExpandDimensions) and not node.epilogue and not node.input_ops


def align_ranks(graph: Graph) -> None:
    """Give every operand of an elementwise node or a SELECT the rank of its output, if that changes its BHWC form."""
    for node in graph.forwards():
        operation = node.operation
        if not isinstance(operation, Elementwise | Select):
            continue
        rank = len(graph.tensors[node.outputs[0]].shape)
        rows = isinstance(operation, Select) and operation.rows
        aligned = {
            tensor: _aligned(graph, node, tensor, rank, ones_last=rows and number == 0)
            for number, tensor in enumerate(node.operands)
        }
        if any(old != new for old, new in aligned.items()):
            epilogue = tuple(
                op if op.operand is None else replace(op, operand=aligned[op.operand]) for op in node.epilogue
            )
            graph.update(node, inputs=tuple(aligned[tensor] for tensor in node.inputs), epilogue=epilogue)


def _aligned(graph: Graph, reader: Node, tensor: int, rank: int, *, ones_last: bool) -> int:
    """The tensor, or a new one with the same values and ``rank`` dimensions, computed by a new node before ``reader``.

    New dimensions come before the tensor's own, or, with ``ones_last``, after them.
    """
    info = graph.tensors[tensor]
    if len(info.shape) == rank <= 4:
        return tensor
    ones = (1,) * (rank - len(info.shape))
    shape = info.shape + ones if ones_last else ones + info.shape
    batches, wide = shape[:-3], graph.tensors[reader.outputs[0]].shape[:-3]
    if any(size > 1 for size in batches) and batches != wide:
        return _repeated(graph, reader, tensor, shape, wide + shape[-3:])
    if bhwc(shape) == info.bhwc:
        return tensor
    if info.constant is not None:
        return graph.new_tensor(tensor, shape, info.constant.reshape(shape))
    new = graph.new_tensor(tensor, shape)
    graph.insert_before(reader, _reshape(reader, tensor, new, shape))
    graph.changes.append(f"reshaped tensor {tensor} {info.shape} to {shape}, to broadcast it")
    return new


def _repeated(graph: Graph, reader: Node, tensor: int, shape: tuple[int, ...], wide: tuple[int, ...]) -> int:
    """A new tensor of the shape ``wide``: the tensor, as one of ``shape``, repeated along dimensions of size 1."""
    values = graph.tensors[tensor].constant
    if values is not None:
        return graph.new_tensor(tensor, wide, np.broadcast_to(values.reshape(shape), wide))
    new = graph.new_tensor(tensor, wide)
    (copy,) = BroadcastTo(wide, len(shape)).collapsed([shape])
    graph.insert_before(reader, Node("BROADCAST_TO", copy.operation, (tensor,), (new,), integers=reader.integers))
    graph.changes.append(f"repeated tensor {tensor} {shape} to {wide}, to broadcast it")
    return new
