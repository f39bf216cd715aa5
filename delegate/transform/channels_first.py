"""Pass that removes the TRANSPOSEs of inputs and outputs with channels first (NCHW), as PyTorch's models have them.

Such a model moves the channels of its picture to the end, computes there, and moves those of the result back. Without
these copies kernels read and write the bound memory itself: by the strides of channels first, or, if a picture is
bound, as they do those of a model with channels last. The tensors with channels last become inputs and outputs of the
graph; ``Graph.channels_last`` says in whose place they are. A state that is fed back has channels last in its own
memory, if that is so for its input and its output: any number of channels is read and written as it is then.
An output that is a function of a transposed value, and of others, is computed with channels last.
"""

from __future__ import annotations

from dataclasses import replace

from ...kernels.ops.movement.transpose import Transpose
from ...kernels.ops.pointwise.elementwise import Elementwise
from ...kernels.tensor import TO_CHANNELS_FIRST, TO_CHANNELS_LAST, Permutation, TensorInfo
from .cleanup import remove_unread
from .graph import Graph, Node

MOST_CHANNELS = 4
"""The largest number of channels of a picture. With more, a copy to slices of four costs less than reading lanes."""

MOST_FUNCTIONS = 8
"""The most functions between an output and a value that is transposed."""


def remove_boundary_transposes(graph: Graph) -> None:
    """Read inputs that all their readers transpose, and write outputs that are transposed last, with channels last."""
    both = set(graph.inputs) & set(graph.outputs)  # values of variables, whose memory kernels read and write
    for output, given in graph.states:
        if not {output, given} & both:
            _turn_state(graph, output, given)
    graph.inputs = tuple(i if i in both or i in graph.channels_last else _input(graph, i) for i in graph.inputs)
    for output in graph.outputs:
        if output not in both and output not in graph.channels_last:
            turned = _output(graph, output)
            graph.outputs = tuple(turned if i == output else i for i in graph.outputs)  # so that it is not unread


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
    last = graph.producer(tensor)
    if last is not None and not graph.readers(tensor) and _is_picture(graph.tensors[tensor], 1):
        _turn_functions(graph, last)
    writer = _transposing_writer(graph, tensor)
    if writer is None or graph.sole_reader(writer.inputs[0]) is not writer:
        return tensor
    is_picture = all(map(_is_picture, (graph.tensors[writer.inputs[0]], graph.tensors[tensor]), (3, 1)))
    return _write_last(graph, tensor, writer) if is_picture else tensor


def _turn_functions(graph: Graph, node: Node, left: int = MOST_FUNCTIONS) -> None:
    """Compute a function of a transposed value, such as the sum with a resized picture, with channels last. Its other
    operands are transposed, which the copies before them, such as those of a pixel shuffle, do as well.
    """
    shape, computed = graph.tensors[node.outputs[0]].shape, _computed_operands(graph, node)
    if not left or any(graph.tensors[operand].shape != shape for operand in computed):
        return
    for operand in computed:
        before = graph.producer(operand)
        if before is not None and graph.sole_reader(operand) is node:
            _turn_functions(graph, before, left - 1)
    turned = {operand: _before_turning(graph, operand) for operand in computed}
    if all(source is None for source in turned.values()):
        return
    last = (shape[0], *shape[2:], shape[1])
    for operand, source in turned.items():
        if source is None:
            turned[operand] = made = graph.new_tensor(operand, last)
            graph.insert_before(node, Node("TRANSPOSE", Transpose(TO_CHANNELS_LAST), (operand,), (made,)))
    result = graph.new_tensor(node.outputs[0], last)

    def in_place(tensor: int) -> int:
        found = turned.get(tensor)
        return tensor if found is None else found

    inputs = tuple(map(in_place, node.inputs))
    epilogue = tuple(op if op.operand is None else replace(op, operand=in_place(op.operand)) for op in node.epilogue)
    graph.insert_before(node, replace(node, inputs=inputs, epilogue=epilogue, outputs=(result,)))
    graph.update(node, name="TRANSPOSE", operation=Transpose(TO_CHANNELS_FIRST), inputs=(result,), epilogue=())
    remove_unread(graph)


def _computed_operands(graph: Graph, node: Node) -> list[int]:
    """The computed operands of a function of values and of numbers; none for another node."""
    constants = [graph.tensors[operand].constant for operand in node.operands]
    numbers = all(values is None or values.size == 1 for values in constants)
    fits = isinstance(node.operation, Elementwise) and bool(node.epilogue) and not (node.input_ops or node.integers)
    return [i for i, values in zip(node.operands, constants, strict=True) if values is None] if fits and numbers else []


def _before_turning(graph: Graph, tensor: int) -> int | None:
    """The tensor whose channels were moved to the front; None if this was not done."""
    node = graph.producer(tensor)
    return node.inputs[0] if node is not None and _is_transpose(node, TO_CHANNELS_FIRST) else None


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
