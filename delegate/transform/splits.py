"""Passes that let parts of a tensor's channels lie inside it, so that cutting it costs nothing."""

from __future__ import annotations

from itertools import accumulate, groupby
from typing import NamedTuple

from ...kernels.ops.movement.concat import Concatenation
from ...kernels.ops.movement.slice import Slice, Split
from ...kernels.tensor import bhwc_axis, slices
from .graph import Alias, Graph, Node


class _Part(NamedTuple):
    """The channels from ``start`` up to ``end`` of a tensor."""

    source: int
    start: int
    end: int


def concatenate_whole_tensors(graph: Graph) -> None:
    """Read a tensor itself where a concatenation joins all parts of it again, one behind the other."""
    for node in graph.forwards():
        operation = node.operation
        if not isinstance(operation, Concatenation) or bhwc_axis(operation.axis, operation.rank) != 3:
            continue
        parts = [(tensor, _part(graph, tensor)) for tensor in node.inputs]
        inputs = list[int]()
        for source, run in groupby(parts, lambda each: None if each[1] is None else each[1].source):
            members = list(run)
            ranges = [part for _, part in members if part is not None]
            if source is not None and _is_whole(graph, source, ranges) and _is_free(graph, source):
                inputs.append(source)
            else:
                inputs += [tensor for tensor, _ in members]
        if len(inputs) < len(node.inputs):
            graph.update(node, inputs=tuple(inputs))


def share_split(graph: Graph) -> None:
    """Drop SPLIT and SLICE along channels if each part begins at a slice: who reads a part reads the tensor there."""
    for node in graph.forwards():
        if not isinstance(node.operation, Split | Slice) or node.epilogue or node.input_ops:
            continue
        source = node.inputs[0]
        read = [i for i in node.outputs if graph.readers(i) or i in graph.outputs or not graph.has_own_memory(i)]
        parts = {tensor: part for tensor in read if (part := _part(graph, tensor)) is not None}
        outer = graph.aliases.get(source) or Alias(source, 0, slices(graph.tensors[source].bhwc[3]))
        free = graph.producer(source) is not None and source not in graph.outputs
        if not free or len(parts) < len(read) or not all(_fits(graph, tensor, part) for tensor, part in parts.items()):
            continue
        for tensor, part in parts.items():
            graph.place_inside(tensor, Alias(outer.parent, outer.start + part.start // 4, outer.pixel_stride))
        graph.remove(node, "its parts are read where they are")


def _part(graph: Graph, tensor: int) -> _Part | None:
    """The channels of another tensor that this one is a copy of, if it is one."""
    node = graph.producer(tensor)
    if node is None or node.epilogue or node.input_ops:
        return None
    if isinstance(node.operation, Split):
        return _of_split(node, node.operation, node.outputs.index(tensor))
    return _of_slice(graph, node, node.operation) if isinstance(node.operation, Slice) else None


def _of_split(node: Node, split: Split, number: int) -> _Part | None:
    if split.drop or bhwc_axis(split.axis, split.rank) != 3:
        return None
    ends = list(accumulate(split.sizes))
    return _Part(node.inputs[0], ends[number] - split.sizes[number], ends[number])


def _of_slice(graph: Graph, node: Node, operation: Slice) -> _Part | None:
    shape = graph.tensors[node.inputs[0]].shape
    rank = len(shape)
    if operation.new or rank != len(operation.cuts) or bhwc_axis(rank - 1, rank) != 3:
        return None
    if any(cut.drop or cut.step != 1 or cut.computed is not None for cut in operation.cuts):
        return None
    *others, (start, count) = (cut.indices(size) for cut, size in zip(operation.cuts, shape, strict=True))
    if any(taken != (0, size) for taken, size in zip(others, shape, strict=False)):
        return None
    return _Part(node.inputs[0], start, start + count)


def _is_whole(graph: Graph, source: int, parts: list[_Part]) -> bool:
    ends = [0, *(part.end for part in parts)]
    adjacent = all(part.start == end for part, end in zip(parts, ends, strict=False))
    return adjacent and ends[-1] == graph.tensors[source].bhwc[3]


def _is_free(graph: Graph, source: int) -> bool:
    return graph.producer(source) is not None and source not in graph.outputs and graph.has_own_memory(source)


def _fits(graph: Graph, tensor: int, part: _Part) -> bool:
    """Whether the part can be read in place: it is whole slices, whose other channels are zeros."""
    whole = part.start % 4 == 0 and (part.end % 4 == 0 or part.end == graph.tensors[part.source].bhwc[3])
    return whole and tensor not in graph.outputs and graph.has_own_memory(tensor)
