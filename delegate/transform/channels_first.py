"""Pass that removes the TRANSPOSEs of inputs and outputs with channels first (NCHW), as PyTorch's models have them.

Such a model moves the channels of its picture to the end, computes there, and moves those of the result back. Without
these copies kernels read and write the bound memory itself: by the strides of channels first, or, if a picture is
bound, as they do those of a model with channels last. The tensors with channels last become inputs and outputs of the
graph; ``Graph.channels_last`` says in whose place they are.
"""

from __future__ import annotations

from ...kernels.ops.movement.transpose import Transpose
from ...kernels.tensor import TO_CHANNELS_FIRST, TO_CHANNELS_LAST, Permutation, TensorInfo
from .graph import Graph, Node

MOST_CHANNELS = 4
"""The largest number of channels of a picture. With more, a copy to slices of four costs less than reading lanes."""


def remove_boundary_transposes(graph: Graph) -> None:
    """Read inputs that all their readers transpose, and write outputs that are transposed last, with channels last."""
    both = set(graph.inputs) & set(graph.outputs)  # values of variables, whose memory kernels read and write
    graph.inputs = tuple(i if i in both else _input(graph, i) for i in graph.inputs)
    graph.outputs = tuple(i if i in both else _output(graph, i) for i in graph.outputs)


def _input(graph: Graph, tensor: int) -> int:
    """The input with channels last; the tensor itself if it has none."""
    readers = graph.readers(tensor)
    results = [node.outputs[0] for node in readers if _is_transpose(node, TO_CHANNELS_LAST)]
    if not _is_picture(graph.tensors[tensor], 1) or not readers or len(results) < len(readers):
        return tensor
    if set(results) & set(graph.outputs):
        return tensor
    for node in readers:
        graph.remove(node, "its readers read the input with channels last")
        if node.outputs[0] != results[0]:
            graph.redirect(node.outputs[0], results[0])
    graph.channels_last[results[0]] = tensor
    return results[0]


def _output(graph: Graph, tensor: int) -> int:
    """The output with channels last; the tensor itself if it has none."""
    writer = graph.producer(tensor)
    if writer is None or not _is_transpose(writer, TO_CHANNELS_FIRST) or graph.readers(tensor):
        return tensor
    source = writer.inputs[0]
    alone = graph.producer(source) is not None and graph.sole_reader(source) is writer
    if not alone or not all(map(_is_picture, (graph.tensors[source], graph.tensors[tensor]), (3, 1))):
        return tensor
    graph.remove(writer, "the node before it writes the output with channels last")
    graph.channels_last[source] = tensor
    return source


def _is_transpose(node: Node, permutation: Permutation) -> bool:
    fused = node.epilogue or node.input_ops
    return isinstance(node.operation, Transpose) and node.operation.permutation == permutation and not fused


def _is_picture(tensor: TensorInfo, axis: int) -> bool:
    """Whether a tensor holds floats in memory, as a picture whose dimension ``axis`` is the channels."""
    floats = tensor.dtype == "float32" and not tensor.stored_dtype and not tensor.variable
    return floats and len(tensor.shape) == 4 and 1 <= tensor.shape[axis] <= MOST_CHANNELS
