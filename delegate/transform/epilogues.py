"""Passes that fuse elementwise operators into the writes, or the reads, of other nodes."""

from __future__ import annotations

from dataclasses import replace

from ...kernels.operation import FusedOp
from ...kernels.ops.pointwise.elementwise import Elementwise
from ...kernels.ops.pointwise.quantize import Dequantize
from .graph import Graph, Node
from .patterns import is_mean_of_pixels, is_reshape, pointwise_convolution

MOST_BOUND_INPUTS = 4
"""The most inputs of the graph that a node may read after a fusion: each needs a buffer, and OpenGL ES 3.1 guarantees
only four per kernel.
"""
INPUT_OPS = frozenset({"ADD", "MUL", "SUB"})
"""The expressions that may be applied to every value that is read: they are cheap, and give zero for two zeros."""


def fuse_epilogues(graph: Graph) -> None:
    """Append elementwise nodes to the node that computes their value, so that only the final value is written."""
    for node in graph.forwards():
        if not isinstance(node.operation, Elementwise):
            continue
        for value, epilogue in ways_to_apply(graph, node):
            producer = graph.producer(value)
            if producer is not None and graph.sole_reader(value) is node and _may_absorb(graph, producer, node, value):
                epilogue = producer.epilogue + epilogue
                graph.substitute({producer, node}, producer, outputs=node.outputs, epilogue=epilogue)
                break


def ways_to_apply(graph: Graph, node: Node) -> list[tuple[int, tuple[FusedOp, ...]]]:
    """The possible epilogues of an elementwise node: the tensor that is its value, and the operations on it. The value
    that is computed later comes first, but a reshape, which may need no step, last.
    """
    ways = [(node.inputs[0], node.epilogue)]
    first = node.epilogue[0] if node.epilogue else None
    if first is not None and first.operand is not None and graph.tensors[first.operand].constant is None:
        swapped = replace(first, operand=node.inputs[0], swapped=not first.swapped)
        ways.append((first.operand, (swapped, *node.epilogue[1:])))

    def computed(way: tuple[int, tuple[FusedOp, ...]]) -> tuple[bool, int, int]:
        producer = graph.producer(way[0])
        return (False, -1, -1) if producer is None else (not is_reshape(producer), *graph.position(producer))

    return sorted(ways, key=computed, reverse=True)


def _may_absorb(graph: Graph, producer: Node, node: Node, value: int) -> bool:
    if producer.integers != node.integers:
        return False
    if len({*producer.operands, *node.operands} & set(graph.inputs)) > MOST_BOUND_INPUTS:
        return False
    same = graph.tensors[value].bhwc == graph.tensors[node.outputs[0]].bhwc
    return same and len(producer.outputs) == 1 and not isinstance(producer.operation, Dequantize)


def fuse_input_ops(graph: Graph) -> None:
    """Let 1x1 convolutions and means apply sums and products to their input, if no other node reads the result."""
    for node in graph.forwards():
        if not isinstance(node.operation, Elementwise) or not node.epilogue or node.input_ops or node.integers:
            continue
        output = node.outputs[0]
        same = graph.tensors[node.inputs[0]].bhwc == graph.tensors[output].bhwc
        if not same or output in graph.outputs or not all(_is_input_op(op) for op in node.epilogue):
            continue
        readers = graph.readers(output)
        if not readers or not all(_takes_input_ops(graph, reader, output) for reader in readers):
            continue
        for reader in readers:
            indices = node.indices + reader.indices
            graph.update(reader, inputs=node.inputs, input_ops=node.epilogue, indices=indices)
        graph.remove(node, "its readers apply it to what they read")


def _is_input_op(op: FusedOp) -> bool:
    return op.expression in INPUT_OPS and op.operand is not None and not op.values


def _takes_input_ops(graph: Graph, node: Node, tensor: int) -> bool:
    """Whether the node reads the tensor as its only input, and reads most values only once."""
    if node.inputs != (tensor,) or node.operands.count(tensor) != 1 or node.input_ops:
        return False
    return pointwise_convolution(node) is not None or is_mean_of_pixels(graph, node)
