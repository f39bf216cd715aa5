"""The pass that computes a depthwise convolution and the 1x1 convolution behind it in one dispatch."""

from __future__ import annotations

from dataclasses import replace

from ...kernels.ops.convolution.conv import Convolution
from ...kernels.ops.convolution.depthwise import Depthwise
from ...kernels.ops.convolution.separable import CLAMPS, Separable
from .graph import Graph, Node


def fuse_separable(graph: Graph) -> None:
    """Replace each pair by one node, where nobody else reads what is between them."""
    for node in list(graph.nodes):
        if not isinstance(node.operation, Depthwise) or node.operation.multiplier != 1:
            continue
        between = node.outputs[0]
        readers = graph.consumers(between)
        if (
            len(readers) != 1
            or between in graph.outputs
            or between in graph.aliases
            or not _pointwise(readers[0], between)
        ):
            continue
        activation = tuple(op.expression for op in node.epilogue)
        if activation not in CLAMPS:
            continue
        pointwise = readers[0].operation
        assert isinstance(pointwise, Convolution)
        operation = Separable(node.operation, activation, pointwise)
        fused = replace(
            readers[0], name="SEPARABLE_CONV_2D", operation=operation, inputs=node.inputs,
            indices=node.indices + readers[0].indices,
        )  # fmt: skip
        graph.nodes = [fused if other is readers[0] else other for other in graph.nodes if other is not node]
        graph.changes.append(f"fused {node.name} and {readers[0].name} {list(fused.indices)}")


def _pointwise(node: Node, source: int) -> bool:
    """Whether it is a 1x1 convolution that reads ``source`` once, pixel by pixel."""
    operation = node.operation
    if not isinstance(operation, Convolution) or operation.groups != 1 or node.operands.count(source) != 1:
        return False
    window = operation.window
    return node.inputs == (source,) and window.size == window.strides == (1, 1) and not any(window.extra)
