"""The pass for resized single pixels: concatenated with a picture and convolved, they are a vector that is added."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from ...kernels.operation import FusedOp
from ...kernels.ops.convolution.conv import Convolution
from ...kernels.ops.movement.concat import Concatenation
from ...kernels.ops.movement.resize import ResizeImage
from ...kernels.tensor import bhwc_axis
from .graph import Graph, Node


def add_spread_vectors(graph: Graph) -> None:
    """Where a 1x1 convolution reads one tensor joined with resized single pixels: convolve each by itself, and add."""
    for node in list(graph.nodes):
        joined = _joined(graph, node)
        if joined is None:
            continue
        operation = node.operation
        assert isinstance(operation, Convolution)
        ends = list(accumulate(graph.tensors[i].bhwc[3] for i in joined.inputs))
        weights = [operation.weights[..., start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        resized = [_resized(graph, i) for i in joined.inputs]
        vectors: list[Node] = []
        for pixel, share in zip(resized, weights, strict=True):
            if pixel is not None:
                vectors.append(_vector(graph, node, pixel, replace(operation, weights=share, bias=None)))
        (place,) = (number for number, pixel in enumerate(resized) if pixel is None)
        added = tuple(FusedOp("ADD", vector.outputs[0]) for vector in vectors)
        rest = replace(
            node, operation=replace(operation, weights=weights[place]), inputs=(joined.inputs[place],),
            epilogue=added + node.epilogue, indices=joined.indices + node.indices,
        )  # fmt: skip
        nodes = [other for other in graph.nodes if other is not joined]
        number = next(i for i, other in enumerate(nodes) if other is node)
        graph.nodes = [*nodes[:number], *vectors, rest, *nodes[number + 1 :]]
        unread = [other for other in graph.nodes if isinstance(other.operation, ResizeImage) and _unread(graph, other)]
        graph.nodes = [other for other in graph.nodes if all(other is not one for one in unread)]
        graph.changes.append(f"added {len(vectors)} spread vectors to CONV_2D {list(rest.indices)}")


def _unread(graph: Graph, node: Node) -> bool:
    return not graph.consumers(node.outputs[0]) and node.outputs[0] not in graph.outputs


def _joined(graph: Graph, node: Node) -> Node | None:
    """The concatenation of channels that only ``node``, a 1x1 convolution, reads, of one tensor and resized pixels."""
    operation = node.operation
    if not isinstance(operation, Convolution) or operation.groups != 1 or operation.window.size != (1, 1):
        return None
    if operation.window.strides != (1, 1) or any(operation.window.extra) or node.inputs[0] in graph.outputs:
        return None
    joined = next((n for n in graph.nodes if n.outputs == node.inputs), None)
    if joined is None or not isinstance(joined.operation, Concatenation) or joined.epilogue:
        return None
    along_channels = bhwc_axis(joined.operation.axis, joined.operation.rank) == 3
    others = [i for i in joined.inputs if _resized(graph, i) is None]
    alone = graph.consumers(joined.outputs[0]) == [node] and node.operands.count(joined.outputs[0]) == 1
    return joined if along_channels and alone and len(others) == 1 < len(joined.inputs) else None


def _resized(graph: Graph, tensor: int) -> int | None:
    """The single pixel of which this tensor is a resized picture; None where it is none."""
    node = next((n for n in graph.nodes if n.outputs == (tensor,)), None)
    if node is None or not isinstance(node.operation, ResizeImage) or node.epilogue:
        return None
    return node.inputs[0] if graph.tensors[node.inputs[0]].bhwc[1:3] == (1, 1) else None


def _vector(graph: Graph, node: Node, pixel: int, operation: Convolution) -> Node:
    """The convolution of a single pixel."""
    output = max(graph.tensors) + 1
    shape = (graph.tensors[pixel].bhwc[0], 1, 1, operation.weights.shape[0])
    graph.tensors[output] = replace(graph.tensors[node.outputs[0]], shape=shape)
    return Node(node.name, operation, (pixel,), (output,), (), node.indices)
