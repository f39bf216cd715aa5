"""Broadcasting between tensors of different rank: TFLite aligns shapes at the last dimension, BHWC by meaning.

A [w, c] beside a [b, h, w, c] is one row of it, but its BHWC form has w as the batch. Such an operand is read through a
reshape to the output's rank, or, if constant, is given that shape.
"""

from __future__ import annotations

from dataclasses import replace

from ...kernels.operation import FusedOp
from ...kernels.ops.movement.reshape import Reshape
from ...kernels.ops.pointwise.elementwise import Elementwise
from ...kernels.ops.pointwise.logic import Select
from ...kernels.tensor import bhwc
from .graph import Graph, Node


def align_ranks(graph: Graph) -> None:
    """Give every operand of an elementwise node or a SELECT the rank of its output, where that changes its BHWC form.

    It comes before every pass that removes reshapes: those keep BHWC forms, not ranks.
    """
    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node.operation, Elementwise | Select):
            rank = len(graph.tensors[node.outputs[0]].shape)
            rows = isinstance(node.operation, Select) and node.operation.rows
            aligned = {
                i: _aligned(graph, nodes, i, rank, first=rows and place == 0) for place, i in enumerate(node.operands)
            }
            epilogue = tuple(_with_operand(op, aligned) for op in node.epilogue)
            node = replace(node, inputs=tuple(aligned[i] for i in node.inputs), epilogue=epilogue)
        nodes.append(node)
    graph.nodes = nodes


def _with_operand(op: FusedOp, aligned: dict[int, int]) -> FusedOp:
    return op if op.operand is None else replace(op, operand=aligned[op.operand])


def _aligned(graph: Graph, nodes: list[Node], tensor: int, rank: int, *, first: bool) -> int:
    """The tensor, or a new one with the same values and ``rank`` dimensions, appending the node that computes it.

    New dimensions come before the tensor's own, or, where these are the ``first``, after them.
    """
    info = graph.tensors[tensor]
    ones = (1,) * (rank - len(info.shape))
    shape = info.shape + ones if first else ones + info.shape
    if bhwc(shape) == info.bhwc:
        return tensor
    new = max(graph.tensors) + 1
    constant = None if info.constant is None else info.constant.reshape(shape)
    graph.tensors[new] = replace(info, shape=shape, constant=constant)
    if constant is None:
        nodes.append(Node("RESHAPE", Reshape(shape), (tensor,), (new,)))
        graph.changes.append(f"reshaped tensor {tensor} {info.shape} to {shape}, to broadcast it")
    return new
