"""The pass that computes convolutions of the same tensor as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...kernels.ops.convolution.conv import Convolution
from ...kernels.tensor import slices
from .graph import Alias, Graph, Node


def merge_siblings(graph: Graph) -> None:
    """Replace convolutions with the same input, window and epilogue by one; their outputs are slices of its output."""
    families: dict[tuple[object, ...], list[tuple[Node, Convolution]]] = {}
    for node in graph.nodes:
        operation = node.operation
        if isinstance(operation, Convolution) and _is_mergeable(graph, node):
            family = families.setdefault((node.inputs, node.input_ops, operation.window, node.epilogue), [])
            family.append((node, operation))
    for family in families.values():
        if len(family) > 1:
            _merge(graph, family)


def _is_mergeable(graph: Graph, node: Node) -> bool:
    """Padding channels must come out as zeros, so that no epilogue may touch any, and an operand has the shape of one
    output only.
    """
    output = node.outputs[0]
    padded = graph.tensors[output].bhwc[3] % 4 != 0
    if node.epilogue and (padded or any(op.operand is not None for op in node.epilogue)):
        return False
    return output not in graph.outputs and graph.has_own_memory(output)


def _merge(graph: Graph, family: Sequence[tuple[Node, Convolution]]) -> None:
    first, window = family[0][0], family[0][1].window
    weights, biases, starts, width = [], [], [], 0
    for _, operation in family:
        channels = operation.weights.shape[0]
        padding = slices(channels) * 4 - channels
        weights.append(np.pad(operation.weights, ((0, padding), (0, 0), (0, 0), (0, 0))))
        bias = np.zeros(channels, np.float32) if operation.bias is None else operation.bias
        biases.append(np.pad(bias, (0, padding)))
        starts.append(width // 4)
        width += channels + padding
    parent = graph.new_tensor(first.outputs[0], (*graph.tensors[first.outputs[0]].shape[:3], width))
    for (node, _), start in zip(family, starts, strict=True):
        graph.place_inside(node.outputs[0], Alias(parent, start, width // 4))
    merged = Convolution(window, np.concatenate(weights), np.concatenate(biases))
    graph.substitute({node for node, _ in family}, replace(first, operation=merged, outputs=(parent,)), at=first)
