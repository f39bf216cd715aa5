"""The pass for resized single pixels: concatenated with an image and convolved, they add a constant vector to each
pixel.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise

from ...kernels.operation import FusedOp
from ...kernels.ops.convolution.conv import Convolution
from ...kernels.ops.movement.concat import Concatenation
from ...kernels.ops.movement.resize import ResizeImage
from ...kernels.tensor import bhwc_axis
from .graph import Graph, Node
from .patterns import pointwise_convolution


def add_spread_vectors(graph: Graph) -> None:
    """Convolve resized single pixels separately, if a 1x1 convolution reads them concatenated with one tensor, and add
    the results to its output.
    """
    for node in graph.forwards():
        convolution, joined = pointwise_convolution(node), graph.producer(node.inputs[0])
        if convolution is None or joined is None or not _is_concatenation(graph, joined, node):
            continue
        pixels = [_single_pixel(graph, tensor) for tensor in joined.inputs]
        if pixels.count(None) != 1 or len(pixels) == 1:
            continue
        ends = accumulate((graph.tensors[i].bhwc[3] for i in joined.inputs), initial=0)
        weights = [convolution.weights[..., start:end] for start, end in pairwise(ends)]
        vectors = [
            _vector(graph, node, pixel, replace(convolution, weights=share, bias=None))
            for pixel, share in zip(pixels, weights, strict=True)
            if pixel is not None
        ]
        image = pixels.index(None)
        added = tuple(FusedOp("ADD", vector.outputs[0]) for vector in vectors)
        graph.substitute(
            {joined, node}, *vectors, node, operation=replace(convolution, weights=weights[image]),
            inputs=(joined.inputs[image],), epilogue=added + node.epilogue,
        )  # fmt: skip
        for tensor in set(joined.inputs):
            _remove_if_unread(graph, tensor)


def _is_concatenation(graph: Graph, joined: Node, reader: Node) -> bool:
    """Whether the node concatenates channels for ``reader`` alone."""
    operation = joined.operation
    if not isinstance(operation, Concatenation) or joined.epilogue:
        return False
    return bhwc_axis(operation.axis, operation.rank) == 3 and graph.sole_reader(joined.outputs[0]) is reader


def _single_pixel(graph: Graph, tensor: int) -> int | None:
    """The single pixel from which the tensor is resized; None if it is no such tensor."""
    node = graph.producer(tensor)
    if node is None or not isinstance(node.operation, ResizeImage) or node.epilogue:
        return None
    return node.inputs[0] if graph.tensors[node.inputs[0]].bhwc[1:3] == (1, 1) else None


def _vector(graph: Graph, node: Node, pixel: int, operation: Convolution) -> Node:
    """The convolution of a single pixel."""
    shape = (graph.tensors[pixel].bhwc[0], 1, 1, operation.weights.shape[0])
    output = graph.new_tensor(node.outputs[0], shape)
    return Node(node.name, operation, (pixel,), (output,), (), node.indices)


def _remove_if_unread(graph: Graph, tensor: int) -> None:
    resize = graph.producer(tensor)
    if resize is None or not isinstance(resize.operation, ResizeImage):
        return
    if tensor not in graph.outputs and not graph.readers(tensor):
        graph.remove(resize, "its pixel is added as a vector")
