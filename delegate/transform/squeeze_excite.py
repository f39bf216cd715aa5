"""Passes for squeeze-and-excite blocks: mean and layers as one node, and factors applied where they are read."""

from __future__ import annotations

from ...kernels.ops.convolution.conv import Convolution
from ...kernels.ops.convolution.fully_connected import FullyConnected
from ...kernels.ops.convolution.separable import CLAMPS
from ...kernels.ops.reduction.squeeze_excite import PRODUCTS, SqueezeExcite
from ...kernels.ops.window import VALID, Window
from ...kernels.tensor import slices
from .epilogues import _is_mean, _pointwise
from .graph import Graph, Node


def fuse_squeeze_excite(graph: Graph) -> None:
    """Replace a mean of all pixels and the one or two small layers that alone read it, one after the other."""
    for mean in list(graph.nodes):
        if not _is_mean(graph, mean):
            continue
        first = _layer(graph, mean)
        if first is None:
            continue
        second = _layer(graph, first) if tuple(op.expression for op in first.epilogue) in CLAMPS else None
        members = [node for node in (mean, first, second) if node is not None]
        layers = tuple(layer for layer in map(_convolution, members[1:]) if layer is not None)
        activation = tuple(op.expression for op in first.epilogue) if second is not None else ()
        last = members[-1]
        indices = tuple(index for node in members for index in node.indices)
        fused = Node(
            "SQUEEZE_EXCITE",
            SqueezeExcite(layers, activation),
            mean.inputs,
            last.outputs,
            last.epilogue,
            indices,
            mean.input_ops,
        )
        graph.nodes = [fused if n is last else n for n in graph.nodes if n is last or all(n is not m for m in members)]
        graph.changes.append(f"fused mean and {len(layers)} layers {list(indices)}")


def _layer(graph: Graph, node: Node) -> Node | None:
    """The small layer that alone reads the node's output; None where there is no such one."""
    output = node.outputs[0]
    readers = graph.consumers(output)
    if len(readers) != 1 or output in graph.outputs or output in graph.aliases or readers[0].inputs != (output,):
        return None
    (reader,) = readers
    layer = _convolution(reader)
    if layer is None or reader.input_ops or reader.operands.count(output) != 1:
        return None
    out, depth = layer.weights.shape[0], layer.weights.shape[3]
    matches = graph.tensors[output].bhwc[3] == depth and graph.tensors[reader.outputs[0]].bhwc[1:] == (1, 1, out)
    return reader if matches and slices(out) * slices(depth) <= PRODUCTS else None


def _convolution(node: Node) -> Convolution | None:
    """The node as a 1x1 convolution; None where it is none."""
    operation = node.operation
    if isinstance(operation, FullyConnected) and operation.weights is not None:
        weights = operation.weights[:, None, None, :]
        return Convolution(Window((1, 1), (1, 1), padding=VALID), weights, operation.bias)
    if isinstance(operation, Convolution) and operation.groups == 1 and _pointwise(operation.window):
        return operation
    return None
