"""The pass that leaves the maximum of 2x2 pixels to whoever adds it, or the like, to what it writes."""

from __future__ import annotations

from dataclasses import replace

from ...kernels.ops.reduction.pool import Pooling
from .graph import Graph, Node


def read_pools(graph: Graph) -> None:
    """Drop each maximum pooling of 2x2 pixels without padding that is the operand of one link and nothing else.

    The link reads the four pixels.
    """
    for node in list(graph.nodes):
        source, destination = node.inputs[0], node.outputs[0]
        readers = graph.consumers(destination)
        if (
            not _halves(graph, node)
            or destination in graph.outputs
            or destination in graph.aliases
            or len(readers) != 1
        ):
            continue
        (reader,) = readers
        same = graph.tensors[reader.outputs[0]].bhwc[:3] == graph.tensors[destination].bhwc[:3]
        linked = [op.operand for op in reader.epilogue].count(destination)
        if not same or reader.operands.count(destination) != 1 or linked != 1 or len(reader.outputs) != 1:
            continue
        epilogue = tuple(
            replace(op, operand=source, max_pool_2x2=True) if op.operand == destination else op
            for op in reader.epilogue
        )
        input_ops = replace(reader, epilogue=epilogue, indices=node.indices + reader.indices)
        graph.nodes = [input_ops if other is reader else other for other in graph.nodes if other is not node]
        graph.changes.append(f"removed {node.name} {list(node.indices)}: its reader takes the maximum")


def _halves(graph: Graph, node: Node) -> bool:
    """Whether it is such a pooling, and nothing is done to its values."""
    operation = node.operation
    if not isinstance(operation, Pooling) or not operation.maximum or node.epilogue or node.input_ops:
        return False
    _, height, width, channels = graph.tensors[node.inputs[0]].bhwc
    even = height % 2 == width % 2 == 0 and channels > 1
    return even and operation.window.size == operation.window.strides == (2, 2)
