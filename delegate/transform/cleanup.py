"""Passes that drop nodes which nothing reads, and nodes that change nothing."""

from __future__ import annotations

from dataclasses import replace

from .graph import Graph, Node, redirect


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
        source, destination = node.inputs[0], node.outputs[0]
        same = graph.tensors[source].bhwc == graph.tensors[destination].bhwc
        if not (same and node.operation.may_be_identity) or node.epilogue:
            continue
        if destination not in graph.outputs:
            graph.nodes.remove(node)
            redirect(graph, destination, source)
        elif not _write_directly(graph, node):
            continue
        graph.changes.append(f"removed {node.name} {list(node.indices)}: it changes nothing")


def _write_directly(graph: Graph, identity: Node) -> bool:
    """Let the node that computes what ``identity`` shows as an output of the graph write that output; whether so."""
    source, destination = identity.inputs[0], identity.outputs[0]
    number = next((i for i, node in enumerate(graph.nodes) if source in node.outputs), None)
    if number is None or source in graph.outputs:
        return False
    outputs = tuple(destination if i == source else i for i in graph.nodes[number].outputs)
    graph.nodes[number] = replace(graph.nodes[number], outputs=outputs)
    graph.nodes.remove(identity)
    redirect(graph, source, destination)
    return True
