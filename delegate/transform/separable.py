"""The pass that computes a depthwise convolution and the 1x1 convolution behind it in one dispatch."""

from __future__ import annotations

from dataclasses import replace

from ...kernels.ops.convolution.conv import Convolution
from ...kernels.ops.convolution.depthwise import Depthwise
from ...kernels.ops.convolution.separable import CLAMPS, SEPARABLE, Separable
from .graph import Graph, Node


def fuse_separable(graph: Graph) -> None:
    """Replace each pair by one node, where nobody else reads what is between them."""
    for node in list(graph.nodes):
        if not isinstance(node.attributes, Depthwise) or node.attributes.multiplier != 1:
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
        attributes = Separable(node.attributes, activation, readers[0].attributes)
        fused = replace(
            readers[0], operator=SEPARABLE, attributes=attributes, inputs=node.inputs,
            indices=node.indices + readers[0].indices,
        )  # fmt: skip
        graph.nodes = [fused if other is readers[0] else other for other in graph.nodes if other is not node]
        graph.changes.append(f"fused {node.operator.name} and {readers[0].operator.name} {list(fused.indices)}")


def _pointwise(node: Node, source: int) -> bool:
    """Whether it is a 1x1 convolution that reads ``source`` once, pixel by pixel."""
    attributes = node.attributes
    if not isinstance(attributes, Convolution) or attributes.groups != 1 or node.operands.count(source) != 1:
        return False
    window = attributes.window
    return node.inputs == (source,) and window.size == window.strides == (1, 1) and not any(window.extra)
