"""The graph of a partition: some of a subgraph's claimed operators, for the shapes of the partition's inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..transform.graph import Graph
from .claims import Claims, Shapes


def output_shapes(claims: Claims, indices: Sequence[int], shapes: Shapes) -> Shapes:
    """The shapes of all tensors that these operators read and write, from ``shapes`` of the partition's inputs.

    Raises ValueError, which names the operator, if the shapes do not fit together.
    """
    known = dict(shapes)
    for index in indices:
        node = claims.nodes[index]
        operands = [known.get(i, claims.tensors[i].shape) for i in node.operands]
        try:
            known |= dict(zip(node.outputs, node.operation.output_shapes(operands), strict=True))
        except Exception as error:  # a shape rule may meet any shapes
            raise ValueError(f"operator {index} {node.name}: {error}") from error
    return known


def build_graph(
    claims: Claims, indices: Sequence[int], inputs: Sequence[int], outputs: Sequence[int], shapes: Shapes
) -> Graph:
    """The graph of one partition: operators ``indices`` in execution order, its boundary tensors, and current
    shapes.
    """
    nodes = [claims.nodes[index] for index in indices]
    used = {i for node in nodes for i in (*node.operands, *node.outputs)} | set(inputs) | set(outputs)
    tensors = {i: replace(claims.tensors[i], shape=shapes.get(i, claims.tensors[i].shape)) for i in used}
    return Graph(tensors, nodes, tuple(i for i in inputs if tensors[i].constant is None and i in used), tuple(outputs))
