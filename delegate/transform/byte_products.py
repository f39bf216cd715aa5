"""Marks convolutions that may multiply bytes by bytes: half of the products of matrix units, and half of the memory.

The input must hold numbers of steps from 0 to 255, as after a RELU, so that its zeros are the zeros beyond a border;
weights are from -128 to 127. delegate/lower chooses: a tensor is stored as bytes if a kernel multiplies them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...kernels.ops.bottleneck.expanded import Expanded
from ...kernels.ops.convolution.conv import Convolution
from ...kernels.ops.convolution.separable import Separable
from .graph import Graph, Node

MOST_STEPS = 255
LOWEST_WEIGHT, HIGHEST_WEIGHT = -128, 127
LARGEST_SUM = (1 << 31) - 1
"""A sum is an int32, which must not overflow."""


def multiply_bytes(graph: Graph) -> None:
    """Mark each convolution of integers whose input and weights fit bytes, if only convolutions read that input."""
    for node in graph.nodes:
        operation = node.operation
        if isinstance(operation, Separable):
            graph.update(node, operation=_marked(operation))
        elif isinstance(operation, Expanded) and isinstance(operation.filter, Separable):
            graph.update(node, operation=replace(operation, filter=_marked(operation.filter)))
        elif isinstance(operation, Convolution) and not node.input_ops and _fits(operation):
            source = node.inputs[0]
            ends = _steps(graph, source)
            readers = all(_only_convolves(reader, source) for reader in graph.readers(source))
            if ends is not None and _are_bytes(ends) and readers:
                graph.update(node, operation=replace(operation, by_bytes=True))


def _marked(operation: Separable) -> Separable:
    """The pair with its second convolution marked, if that fits bytes."""
    rounding, pointwise = operation.rounding, operation.pointwise
    if rounding is None or not _are_bytes((rounding.lowest, rounding.highest)) or not _fits(pointwise):
        return operation
    return replace(operation, pointwise=replace(pointwise, by_bytes=True))


def _are_bytes(ends: tuple[float, float]) -> bool:
    return ends[0] >= 0 and ends[1] <= MOST_STEPS


def _fits(operation: Convolution) -> bool:
    """Whether the weights are bytes, and no sum exceeds an int32."""
    weights, bias = operation.weights, operation.bias
    if not operation.integer_weights or weights.shape[3] % 8:
        return False
    largest = MOST_STEPS * -LOWEST_WEIGHT * math.prod(weights.shape[1:])
    largest += 0 if bias is None else float(np.abs(bias).max(initial=0.0))
    return weights.min() >= LOWEST_WEIGHT and weights.max() <= HIGHEST_WEIGHT and largest <= LARGEST_SUM


def _steps(graph: Graph, tensor: int) -> tuple[float, float] | None:
    """The least and greatest number of steps of a tensor that holds such numbers in memory of its own; else None."""
    if tensor in graph.outputs or not graph.has_own_memory(tensor):
        return None
    node = graph.producer(tensor)
    while node is not None and not node.epilogue and node.operation.keeps_steps() and len(node.operands) == 1:
        node = graph.producer(node.inputs[0])
    if node is None or not node.epilogue:
        return None
    last = node.epilogue[-1]
    if last.expression == "STEPS" and last.values[2] == 1.0:
        return last.values[0], last.values[1]
    return (last.values[1], last.values[2]) if last.expression == "TO_STEPS" else None


def _only_convolves(reader: Node, tensor: int) -> bool:
    """Whether a reader convolves all channels of the tensor, or adds it to its result: others read bytes slowly."""
    return isinstance(reader.operation, Convolution) or tensor not in reader.inputs
