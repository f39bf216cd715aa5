"""Transformations of a partition's graph, in the order of PASSES. Each is a function that changes the graph and says what it did.

A pass appends one sentence a change to ``graph.changes``. None changes what the graph computes, beyond the rounding of a
different order of operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..kernels.conv import Convolution
from ..kernels.depthwise import Depthwise
from ..kernels.elementwise import COMMUTATIVE, Elementwise
from ..kernels.move import Concatenation, Reshape
from ..kernels.operator import Link
from ..kernels.pad import Pad
from ..kernels.reduce import INSTANCE_NORM, InstanceNorm, Mean
from ..kernels.resize import Resize
from ..kernels.window import VALID
from .graph import Graph, Node


def transform(graph: Graph) -> Graph:
    """Run every pass once, in order. Changes the graph given and returns it."""
    for apply in PASSES:
        apply(graph)
    return graph


def remove_unused(graph: Graph) -> None:
    """Drop nodes whose outputs nobody reads, and nodes that only compute constants which their readers already hold."""
    needed = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        if needed.isdisjoint(node.outputs):
            continue
        kept.append(node)
        needed.update(i for i in node.operands if graph.tensors[i].constant is None)
    dropped = len(graph.nodes) - len(kept)
    graph.nodes = kept[::-1]
    if dropped:
        graph.changes.append(f"dropped {dropped} nodes that nothing reads at run time")


def remove_identities(graph: Graph) -> None:
    """Drop resizes, reshapes, pads and concatenations that change neither shape nor values; their readers read the input."""
    for node in list(graph.nodes):
        source, target = node.inputs[0], node.outputs[0]
        same = graph.tensors[source].bhwc == graph.tensors[target].bhwc
        moves_only = isinstance(node.attributes, Resize | Reshape | Pad) or (
            isinstance(node.attributes, Concatenation) and len(node.inputs) == 1
        )
        if not (same and moves_only) or node.links or target in graph.outputs:
            continue
        graph.nodes.remove(node)
        _redirect(graph, target, source)
        graph.changes.append(f"removed {node.operator.name} {list(node.indices)}: it changes nothing")


def merge_padding(graph: Graph) -> None:
    """Move zero and reflecting pads of height and width into the only convolution that reads them."""
    for node in list(graph.nodes):
        if not isinstance(node.attributes, Pad) or node.links or node.outputs[0] in graph.outputs:
            continue
        readers = graph.consumers(node.outputs[0])
        if len(readers) != 1 or readers[0].inputs[:1] != node.outputs:
            graph.changes.append(f"kept {node.operator.name} {list(node.indices)}: not exactly one reader")
            continue
        merged = _with_padding(readers[0], node.attributes)
        if isinstance(merged, str):
            graph.changes.append(f"kept {node.operator.name} {list(node.indices)}: {merged}")
            continue
        attributes = merged
        indices = node.indices + readers[0].indices
        graph.nodes[graph.nodes.index(readers[0])] = replace(
            readers[0], attributes=attributes, inputs=(node.inputs[0], *readers[0].inputs[1:]), indices=indices
        )
        graph.nodes.remove(node)
        graph.changes.append(f"merged {node.operator.name} into {readers[0].operator.name} {list(indices)}")


def _with_padding(reader: Node, pad: Pad) -> Convolution | Depthwise | str:
    """The reader's attributes with the padding merged, or why they cannot have it."""
    attributes = reader.attributes
    if not isinstance(attributes, Convolution | Depthwise):
        return f"{reader.operator.name} has no padding of its own"
    if len(pad.amounts) != 4 or pad.amounts[0] != (0, 0) or pad.amounts[3] != (0, 0):
        return "it pads batch or channels"
    if pad.mode == "symmetric" or pad.value != 0:
        return f"a convolution has no {pad.mode} padding with {pad.value}"
    window = attributes.window
    if pad.mode == "reflect" and window.padding != VALID or window.extra != (0, 0, 0, 0):
        return "the convolution pads by itself"
    mode = "zero" if pad.mode == "constant" else "reflect"
    extra = (*pad.amounts[1], *pad.amounts[2])
    return replace(attributes, window=replace(window, extra=extra, mode=mode))


def fuse_instance_norm(graph: Graph) -> None:
    """Find the ten operators that spell out an instance normalization and make them one node.

    mean(x), mean((x - mean)^2), rsqrt(variance + epsilon), factor = rsqrt * gamma, y = x * factor + (beta - mean * factor)
    """
    for node in list(graph.nodes):
        match = _match_instance_norm(graph, node) if isinstance(node.attributes, Mean) else None
        if match is None:
            continue
        members, norm = match
        last = graph.nodes.index(members[-1])
        graph.nodes[last] = norm
        graph.nodes = [other for other in graph.nodes if all(other is not member for member in members[:-1])]
        graph.changes.append(f"fused instance normalization {list(norm.indices)}")


def _match_instance_norm(graph: Graph, mean: Node) -> tuple[list[Node], Node] | None:
    x, m = mean.inputs[0], mean.outputs[0]
    difference = _reader(graph, "SQUARED_DIFFERENCE", {x, m})
    variance = difference and _single(graph, difference.outputs[0])
    shifted = variance and isinstance(variance.attributes, Mean) and _single(graph, variance.outputs[0])
    inverse = shifted and _single(graph, shifted.outputs[0])
    factor = inverse and _single(graph, inverse.outputs[0])
    if not (mean.attributes.axes == (1, 2) and mean.attributes.rank == 4 and mean.attributes.keep):
        return None
    if not (variance and shifted and inverse and factor) or variance.attributes != mean.attributes:
        return None
    epsilon = _other(shifted, "ADD", variance.outputs[0])
    gamma = _other(factor, "MUL", inverse.outputs[0])
    if epsilon is None or gamma is None or [link.expression for link in inverse.links] != ["RSQRT"]:
        return None
    value = graph.tensors[epsilon].constant
    scaled = _reader(graph, "MUL", {x, factor.outputs[0]})
    scaled_mean = _reader(graph, "MUL", {m, factor.outputs[0]})
    offset = scaled_mean and _single(graph, scaled_mean.outputs[0])
    result = scaled and _single(graph, scaled.outputs[0])
    if not (scaled and scaled_mean and offset and result) or value is None or value.size != 1:
        return None
    beta = _subtracted_from(offset, scaled_mean.outputs[0])
    head, tail = replace(result, links=result.links[:1]), result.links[1:]  # an activation may follow in the same node
    if beta is None or _other(head, "ADD", scaled.outputs[0]) != offset.outputs[0]:
        return None
    members = [mean, difference, variance, shifted, inverse, factor, scaled, scaled_mean, offset, result]
    inner = {i for node in members[:-1] for i in node.outputs}
    if inner & set(graph.outputs) or any(r not in members for i in inner for r in graph.consumers(i)):
        return None
    members.sort(key=graph.nodes.index)
    indices = tuple(sorted(i for node in members for i in node.indices))
    norm = Node(INSTANCE_NORM, InstanceNorm(float(value.reshape(-1)[0])), (x, gamma, beta), result.outputs, tail, indices)
    return (members, norm) if members[-1] is result else None


def _single(graph: Graph, tensor: int) -> Node | None:
    readers = graph.consumers(tensor)
    return readers[0] if len(readers) == 1 else None


def _is_elementwise(node: Node, expression: str) -> bool:
    return isinstance(node.attributes, Elementwise) and [link.expression for link in node.links] == [expression]


def _reader(graph: Graph, expression: str, operands: set[int]) -> Node | None:
    """The only node that is this expression of exactly these tensors."""
    found = [n for n in graph.nodes if _is_elementwise(n, expression) and set(n.operands) == operands]
    return found[0] if len(found) == 1 else None


def _other(node: Node, expression: str, operand: int) -> int | None:
    """The second operand of a commutative expression, given one of them."""
    if not _is_elementwise(node, expression) or operand not in node.operands or expression not in COMMUTATIVE:
        return None
    first, second = node.operands
    return second if first == operand else first


def _subtracted_from(node: Node, operand: int) -> int | None:
    """a, where the node computes a - operand."""
    if not _is_elementwise(node, "SUB"):
        return None
    value, other = node.operands
    left, right = (other, value) if node.links[0].swapped else (value, other)
    return left if right == operand else None


def fuse_links(graph: Graph) -> None:
    """Append elementwise nodes to the node that computes their value, so that it is written once, already done."""
    for node in list(graph.nodes):
        if not isinstance(node.attributes, Elementwise) or node.operator.name == "DEQUANTIZE":
            continue
        for value, links in _orders(graph, node):
            producer = next((p for p in graph.nodes if value in p.outputs), None)
            if producer is None or not _may_absorb(graph, producer, node, value):
                continue
            fused = replace(
                producer, outputs=node.outputs, links=producer.links + links, indices=producer.indices + node.indices
            )
            graph.nodes[next(i for i, n in enumerate(graph.nodes) if n is node)] = fused
            graph.nodes = [other for other in graph.nodes if other is not producer]
            names = ", ".join(link.expression for link in node.links)
            graph.changes.append(f"linked {names} {list(node.indices)} to {producer.operator.name} {list(producer.indices)}")
            break


def _orders(graph: Graph, node: Node) -> list[tuple[int, tuple[Link, ...]]]:
    """The ways to see an elementwise node: which operand is the value, and the links then. The later computed value first."""
    ways = [(node.inputs[0], node.links)]
    first = node.links[0]
    if first.operand is not None and graph.tensors[first.operand].constant is None:
        turned = replace(first, operand=node.inputs[0], swapped=not first.swapped)
        ways.append((first.operand, (turned, *node.links[1:])))
    made = {output: number for number, other in enumerate(graph.nodes) for output in other.outputs}
    return sorted(ways, key=lambda way: made.get(way[0], -1), reverse=True)


def _may_absorb(graph: Graph, producer: Node, node: Node, value: int) -> bool:
    alone = graph.consumers(value) == [node] and node.operands.count(value) == 1 and value not in graph.outputs
    same = graph.tensors[value].bhwc == graph.tensors[node.outputs[0]].bhwc
    return alone and same and len(producer.outputs) == 1 and producer.operator.name != "DEQUANTIZE"


def _redirect(graph: Graph, old: int, new: int) -> None:
    """Make every reader of tensor ``old`` read ``new``."""
    for number, node in enumerate(graph.nodes):
        if old in node.operands:
            inputs = tuple(new if i == old else i for i in node.inputs)
            links = tuple(replace(link, operand=new) if link.operand == old else link for link in node.links)
            graph.nodes[number] = replace(node, inputs=inputs, links=links)


PASSES: tuple[Callable[[Graph], None], ...] = (
    remove_unused,
    remove_identities,
    merge_padding,
    fuse_instance_norm,
    fuse_links,
)
