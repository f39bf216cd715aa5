"""Passes that let tensors lie inside others: concatenations and reshapes cost nothing if producers write in place."""

from __future__ import annotations

from itertools import accumulate

from ...kernels.ops.movement.concat import Concatenation
from ...kernels.ops.movement.reshape import Reshape
from ...kernels.tensor import bhwc_axis, slices
from .graph import Alias, Graph, Node


def join_concatenations(graph: Graph) -> None:
    """Drop concatenations whose inputs can all be written into the result: along channels if each starts at a slice,
    along another axis if each is one range of memory.
    """
    for node in graph.forwards():
        if not isinstance(node.operation, Concatenation) or node.epilogue or len(set(node.inputs)) < len(node.inputs):
            continue
        parts = _parts(graph, node, bhwc_axis(node.operation.axis, node.operation.rank))
        if not parts or not graph.has_own_memory(node.outputs[0]) or not all(_is_movable(graph, i) for i in parts):
            graph.keep(node, "its inputs cannot lie in its output")
            continue
        for tensor, alias in parts.items():
            graph.place_inside(tensor, alias)
        graph.remove(node, "its inputs are written in place")


def share_reshaped(graph: Graph) -> None:
    """Drop reshapes that keep the order of slices: their input is written directly to the place of their output."""
    for node in graph.backwards():
        if not isinstance(node.operation, Reshape) or node.epilogue:
            continue
        source, destination = node.inputs[0], node.outputs[0]
        before, after = graph.tensors[source].bhwc[3], graph.tensors[destination].bhwc[3]
        outer = graph.aliases.get(destination)
        if outer is None and not graph.has_own_memory(destination):
            continue
        place = outer or Alias(destination, 0, slices(after))
        in_order = before == after or (before % 4 == 0 and after % 4 == 0)
        if in_order and place.pixel_stride == slices(after) and _is_movable(graph, source):
            graph.place_inside(source, Alias(place.parent, place.start, slices(before)))
            graph.remove(node, "its input lies like its output")


def _parts(graph: Graph, node: Node, axis: int) -> dict[int, Alias]:
    """The places of the inputs inside the output; empty if they cannot be written there."""
    parent = node.outputs[0]
    shapes = [graph.tensors[i].bhwc for i in node.inputs]
    if axis == 3:
        if any(shape[3] % 4 for shape in shapes[:-1]):
            return {}
        starts, stride = [slices(shape[3]) for shape in shapes], slices(graph.tensors[parent].bhwc[3])
    else:
        if any(size > 1 for size in shapes[0][:axis]):
            return {}
        starts = [shape[0] * shape[1] * shape[2] * slices(shape[3]) for shape in shapes]
        stride = slices(shapes[0][3])
    places = accumulate(starts[:-1], initial=0)
    return {i: Alias(parent, start, stride) for i, start in zip(node.inputs, places, strict=True)}


def _is_movable(graph: Graph, tensor: int) -> bool:
    """Whether a node computes the tensor, so that it can be written anywhere, and it has no fixed place yet."""
    computed = graph.producer(tensor) is not None
    return computed and tensor not in graph.outputs and graph.has_own_memory(tensor)
