"""Marks convolutions that may multiply bytes by bytes: half of the products of matrix units, and half of the memory.

The input must hold numbers of steps from 0 to 255, as after a RELU, so that its zeros are the zeros beyond a border;
weights are from -128 to 127. delegate/lower chooses: a tensor is stored as bytes if a kernel multiplies them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...kernels.ops.bottleneck.expanded import Expanded
from ...kernels.ops.convolution.conv import Convolution
from ...kernels.ops.convolution.separable import Separable
from ...kernels.ops.convolution.transpose_conv import TransposeConvolution
from ...kernels.ops.movement.concat import Concatenation
from .graph import Graph, Node
from .quantized_steps import hands_on

MOST_STEPS = 255
LOWEST_WEIGHT, HIGHEST_WEIGHT = -128, 127
LARGEST_SUM = (1 << 31) - 1
"""A sum is an int32, which must not overflow."""


_CONVOLUTIONS = Convolution | TransposeConvolution
Ends = tuple[float, float]
"""The least and the greatest number."""


def multiply_bytes(graph: Graph) -> None:
    """Mark each convolution of integers whose input and weights fit bytes, if only convolutions read that input, or
    operators that hand on its values.
    """
    steps, parts = _steps(graph), dict[int, list[int]]()
    for tensor, alias in graph.aliases.items():
        parts.setdefault(alias.parent, []).append(tensor)
    for node in graph.nodes:
        operation = node.operation
        if isinstance(operation, Separable) and _fits_second(operation):
            graph.update(node, operation=_marked(operation))
        elif isinstance(operation, Expanded) and isinstance(operation.filter, Separable):
            if _fits_second(operation.filter):
                graph.update(node, operation=replace(operation, filter=_marked(operation.filter)))
        elif isinstance(operation, _CONVOLUTIONS) and not node.input_ops and _fits(operation):
            alias = graph.aliases.get(node.inputs[0])
            parent = node.inputs[0] if alias is None else alias.parent
            if _holds_bytes(graph, parent, parts.get(parent, []), steps):
                graph.update(node, operation=replace(operation, by_bytes=True))


def _fits_second(operation: Separable) -> bool:
    """Whether the second convolution of a pair fits bytes."""
    rounding = operation.rounding
    return rounding is not None and _are_bytes((rounding.lowest, rounding.highest)) and _fits(operation.pointwise)


def _marked(operation: Separable) -> Separable:
    return replace(operation, pointwise=replace(operation.pointwise, by_bytes=True))


def _are_bytes(ends: Ends) -> bool:
    return ends[0] >= 0 and ends[1] <= MOST_STEPS


def _fits(operation: _CONVOLUTIONS) -> bool:
    """Whether the weights are bytes, and no sum exceeds an int32."""
    weights, bias = operation.weights, operation.bias
    if not operation.integer_weights or weights.shape[3] % 8:
        return False
    largest = MOST_STEPS * -LOWEST_WEIGHT * math.prod(weights.shape[1:])
    largest += 0 if bias is None else float(np.abs(bias).max(initial=0.0))
    return weights.min() >= LOWEST_WEIGHT and weights.max() <= HIGHEST_WEIGHT and largest <= LARGEST_SUM


def _steps(graph: Graph) -> dict[int, Ends]:
    """The least and greatest number of steps of each tensor that holds such numbers and is written as a whole."""
    found: dict[int, Ends] = {}
    for node in graph.nodes:
        given, output = [found[tensor] for tensor in node.inputs if tensor in found], node.outputs[0]
        last = node.epilogue[-1] if node.epilogue else None
        if given and len(given) == len(node.inputs) and hands_on(node):
            ends = min(low for low, _ in given), max(high for _, high in given)
            found.update(dict.fromkeys(node.outputs, ends))
        elif last is not None and last.expression == "STEPS" and last.values[2] == 1.0:
            found[output] = last.values[0], last.values[1]
        elif last is not None and last.expression == "TO_STEPS":
            found[output] = last.values[1], last.values[2]
    return found


def _holds_bytes(graph: Graph, parent: int, parts: Sequence[int], steps: Mapping[int, Ends]) -> bool:
    """Whether a tensor, and all ``parts`` that lie inside it, hold numbers from 0 to 255 in pairs of slices."""
    if any(graph.aliases[part].start % 2 or graph.aliases[part].pixel_stride % 2 for part in parts):
        return False
    family = [parent, *parts]
    if any(tensor in graph.outputs or tensor in graph.inputs for tensor in family):
        return False
    written = [tensor for tensor in family if graph.producer(tensor) is not None]
    held = bool(written) and all(tensor in steps and _are_bytes(steps[tensor]) for tensor in written)
    return held and all(_reads_bytes(reader, tensor) for tensor in family for reader in graph.readers(tensor))


def _reads_bytes(reader: Node, tensor: int) -> bool:
    """Whether a reader convolves all channels of the tensor, hands on its values, or adds it to its result: others read
    bytes slowly.
    """
    convolves = isinstance(reader.operation, _CONVOLUTIONS | Concatenation) or reader.operation.keeps_steps()
    return convolves or tensor not in reader.inputs
