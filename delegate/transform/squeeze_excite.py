"""The pass for squeeze-and-excite blocks: a mean of all pixels and its layers are one node."""

from __future__ import annotations

from ...kernels.ops.convolution.conv import Convolution
from ...kernels.ops.convolution.fully_connected import FullyConnected
from ...kernels.ops.convolution.separable import CLAMPS
from ...kernels.ops.reduction.squeeze_excite import PRODUCTS, SqueezeExcite
from ...kernels.ops.window import VALID, Window
from ...kernels.tensor import slices
from .graph import Graph, Node
from .patterns import is_mean_of_pixels, pointwise_convolution


def fuse_squeeze_excite(graph: Graph) -> None:
    """Replace a mean of all pixels and the one or two small layers after it, if no other node reads them."""
    for mean in graph.forwards():
        first = _layer(graph, mean) if is_mean_of_pixels(graph, mean) else None
        if first is None:
            continue
        activation = tuple(op.expression for op in first.epilogue)
        second = _layer(graph, first) if activation in CLAMPS else None
        last = first if second is None else second
        layers = tuple(layer for layer in map(_convolution, dict.fromkeys((first, last))) if layer is not None)
        operation = SqueezeExcite(layers, () if second is None else activation)
        fused = Node("SQUEEZE_EXCITE", operation, mean.inputs, last.outputs, last.epilogue, input_ops=mean.input_ops)
        graph.substitute({mean, first, last}, fused)


def _layer(graph: Graph, node: Node) -> Node | None:
    """The small layer that is the only reader of the node's output, else None."""
    output = node.outputs[0]
    reader = graph.sole_reader(output)
    layer = None if reader is None else _convolution(reader)
    if reader is None or layer is None or reader.inputs != (output,) or reader.input_ops:
        return None
    out, depth = layer.weights.shape[0], layer.weights.shape[3]
    matches = graph.tensors[output].bhwc[3] == depth and graph.tensors[reader.outputs[0]].bhwc[1:] == (1, 1, out)
    return reader if matches and slices(out) * slices(depth) <= PRODUCTS else None


def _convolution(node: Node) -> Convolution | None:
    """The node as a 1x1 convolution, else None."""
    operation = node.operation
    if isinstance(operation, FullyConnected) and operation.weights is not None:
        weights = operation.weights[:, None, None, :]
        return Convolution(Window((1, 1), (1, 1), padding=VALID), weights, operation.bias)
    return pointwise_convolution(node)
