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
        source, target = node.inputs[0], node.outputs[0]
        readers = graph.consumers(target)
        if not _halves(graph, node) or target in graph.outputs or target in graph.parts or len(readers) != 1:
            continue
        (reader,) = readers
        same = graph.tensors[reader.outputs[0]].bhwc[:3] == graph.tensors[target].bhwc[:3]
        linked = [link.operand for link in reader.links].count(target)
        if not same or reader.operands.count(target) != 1 or linked != 1 or len(reader.outputs) != 1:
            continue
        links = tuple(
            replace(link, operand=source, pooled=True) if link.operand == target else link for link in reader.links
        )
        reading = replace(reader, links=links, indices=node.indices + reader.indices)
        graph.nodes = [reading if other is reader else other for other in graph.nodes if other is not node]
        graph.changes.append(f"removed {node.operator.name} {list(node.indices)}: its reader takes the maximum")


def _halves(graph: Graph, node: Node) -> bool:
    """Whether it is such a pooling, and nothing is done to its values."""
    attributes = node.attributes
    if not isinstance(attributes, Pooling) or not attributes.maximum or node.links or node.reading:
        return False
    _, height, width, channels = graph.tensors[node.inputs[0]].bhwc
    even = height % 2 == width % 2 == 0 and channels > 1
    return even and attributes.window.size == attributes.window.strides == (2, 2)
