"""Passes that let tensors lie inside others: concatenations and reshapes cost nothing if producers write in place."""

from __future__ import annotations

from itertools import accumulate

from ...kernels.ops.movement.concat import Concatenation
from ...kernels.ops.movement.reshape import Reshape
from ...kernels.ops.pointwise.elementwise import Elementwise
from ...kernels.tensor import bhwc_axis, slices
from .graph import Alias, Graph, Node


def join_concatenations(graph: Graph) -> None:
    """Drop concatenations whose inputs can be written into the result: along channels if each starts at a slice, along
    another axis if each is one range of memory. An input that has a place elsewhere is copied, if another one is
    written in place: as many steps as a concatenation has, or fewer, for less memory.
    """
    for node in graph.forwards():
        if not isinstance(node.operation, Concatenation) or node.epilogue:
            continue
        parts = _parts(graph, node, bhwc_axis(node.operation.axis, node.operation.rank))
        movable = {tensor for tensor, _ in parts if _is_movable(graph, tensor)}
        is_inner = any(isinstance(reader.operation, Concatenation) for reader in graph.readers(node.outputs[0]))
        if not movable or not graph.has_own_memory(node.outputs[0]) or (is_inner and len(movable) < len(parts)):
            graph.keep(node, "its inputs cannot lie in its output")
            continue
        for tensor, alias in parts:
            graph.place_inside(tensor if tensor in movable else _copied(graph, tensor, node), alias)
            movable.discard(tensor)  # a second place of it is a copy
        graph.remove(node, "its inputs are written in place")


def _copied(graph: Graph, tensor: int, node: Node) -> int:
    """A copy of a tensor that a node reads."""
    made = graph.new_tensor(tensor, graph.tensors[tensor].shape)
    copy = Node(node.name, Elementwise(), (tensor,), (made,), indices=node.indices, integers=node.integers)
    graph.insert_before(node, copy)
    return made


def share_reshaped(graph: Graph) -> None:
    """Drop reshapes that keep the order of slices: their input is written directly to the place of their output. If it
    has a place already, the output is read there.
    """
    for node in graph.backwards():
        if not isinstance(node.operation, Reshape) or node.epilogue:
            continue
        source, destination = node.inputs[0], node.outputs[0]
        before, after = slices(graph.tensors[source].bhwc[3]), slices(graph.tensors[destination].bhwc[3])
        if not _keeps_slices(graph, source, destination):
            continue
        place = graph.aliases.get(destination) or Alias(destination, 0, after)
        own = graph.aliases.get(source) or Alias(source, 0, before)
        is_free = destination in graph.aliases or graph.has_own_memory(destination)
        if is_free and place.pixel_stride == after and _is_movable(graph, source):
            graph.place_inside(source, Alias(place.parent, place.start, before))
            graph.remove(node, "its input lies like its output")
        elif own.pixel_stride == before and _may_share(graph, source) and _is_movable(graph, destination):
            graph.place_inside(destination, Alias(own.parent, own.start, after))
            graph.remove(node, "its output lies like its input")


def _keeps_slices(graph: Graph, source: int, destination: int) -> bool:
    before, after = graph.tensors[source].bhwc[3], graph.tensors[destination].bhwc[3]
    return before == after or (before % 4 == 0 and after % 4 == 0)


def _may_share(graph: Graph, tensor: int) -> bool:
    """Whether others may lie inside a tensor, or beside it inside another one."""
    return graph.producer(tensor) is not None and tensor not in graph.outputs


def _parts(graph: Graph, node: Node, axis: int) -> list[tuple[int, Alias]]:
    """The places of the inputs inside the output, in order; empty if they cannot be written there."""
    parent = node.outputs[0]
    shapes = [graph.tensors[i].bhwc for i in node.inputs]
    if axis == 3:
        if any(shape[3] % 4 for shape in shapes[:-1]):
            return []
        starts, stride = [slices(shape[3]) for shape in shapes], slices(graph.tensors[parent].bhwc[3])
    else:
        if any(size > 1 for size in shapes[0][:axis]):
            return []
        starts = [shape[0] * shape[1] * shape[2] * slices(shape[3]) for shape in shapes]
        stride = slices(shapes[0][3])
    places = accumulate(starts[:-1], initial=0)
    return [(i, Alias(parent, start, stride)) for i, start in zip(node.inputs, places, strict=True)]


def _is_movable(graph: Graph, tensor: int) -> bool:
    """Whether a node computes the tensor, so that it can be written anywhere, and it has no fixed place yet."""
    computed = graph.producer(tensor) is not None
    return computed and tensor not in graph.outputs and graph.has_own_memory(tensor)
