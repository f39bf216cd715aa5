"""Pass that removes the TRANSPOSEs of inputs and outputs with channels first (NCHW), as PyTorch's models have them.

Such a model moves the channels of its picture to the end, computes there, and moves those of the result back. Without
these copies kernels read and write the bound memory itself: by the strides of channels first, or, if a picture is
bound, as they do those of a model with channels last. The tensors with channels last become inputs and outputs of the
graph; ``Graph.channels_last`` says in whose place they are. A state that is fed back has channels last in its own
memory, if that is so for its input and its output: any number of channels is read and written as it is then.
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
    for output, given in graph.states:
        if not {output, given} & both:
            _turn_state(graph, output, given)
    graph.inputs = tuple(i if i in both or i in graph.channels_last else _input(graph, i) for i in graph.inputs)
    graph.outputs = tuple(i if i in both or i in graph.channels_last else _output(graph, i) for i in graph.outputs)


def _turn_state(graph: Graph, output: int, given: int) -> None:
    """Give a state channels last in memory, if all its readers and its writer transpose it."""
    readers, writer = _transposing_readers(graph, given), _transposing_writer(graph, output)
    if readers and writer is not None and all(map(_is_in_floats, (graph.tensors[output], graph.tensors[given]))):
        pairs = {given: _read_last(graph, given, readers), output: _write_last(graph, output, writer)}
        graph.inputs, graph.outputs = (tuple(pairs.get(i, i) for i in side) for side in (graph.inputs, graph.outputs))


def _input(graph: Graph, tensor: int) -> int:
    """The input with channels last; the tensor itself if it has none."""
    readers = _transposing_readers(graph, tensor)
    return _read_last(graph, tensor, readers) if readers and _is_picture(graph.tensors[tensor], 1) else tensor


def _transposing_readers(graph: Graph, tensor: int) -> list[Node]:
    """The readers of an input if all of them move its channels to the end; else none."""
    readers = graph.readers(tensor)
    turned = all(_is_transpose(node, TO_CHANNELS_LAST) and node.outputs[0] not in graph.outputs for node in readers)
    return readers if turned else []


def _read_last(graph: Graph, tensor: int, readers: list[Node]) -> int:
    """Remove the transposing readers of an input. Returns the tensor in its place, which has channels last."""
    result = readers[0].outputs[0]
    for node in readers:
        graph.remove(node, "its readers read the input with channels last")
        if node.outputs[0] != result:
            graph.redirect(node.outputs[0], result)
    graph.channels_last[result] = tensor
    return result


def _output(graph: Graph, tensor: int) -> int:
    """The output with channels last; the tensor itself if it has none."""
    writer = _transposing_writer(graph, tensor)
    if writer is None or graph.sole_reader(writer.inputs[0]) is not writer:
        return tensor
    is_picture = all(map(_is_picture, (graph.tensors[writer.inputs[0]], graph.tensors[tensor]), (3, 1)))
    return _write_last(graph, tensor, writer) if is_picture else tensor


def _transposing_writer(graph: Graph, tensor: int) -> Node | None:
    """The writer of an output if it only moves the channels of a computed tensor, and nothing else reads the result."""
    writer = graph.producer(tensor)
    if writer is None or not _is_transpose(writer, TO_CHANNELS_FIRST) or graph.readers(tensor):
        return None
    source = writer.inputs[0]
    return writer if graph.producer(source) is not None and source not in graph.outputs else None


def _write_last(graph: Graph, tensor: int, writer: Node) -> int:
    """Remove the transposing writer of an output. Returns the tensor in its place, which has channels last."""
    source = writer.inputs[0]
    graph.remove(writer, "the node before it writes the output with channels last")
    graph.channels_last[source] = tensor
    return source


def _is_transpose(node: Node, permutation: Permutation) -> bool:
    fused = node.epilogue or node.input_ops
    return isinstance(node.operation, Transpose) and node.operation.permutation == permutation and not fused


def _is_picture(tensor: TensorInfo, axis: int) -> bool:
    """Whether a tensor holds floats in memory, as a picture whose dimension ``axis`` is the channels."""
    return _is_in_floats(tensor) and len(tensor.shape) == 4 and 1 <= tensor.shape[axis] <= MOST_CHANNELS


def _is_in_floats(tensor: TensorInfo) -> bool:
    return tensor.dtype == "float32" and not tensor.stored_dtype and not tensor.variable
