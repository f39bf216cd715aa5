"""The pass that computes a depthwise convolution and the 1x1 convolution behind it in one dispatch."""

from __future__ import annotations

from dataclasses import replace

from ...kernels.ops.convolution.depthwise import Depthwise
from ...kernels.ops.convolution.separable import CLAMPS, Separable
from .graph import Graph
from .patterns import pointwise_convolution


def fuse_separable(graph: Graph) -> None:
    """Replace each pair by one node, if nobody else reads the tensor between them."""
    for node in graph.forwards():
        reader = graph.sole_reader(node.outputs[0])
        pointwise = None if reader is None else pointwise_convolution(reader)
        activation = tuple(op.expression for op in node.epilogue)
        if not isinstance(node.operation, Depthwise) or node.operation.multiplier != 1 or activation not in CLAMPS:
            continue
        if reader is not None and pointwise is not None and reader.inputs == node.outputs:
            operation = Separable(node.operation, activation, pointwise)
            fused = replace(reader, name="SEPARABLE_CONV_2D", operation=operation, inputs=node.inputs)
            graph.substitute({node, reader}, fused)
