"""Transformations of a partition's graph, in the order of PASSES.

A pass is a function that changes the graph and appends one sentence a change, or a change declined, to
``graph.changes``. None changes what the graph computes, beyond the rounding of a different order of operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..kernels.conv import Convolution
from ..kernels.depthwise import Depthwise
from ..kernels.elementwise import Elementwise
from ..kernels.layout import Resize
from ..kernels.move import Concatenation, Reshape
from ..kernels.operator import Link
from ..kernels.pad import Pad
from ..kernels.quantize import Dequantize
from ..kernels.rank import ExpandDimensions, Squeeze
from ..kernels.window import VALID
from .graph import Graph, Node, redirect
from .instance_norm import fuse_instance_norm
from .join import join_concatenations, share_reshaped
from .pooled import read_pools
from .ranks import align_ranks
from .rounding import merge_rounding
from .separable import fuse_separable
from .siblings import merge_siblings
from .spread import add_spread_vectors
from .squeeze_excite import fuse_squeeze_excite, read_through_links

_MOST_OUTSIDE = 4
"""How many of the graph's inputs a node may read after links were added: each is a buffer, and a kernel has few."""


def transform(graph: Graph) -> Graph:
    """Run every pass once, in order. Changes the graph given and returns it."""
    for apply in PASSES:
        apply(graph)
    return graph


def remove_unused(graph: Graph) -> None:
    """Drop nodes whose outputs nobody reads, and nodes that only compute constants which their readers already hold.

    One that keeps a state stays: what it computes is read in the next frame.
    """
    needed = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        stateful = any(graph.tensors[i].variable for i in node.inputs)
        if needed.isdisjoint(node.outputs) and not stateful:
            continue
        kept.append(node)
        needed.update(i for i in node.operands if graph.tensors[i].constant is None)
    dropped = len(graph.nodes) - len(kept)
    graph.nodes = kept[::-1]
    if dropped:
        graph.changes.append(f"dropped {dropped} nodes that nothing reads at run time")


def remove_identities(graph: Graph) -> None:
    """Drop resizes, reshapes, pads, concatenations and dequantizations that change neither shape nor values; their
    readers read the input.
    """
    for node in graph.nodes[::-1]:  # the last first: a removal makes new nodes of its readers, which come later
        source, target = node.inputs[0], node.outputs[0]
        same = graph.tensors[source].bhwc == graph.tensors[target].bhwc
        moves_only = isinstance(node.attributes, Resize | Reshape | Squeeze | ExpandDimensions | Pad | Elementwise) or (
            isinstance(node.attributes, Concatenation) and len(node.inputs) == 1
        )
        if not (same and moves_only) or node.links:
            continue
        if target not in graph.outputs:
            graph.nodes.remove(node)
            redirect(graph, target, source)
        elif not _write_directly(graph, node):
            continue
        graph.changes.append(f"removed {node.operator.name} {list(node.indices)}: it changes nothing")


def _write_directly(graph: Graph, identity: Node) -> bool:
    """Let the node that computes what ``identity`` shows as an output of the graph write that output; whether so."""
    source, target = identity.inputs[0], identity.outputs[0]
    number = next((i for i, node in enumerate(graph.nodes) if source in node.outputs), None)
    if number is None or source in graph.outputs:
        return False
    outputs = tuple(target if i == source else i for i in graph.nodes[number].outputs)
    graph.nodes[number] = replace(graph.nodes[number], outputs=outputs)
    graph.nodes.remove(identity)
    redirect(graph, source, target)
    return True


def read_padding_as_zeros(graph: Graph) -> None:
    """Drop pads of channels that are only added to another tensor: a link reads zeros after an operand's last slice."""
    for node in list(graph.nodes):
        if not isinstance(node.attributes, Pad) or node.links or node.outputs[0] in graph.outputs:
            continue
        pad, padded, source = node.attributes, node.outputs[0], node.inputs[0]
        behind = pad.amounts[-1][0] == 0 and not any(sum(pair) for pair in pad.amounts[:-1])
        readers = graph.consumers(padded)
        if not behind or pad.mode != "constant" or pad.value != 0 or graph.tensors[source].bhwc[3] == 1:
            continue
        if len(readers) != 1 or not isinstance(readers[0].attributes, Elementwise) or not readers[0].links:
            continue
        reader, link = readers[0], readers[0].links[0]
        others = [i for i in (reader.inputs[0], link.operand) if i != padded]
        if link.expression != "ADD" or len(others) != 1 or reader.operands.count(padded) > 1:
            continue
        (other,) = others
        if other is None or graph.tensors[other].bhwc != graph.tensors[padded].bhwc:
            continue
        links = (replace(link, operand=source), *reader.links[1:])
        added = replace(reader, inputs=(other,), links=links, indices=node.indices + reader.indices)
        graph.nodes = [added if n is reader else n for n in graph.nodes if n is not node]
        graph.changes.append(f"removed {node.operator.name} {list(node.indices)}: its reader adds its input")


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
    if (pad.mode == "reflect" and window.padding != VALID) or window.extra != (0, 0, 0, 0):
        return "the convolution pads by itself"
    mode = "zero" if pad.mode == "constant" else "reflect"
    extra = (*pad.amounts[1], *pad.amounts[2])
    return replace(attributes, window=replace(window, extra=extra, mode=mode))


def fuse_links(graph: Graph) -> None:
    """Append elementwise nodes to the node that computes their value, so that it is written once, already done."""
    nodes = dict(enumerate(graph.nodes))
    made = {output: number for number, node in nodes.items() for output in node.outputs}
    readers: dict[int, set[int]] = {}
    for number, node in nodes.items():
        for tensor in node.operands:
            readers.setdefault(tensor, set()).add(number)
    for number, node in list(nodes.items()):
        if not isinstance(node.attributes, Elementwise):
            continue
        for value, links in _orders(graph, node, made):
            before = made.get(value)
            if before is None or readers[value] != {number} or not _may_absorb(graph, nodes[before], node, value):
                continue
            producer = nodes.pop(before)
            nodes[number] = replace(
                producer, outputs=node.outputs, links=producer.links + links, indices=producer.indices + node.indices
            )
            for tensor in producer.operands:
                readers[tensor] = readers[tensor] - {before} | {number}
            names = ", ".join(link.expression for link in node.links)
            graph.changes.append(
                f"linked {names} {list(node.indices)} to {producer.operator.name} {list(producer.indices)}"
            )
            break
    graph.nodes = list(nodes.values())


def _orders(graph: Graph, node: Node, made: Mapping[int, int]) -> list[tuple[int, tuple[Link, ...]]]:
    """The ways to see an elementwise node: which operand is the value, and the links then. The later computed value
    first: ``made`` has the number of the node that computes a tensor.
    """
    ways = [(node.inputs[0], node.links)]
    if not node.links:
        return ways
    first = node.links[0]
    if first.operand is not None and graph.tensors[first.operand].constant is None:
        turned = replace(first, operand=node.inputs[0], swapped=not first.swapped)
        ways.append((first.operand, (turned, *node.links[1:])))
    return sorted(ways, key=lambda way: made.get(way[0], -1), reverse=True)


def _may_absorb(graph: Graph, producer: Node, node: Node, value: int) -> bool:
    alone = node.operands.count(value) == 1 and value not in graph.outputs
    same = graph.tensors[value].bhwc == graph.tensors[node.outputs[0]].bhwc
    if len({*producer.operands, *node.operands} & set(graph.inputs)) > _MOST_OUTSIDE:
        return False
    return alone and same and len(producer.outputs) == 1 and not isinstance(producer.attributes, Dequantize)


PASSES: tuple[Callable[[Graph], None], ...] = (
    align_ranks,
    remove_unused,
    remove_identities,
    merge_rounding,
    read_padding_as_zeros,
    merge_padding,
    fuse_instance_norm,
    fuse_links,
    add_spread_vectors,
    read_through_links,
    fuse_squeeze_excite,
    join_concatenations,
    share_reshaped,
    merge_siblings,
    fuse_separable,
    read_pools,
)
