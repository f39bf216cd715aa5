"""Passes for squeeze-and-excite blocks: mean and layers as one node, and factors applied where they are read."""

from __future__ import annotations

from dataclasses import replace

from ..kernels.conv import Convolution
from ..kernels.elementwise import Elementwise
from ..kernels.fully_connected import FullyConnected
from ..kernels.layout import slices
from ..kernels.operator import Link
from ..kernels.pool import Pooling
from ..kernels.reduce import Reduction
from ..kernels.separable import CLAMPS
from ..kernels.squeeze_excite import PRODUCTS, SQUEEZE_EXCITE, SqueezeExcite
from ..kernels.window import VALID, Window
from .graph import Graph, Node

READ_LINKS = frozenset({"ADD", "MUL", "SUB"})
"""What may be applied to every value that is read: cheap, and zero where both operands are."""


def read_through_links(graph: Graph) -> None:
    """Let 1x1 convolutions and means apply sums and products to what they read, where nobody else needs those."""
    for node in list(graph.nodes):
        if not isinstance(node.attributes, Elementwise) or not node.links or node.reading:
            continue
        readers = graph.consumers(node.outputs[0])
        fits = all(_binary(link) for link in node.links) and node.outputs[0] not in graph.outputs
        same = graph.tensors[node.inputs[0]].bhwc == graph.tensors[node.outputs[0]].bhwc
        if not (fits and same and readers and all(_reads_once(graph, reader, node.outputs[0]) for reader in readers)):
            continue
        for reader in readers:
            indices = node.indices + reader.indices
            absorbed = replace(reader, inputs=node.inputs, reading=node.links, indices=indices)
            graph.nodes = [absorbed if other is reader else other for other in graph.nodes]
            names = ", ".join(link.expression for link in node.links)
            graph.changes.append(f"{reader.operator.name} {list(indices)} applies {names} to what it reads")
        graph.nodes = [other for other in graph.nodes if other is not node]


def _binary(link: Link) -> bool:
    return link.expression in READ_LINKS and link.operand is not None and not link.values


def _reads_once(graph: Graph, node: Node, tensor: int) -> bool:
    attributes = node.attributes
    pointwise = isinstance(attributes, Convolution) and attributes.groups == 1 and _pointwise(attributes.window)
    kind = pointwise or _is_mean(graph, node)
    return kind and node.inputs == (tensor,) and node.operands.count(tensor) == 1 and not node.reading


def _pointwise(window: Window) -> bool:
    return window.size == window.strides == (1, 1) and not any(window.extra)


def _is_mean(graph: Graph, node: Node) -> bool:
    """Whether the node computes the mean of all pixels, and nothing else."""
    attributes, shape = node.attributes, graph.tensors[node.inputs[0]].bhwc
    if isinstance(attributes, Pooling):
        window = attributes.window
        whole = window.size == shape[1:3] and window.padding == VALID and not attributes.maximum
        return whole and graph.tensors[node.outputs[0]].bhwc[1:3] == (1, 1) and not node.links
    return isinstance(attributes, Reduction) and _over_pixels(attributes) and not node.links


def _over_pixels(reduction: Reduction) -> bool:
    return (reduction.axes, reduction.rank, reduction.kind) == ((1, 2), 4, "MEAN")


def fuse_squeeze_excite(graph: Graph) -> None:
    """Replace a mean of all pixels and the one or two small layers that alone read it, one after the other."""
    for mean in list(graph.nodes):
        if not _is_mean(graph, mean):
            continue
        first = _layer(graph, mean)
        if first is None:
            continue
        second = _layer(graph, first) if tuple(link.expression for link in first.links) in CLAMPS else None
        members = [node for node in (mean, first, second) if node is not None]
        layers = tuple(layer for layer in map(_convolution, members[1:]) if layer is not None)
        activation = tuple(link.expression for link in first.links) if second is not None else ()
        last = members[-1]
        indices = tuple(index for node in members for index in node.indices)
        fused = Node(
            SQUEEZE_EXCITE,
            SqueezeExcite(layers, activation),
            mean.inputs,
            last.outputs,
            last.links,
            indices,
            mean.reading,
        )
        graph.nodes = [fused if n is last else n for n in graph.nodes if n is last or all(n is not m for m in members)]
        graph.changes.append(f"fused mean and {len(layers)} layers {list(indices)}")


def _layer(graph: Graph, node: Node) -> Node | None:
    """The small layer that alone reads the node's output; None where there is no such one."""
    output = node.outputs[0]
    readers = graph.consumers(output)
    if len(readers) != 1 or output in graph.outputs or output in graph.parts or readers[0].inputs != (output,):
        return None
    (reader,) = readers
    layer = _convolution(reader)
    if layer is None or reader.reading or reader.operands.count(output) != 1:
        return None
    out, depth = layer.weights.shape[0], layer.weights.shape[3]
    matches = graph.tensors[output].bhwc[3] == depth and graph.tensors[reader.outputs[0]].bhwc[1:] == (1, 1, out)
    return reader if matches and slices(out) * slices(depth) <= PRODUCTS else None


def _convolution(node: Node) -> Convolution | None:
    """The node as a 1x1 convolution; None where it is none."""
    attributes = node.attributes
    if isinstance(attributes, FullyConnected) and attributes.weights is not None:
        weights = attributes.weights[:, None, None, :]
        return Convolution(Window((1, 1), (1, 1), padding=VALID), weights, attributes.bias)
    if isinstance(attributes, Convolution) and attributes.groups == 1 and _pointwise(attributes.window):
        return attributes
    return None
