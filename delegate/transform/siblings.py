"""The pass that computes convolutions of the same tensor as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...kernels.ops.convolution.conv import Convolution
from ...kernels.ops.window import Window
from ...kernels.tensor import slices
from .graph import Alias, Graph, Node


def merge_siblings(graph: Graph) -> None:
    """Replace convolutions with the same input, window and links by one; their outputs are slices of its output."""
    families: dict[tuple[object, ...], list[Node]] = {}
    for node in graph.nodes:
        operation = node.operation
        if isinstance(operation, Convolution) and operation.groups == 1 and _mergeable(graph, node):
            families.setdefault((node.inputs, node.input_ops, operation.window, node.epilogue), []).append(node)
    for (_, _, window, _), family in families.items():
        if len(family) > 1:
            assert isinstance(window, Window)
            _merge(graph, window, family)


def _mergeable(graph: Graph, node: Node) -> bool:
    """Padding channels must come out as zeros, so links may not touch any; a link's operand has one tensor's shape."""
    output = node.outputs[0]
    padded = graph.tensors[output].bhwc[3] % 4 != 0
    if node.epilogue and (padded or any(op.operand is not None for op in node.epilogue)):
        return False
    return output not in graph.outputs and output not in graph.aliases


def _merge(graph: Graph, window: Window, family: Sequence[Node]) -> None:
    first, parent = family[0], max(graph.tensors) + 1
    weights, biases, width = [], [], 0
    for node in family:
        operation = node.operation
        assert isinstance(operation, Convolution)
        channels = operation.weights.shape[0]
        padding = slices(channels) * 4 - channels
        weights.append(np.pad(operation.weights, ((0, padding), (0, 0), (0, 0), (0, 0))))
        bias = np.zeros(channels, np.float32) if operation.bias is None else operation.bias
        biases.append(np.pad(bias, (0, padding)))
        graph.aliases[node.outputs[0]] = Alias(parent, width // 4, 0)
        width += channels + padding
    graph.aliases |= {o: replace(graph.aliases[o], pixel_stride=width // 4) for node in family for o in node.outputs}
    output = graph.tensors[first.outputs[0]]
    graph.tensors[parent] = replace(output, shape=(*output.shape[:3], width))
    indices = tuple(index for node in family for index in node.indices)
    merged = Convolution(window, np.concatenate(weights), np.concatenate(biases))
    joined = replace(first, operation=merged, outputs=(parent,), indices=indices)
    others = {id(node) for node in family[1:]}
    graph.nodes = [joined if node is first else node for node in graph.nodes if id(node) not in others]
    graph.changes.append(f"merged {len(family)} {first.name} {list(indices)} of the same input")
