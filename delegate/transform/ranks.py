"""Broadcasting between tensors of different rank: TFLite aligns shapes at the last dimension, BHWC by meaning.

A [w, c] beside a [b, h, w, c] is one row of it, but its BHWC form has w as the batch. Such an operand is read through a
reshape to the output's rank, or, if constant, is given that shape.
"""

from __future__ import annotations

from dataclasses import replace

from ...kernels.ops.movement.reshape import Reshape
from ...kernels.ops.pointwise.elementwise import Elementwise
from ...kernels.ops.pointwise.logic import Select
from ...kernels.tensor import bhwc
from .graph import Graph, Node


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
    ones = (1,) * (rank - len(info.shape))
    shape = info.shape + ones if ones_last else ones + info.shape
    if bhwc(shape) == info.bhwc:
        return tensor
    if info.constant is not None:
        return graph.new_tensor(tensor, shape, info.constant.reshape(shape))
    new = graph.new_tensor(tensor, shape)
    graph.insert_before(reader, Node("RESHAPE", Reshape(shape), (tensor,), (new,)))
    graph.changes.append(f"reshaped tensor {tensor} {info.shape} to {shape}, to broadcast it")
    return new
