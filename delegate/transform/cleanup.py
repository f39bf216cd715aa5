"""Passes that drop nodes with unused outputs, and nodes that change nothing."""

from __future__ import annotations

from .graph import Graph


def remove_unused(graph: Graph) -> None:
    """Drop nodes whose outputs are not read, and nodes that only compute constants which their readers already have;
    then the tensors that no node touches.
    """
    remove_unread(graph)
    touched = {*graph.inputs, *graph.outputs}
    touched.update(*((*node.operands, *node.outputs) for node in graph.nodes))
    graph.tensors = {tensor: info for tensor, info in graph.tensors.items() if tensor in touched}


def remove_unread(graph: Graph) -> None:
    """Drop nodes whose outputs are not read. One that keeps a state stays: the state is read in the next frame."""
    for node in graph.backwards():
        if any(_is_needed(graph, tensor) for tensor in node.outputs):
            continue
        if not any(graph.tensors[tensor].variable for tensor in node.inputs):
            graph.remove(node, "nothing reads it at run time")


def _is_needed(graph: Graph, tensor: int) -> bool:
    return tensor in graph.outputs or (graph.tensors[tensor].constant is None and graph.is_read(tensor))


def remove_identities(graph: Graph) -> None:
    """Drop resizes, reshapes, pads, concatenations and dequantizations that change neither shape nor values.

    Their readers read the input; if they write an output of the graph, the node before them does so.
    """
    for node in graph.backwards():
        source, destination = node.inputs[0], node.outputs[0]
        same = graph.tensors[source].bhwc == graph.tensors[destination].bhwc
        if not same or not node.operation.may_be_identity or node.epilogue:
            continue
        producer = graph.producer(source)
        if destination not in graph.outputs:
            graph.remove(node, "it changes nothing")
            graph.redirect(destination, source)
        elif producer is not None and source not in graph.outputs:
            graph.remove(node, "it changes nothing")
            graph.update(producer, outputs=tuple(destination if i == source else i for i in producer.outputs))
            graph.redirect(source, destination)
