"""Patterns of nodes that several passes look for."""

from __future__ import annotations

from ...kernels.ops.convolution.conv import Convolution
from ...kernels.ops.movement.reshape import ExpandDimensions, Reshape, Squeeze
from ...kernels.ops.reduction.pool import Pooling
from ...kernels.ops.reduction.reduce import Reduction
from ...kernels.ops.window import VALID
from .graph import Graph, Node


def pointwise_convolution(node: Node) -> Convolution | None:
    """The node's operation if it is a convolution of each pixel by itself (1x1, stride 1), else None."""
    operation = node.operation
    if not isinstance(operation, Convolution):
        return None
    window = operation.window
    return operation if window.size == window.strides == (1, 1) and not any(window.extra) else None


def is_reshape(node: Node) -> bool:
    """Whether the node only gives its input another shape."""
    return isinstance(node.operation, Reshape | Squeeze | ExpandDimensions) and not node.epilogue


def is_mean_of_pixels(graph: Graph, node: Node) -> bool:
    """Whether the node computes the mean of all pixels, and nothing else."""
    operation = node.operation
    if node.epilogue:
        return False
    if isinstance(operation, Pooling):
        window, shape = operation.window, graph.tensors[node.inputs[0]].bhwc
        all_pixels = window.size == shape[1:3] and window.padding == VALID
        return all_pixels and not operation.maximum and graph.tensors[node.outputs[0]].bhwc[1:3] == (1, 1)
    if not isinstance(operation, Reduction):
        return False
    return (operation.axes, operation.rank, operation.kind) == ((1, 2), 4, "MEAN")
