"""Passes that fuse elementwise operators into the writes, or the reads, of other nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...kernels.operation import FusedOp
from ...kernels.ops.convolution.conv import Convolution
from ...kernels.ops.pointwise.elementwise import Elementwise
from ...kernels.ops.pointwise.quantize import Dequantize
from ...kernels.ops.reduction.pool import Pooling
from ...kernels.ops.reduction.reduce import Reduction
from ...kernels.ops.window import VALID, Window
from .graph import Graph, Node


def _is_mean(graph: Graph, node: Node) -> bool:
    """Whether the node computes the mean of all pixels, and nothing else."""
    operation, shape = node.operation, graph.tensors[node.inputs[0]].bhwc
    if isinstance(operation, Pooling):
        window = operation.window
        parent = window.size == shape[1:3] and window.padding == VALID and not operation.maximum
        return parent and graph.tensors[node.outputs[0]].bhwc[1:3] == (1, 1) and not node.epilogue
    return isinstance(operation, Reduction) and _over_pixels(operation) and not node.epilogue


def _over_pixels(reduction: Reduction) -> bool:
    return (reduction.axes, reduction.rank, reduction.kind) == ((1, 2), 4, "MEAN")


_MOST_OUTSIDE = 4
"""How many of the graph's inputs a node may read after links were added: each is a buffer, and a kernel has few."""


def fuse_epilogues(graph: Graph) -> None:
    """Append elementwise nodes to the node that computes their value, so that it is written once, already done."""
    nodes = dict(enumerate(graph.nodes))
    made = {output: number for number, node in nodes.items() for output in node.outputs}
    readers: dict[int, set[int]] = {}
    for number, node in nodes.items():
        for tensor in node.operands:
            readers.setdefault(tensor, set()).add(number)
    for number, node in list(nodes.items()):
        if not isinstance(node.operation, Elementwise):
            continue
        for value, epilogue in _orders(graph, node, made):
            before = made.get(value)
            if before is None or readers[value] != {number} or not _may_absorb(graph, nodes[before], node, value):
                continue
            producer = nodes.pop(before)
            nodes[number] = replace(
                producer,
                outputs=node.outputs,
                epilogue=producer.epilogue + epilogue,
                indices=producer.indices + node.indices,
            )
            for tensor in producer.operands:
                readers[tensor] = readers[tensor] - {before} | {number}
            names = ", ".join(op.expression for op in node.epilogue)
            graph.changes.append(f"linked {names} {list(node.indices)} to {producer.name} {list(producer.indices)}")
            break
    graph.nodes = list(nodes.values())


def _orders(graph: Graph, node: Node, made: Mapping[int, int]) -> list[tuple[int, tuple[FusedOp, ...]]]:
    """The ways to see an elementwise node: which operand is the value, and the links then. The later computed value
    first: ``made`` has the number of the node that computes a tensor.
    """
    ways = [(node.inputs[0], node.epilogue)]
    if not node.epilogue:
        return ways
    first = node.epilogue[0]
    if first.operand is not None and graph.tensors[first.operand].constant is None:
        turned = replace(first, operand=node.inputs[0], swapped=not first.swapped)
        ways.append((first.operand, (turned, *node.epilogue[1:])))
    return sorted(ways, key=lambda way: made.get(way[0], -1), reverse=True)


def _may_absorb(graph: Graph, producer: Node, node: Node, value: int) -> bool:
    alone = node.operands.count(value) == 1 and value not in graph.outputs
    same = graph.tensors[value].bhwc == graph.tensors[node.outputs[0]].bhwc
    if len({*producer.operands, *node.operands} & set(graph.inputs)) > _MOST_OUTSIDE:
        return False
    return alone and same and len(producer.outputs) == 1 and not isinstance(producer.operation, Dequantize)


INPUT_OPS = frozenset({"ADD", "MUL", "SUB"})
"""What may be applied to every value that is read: cheap, and zero where both operands are."""


def fuse_input_ops(graph: Graph) -> None:
    """Let 1x1 convolutions and means apply sums and products to what they read, where nobody else needs those."""
    for node in list(graph.nodes):
        if not isinstance(node.operation, Elementwise) or not node.epilogue or node.input_ops:
            continue
        readers = graph.consumers(node.outputs[0])
        fits = all(_binary(op) for op in node.epilogue) and node.outputs[0] not in graph.outputs
        same = graph.tensors[node.inputs[0]].bhwc == graph.tensors[node.outputs[0]].bhwc
        if not (fits and same and readers and all(_reads_once(graph, reader, node.outputs[0]) for reader in readers)):
            continue
        for reader in readers:
            indices = node.indices + reader.indices
            absorbed = replace(reader, inputs=node.inputs, input_ops=node.epilogue, indices=indices)
            graph.nodes = [absorbed if other is reader else other for other in graph.nodes]
            names = ", ".join(op.expression for op in node.epilogue)
            graph.changes.append(f"{reader.name} {list(indices)} applies {names} to what it reads")
        graph.nodes = [other for other in graph.nodes if other is not node]


def _binary(op: FusedOp) -> bool:
    return op.expression in INPUT_OPS and op.operand is not None and not op.values


def _reads_once(graph: Graph, node: Node, tensor: int) -> bool:
    operation = node.operation
    pointwise = isinstance(operation, Convolution) and operation.groups == 1 and _pointwise(operation.window)
    kind = pointwise or _is_mean(graph, node)
    return kind and node.inputs == (tensor,) and node.operands.count(tensor) == 1 and not node.input_ops


def _pointwise(window: Window) -> bool:
    return window.size == window.strides == (1, 1) and not any(window.extra)
