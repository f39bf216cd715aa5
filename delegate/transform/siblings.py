"""The pass that computes convolutions of the same tensor as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...kernels.operation import FusedOp
from ...kernels.ops.convolution.conv import Convolution
from ...kernels.ops.convolution.fully_connected import FullyConnected
from ...kernels.ops.window import VALID, Window
from ...kernels.tensor import FLOAT_MAX, slices
from .graph import Alias, Graph, Node


def merge_siblings(graph: Graph) -> None:
    """Replace convolutions with the same input, window and epilogue by one; their outputs are slices of its output.
    Layers (FULLY_CONNECTED) of the channels of each pixel are 1x1 convolutions.

    Epilogues that round sums of integers may have other numbers: those become constants with one for each channel.
    """
    families: dict[tuple[object, ...], list[tuple[Node, Convolution]]] = {}
    for node in graph.nodes:
        operation = _convolution(graph, node)
        if operation is not None and _is_mergeable(graph, node):
            epilogue = node.epilogue if _rounding(graph, node) is None else "rounding"
            family = families.setdefault((node.inputs, node.input_ops, operation.window, epilogue), [])
            family.append((node, operation))
    for family in families.values():
        if len(family) > 1:
            _merge(graph, family)


def _convolution(graph: Graph, node: Node) -> Convolution | None:
    """The node's operation if it is a convolution, or a layer of the channels of each pixel as a 1x1 convolution."""
    operation = node.operation
    if not isinstance(operation, FullyConnected) or operation.weights is None or operation.integer_weights:
        return operation if isinstance(operation, Convolution) else None
    source, result = (graph.tensors[tensor].bhwc for tensor in (node.inputs[0], node.outputs[0]))
    if (*source[:3], result[3]) != result or source[3] != operation.weights.shape[1]:
        return None
    return Convolution(Window((1, 1), (1, 1), padding=VALID), operation.weights[:, None, None, :], operation.bias)


def _is_mergeable(graph: Graph, node: Node) -> bool:
    """Whether the epilogues allow it: padding channels must stay zeros, and an operand has the shape of only one
    output.
    """
    output = node.outputs[0]
    padded = graph.tensors[output].bhwc[3] % 4 != 0
    touched = padded or any(op.operand is not None for op in node.epilogue)
    if node.epilogue and touched and _rounding(graph, node) is None:
        return False
    return output not in graph.outputs and graph.has_own_memory(output)


def _rounding(graph: Graph, node: Node) -> np.ndarray | None:
    """The factor, the lowest and highest number of steps, and the scale for each channel, in rows, if the epilogue
    multiplies by a constant and rounds; else None.
    """
    if tuple(op.expression for op in node.epilogue) != ("MUL", "STEPS") or not isinstance(node.operation, Convolution):
        return None
    factors = graph.tensors[node.epilogue[0].operand or 0].constant
    if factors is None or factors.ndim != 1:
        return None
    rows = np.empty((4, node.operation.weights.shape[0]), np.float32)
    rows[0], rows[1:] = factors, np.array(node.epilogue[1].values, np.float32)[:, None]
    return rows


def _merge(graph: Graph, family: Sequence[tuple[Node, Convolution]]) -> None:
    first, window = family[0][0], family[0][1].window
    weights, biases, roundings, starts, width = [], [], [], [], 0
    for node, operation in family:
        channels = operation.weights.shape[0]
        padding = slices(channels) * 4 - channels
        weights += [operation.weights, np.zeros((padding, *operation.weights.shape[1:]), operation.weights.dtype)]
        bias = np.zeros(channels, np.float32) if operation.bias is None else operation.bias
        biases += [bias, np.zeros(padding, np.float32)]
        rounding = _rounding(graph, node)
        roundings += [] if rounding is None else [rounding, np.zeros((4, padding), np.float32)]
        starts.append(width // 4)
        width += channels + padding
    parent = graph.new_tensor(first.outputs[0], (*graph.tensors[first.outputs[0]].bhwc[:3], width))
    for (node, _), start in zip(family, starts, strict=True):
        graph.place_inside(node.outputs[0], Alias(parent, start, width // 4))
    integer_weights = all(operation.integer_weights for _, operation in family)
    merged = Convolution(window, np.concatenate(weights), np.concatenate(biases), integer_weights=integer_weights)
    epilogue = _rounded(graph, np.concatenate(roundings, 1), first) if roundings else first.epilogue
    members = {node for node, _ in family}
    graph.substitute(members, first, at=first, operation=merged, outputs=(parent,), epilogue=epilogue)


def _rounded(graph: Graph, rows: np.ndarray, like: Node) -> tuple[FusedOp, ...]:
    """The epilogue that rounds with the numbers of these ``rows`` (see ``_rounding``), one column for each channel."""
    operand, channels = like.epilogue[0].operand, rows.shape[1:]
    assert operand is not None
    factors, lowest, highest, scales = (graph.new_tensor(operand, channels, row) for row in rows)
    return (
        FusedOp("MUL", factors), FusedOp("STEPS", values=(-FLOAT_MAX, FLOAT_MAX, 1.0)), FusedOp("MAXIMUM", lowest),
        FusedOp("MINIMUM", highest), FusedOp("MUL", scales),
    )  # fmt: skip
