"""The graph of a partition: some of a subgraph's claimed operators."""

from __future__ import annotations

from collections.abc import Sequence

from ..transform.graph import Graph
from .claims import Claims


def build_graph(claims: Claims, indices: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]) -> Graph:
    """The graph of one partition: operators ``indices`` in execution order, and its boundary tensors.

    An output without elements is left out: it has no memory.
    """
    nodes = [node for index in indices for node in claims.nodes[index]]
    used = {i for node in nodes for i in (*node.operands, *node.outputs)} | set(inputs) | set(outputs)
    tensors = {i: claims.tensors[i] for i in used}
    read = tuple(i for i in inputs if tensors[i].constant is None and i in used)
    return Graph(tensors, nodes, read, tuple(i for i in outputs if 0 not in tensors[i].shape))
