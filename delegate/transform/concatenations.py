"""Tensors inside others: concatenations and reshapes that cost nothing, as producers write where the result lies."""

from __future__ import annotations

from itertools import accumulate

from ...kernels.ops.movement.concat import Concatenation
from ...kernels.ops.movement.reshape import Reshape
from ...kernels.tensor import bhwc_axis, slices
from .graph import Alias, Graph, Node


def join_concatenations(graph: Graph) -> None:
    """Drop concatenations whose inputs can all be written into the result: along channels where each starts at a slice,
    along another axis where each is one range of memory.
    """
    for node in list(graph.nodes):
        if not isinstance(node.operation, Concatenation) or node.epilogue or len(set(node.inputs)) < len(node.inputs):
            continue
        parts = _joined(graph, node, bhwc_axis(node.operation.axis, node.operation.rank))
        if not parts or not _free(graph, node.outputs[0]) or not all(_movable(graph, i) for i in parts):
            graph.changes.append(f"kept {node.name} {list(node.indices)}: its inputs cannot lie in its output")
            continue
        graph.aliases |= parts
        graph.nodes.remove(node)
        graph.changes.append(f"joined {node.name} {list(node.indices)}: its inputs are written in place")


def share_reshaped(graph: Graph) -> None:
    """Drop reshapes that keep the order of slices: what they read is written where their result lies."""
    for node in graph.nodes[::-1]:
        if not isinstance(node.operation, Reshape) or node.epilogue:
            continue
        source, destination = node.inputs[0], node.outputs[0]
        before, after = graph.tensors[source].bhwc[3], graph.tensors[destination].bhwc[3]
        parent = graph.aliases.get(destination, Alias(destination, 0, slices(after)))
        in_order = before == after or (before % 4 == 0 and after % 4 == 0)
        contiguous = parent.pixel_stride == slices(after)
        if not in_order or not contiguous or not _movable(graph, source):
            continue
        if destination not in graph.aliases and not _free(graph, destination):
            continue
        graph.aliases[source] = Alias(parent.parent, parent.start, slices(before))
        graph.nodes.remove(node)
        graph.changes.append(f"removed {node.name} {list(node.indices)}: its input lies like its output")


def _joined(graph: Graph, node: Node, axis: int) -> dict[int, Alias]:
    """The inputs as parts of the output; empty where they are none."""
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


def _movable(graph: Graph, tensor: int) -> bool:
    """Whether a node computes the tensor, so that it can be written anywhere, and nothing decided yet where."""
    computed = any(tensor in node.outputs for node in graph.nodes)
    return computed and tensor not in graph.outputs and _free(graph, tensor)


def _free(graph: Graph, tensor: int) -> bool:
    return tensor not in graph.aliases and all(part.parent != tensor for part in graph.aliases.values())
