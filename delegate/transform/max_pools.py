"""The pass that moves the maximum of 2x2 pixels into the epilogue that reads it as an operand."""

from __future__ import annotations

from dataclasses import replace

from ...kernels.ops.reduction.pool import Pooling
from .graph import Graph, Node


def fuse_max_pools(graph: Graph) -> None:
    """Drop each maximum pooling of 2x2 pixels without padding that only one epilogue reads, as an operand.

    The epilogue reads the four pixels.
    """
    for node in graph.forwards():
        source, destination = node.inputs[0], node.outputs[0]
        reader = graph.sole_reader(destination) if _halves(graph, node) else None
        if reader is None or len(reader.outputs) != 1:
            continue
        same = graph.tensors[reader.outputs[0]].bhwc[:3] == graph.tensors[destination].bhwc[:3]
        if not same or destination not in [op.operand for op in reader.epilogue]:
            continue
        epilogue = tuple(
            replace(op, operand=source, max_pool_2x2=True) if op.operand == destination else op
            for op in reader.epilogue
        )
        graph.substitute({node, reader}, reader, epilogue=epilogue)


def _halves(graph: Graph, node: Node) -> bool:
    """Whether the node is such a pooling, without an epilogue."""
    operation = node.operation
    if not isinstance(operation, Pooling) or not operation.maximum or node.epilogue or node.input_ops:
        return False
    _, height, width, channels = graph.tensors[node.inputs[0]].bhwc
    even = height % 2 == width % 2 == 0 and channels > 1
    return even and operation.window.size == operation.window.strides == (2, 2)
