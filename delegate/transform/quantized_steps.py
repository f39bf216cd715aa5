"""The passes of quantized models: roundings to numbers of steps are merged, and convolutions sum integers.

A quantized tensor's values are whole multiples of its scale, its steps. Converters put QUANTIZE and DEQUANTIZE around
operators without an integer kernel, such as MIRROR_PAD. A value that was rounded before such an operator is rounded
after it.

Weights of 8 bits and numbers of steps fit into halves, which matrix units multiply, and sums below 2^24 are exact in
float32. So the sums are LiteRT's own; one product per channel, with the scales, converts them to steps of the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...kernels.operation import FusedOp
from ...kernels.ops.convolution.conv import Convolution
from ...kernels.ops.convolution.depthwise import Depthwise
from ...kernels.ops.convolution.fully_connected import FullyConnected
from ...kernels.ops.convolution.separable import CLAMPS
from ...kernels.ops.convolution.transpose_conv import TransposeConvolution
from ...kernels.ops.movement.concat import Concatenation
from ...kernels.ops.pointwise.elementwise import Elementwise
from ...kernels.ops.pointwise.quantize import ScaledIntegers, rounding_op
from ...kernels.tensor import FLOAT_MAX, LARGEST_WHOLE_HALF
from .graph import Graph, Node

_SUMS = Convolution | Depthwise | FullyConnected | TransposeConvolution
"""The operations that sum integers."""
Scales = dict[int, float]
"""The scale of each tensor that holds numbers of steps."""


def merge_rounding(graph: Graph) -> None:
    """Remove QUANTIZE nodes of values that are already rounded, and let the nodes that compute the others round their
    output.
    """
    rounding = {tensor: rounding_op(graph.tensors[tensor]) for tensor in graph.inputs}
    """A rounding of each tensor that does not change its values."""
    for node in graph.forwards():
        source, destination = node.inputs[0], node.outputs[0]
        rounding[destination] = _rounding(node, rounding.get(source))
        if not isinstance(node.operation, Elementwise) or [op.expression for op in node.epilogue] != ["QUANTIZE"]:
            continue
        producer = graph.producer(source)
        if rounding[destination] == rounding.get(source) and destination not in graph.outputs:
            graph.remove(node, "its input is rounded so already")
            graph.redirect(destination, source)
        elif producer is not None and producer.outputs == (source,) and graph.sole_reader(source) is node:
            epilogue = producer.epilogue + node.epilogue
            graph.substitute({producer, node}, producer, at=producer, outputs=node.outputs, epilogue=epilogue)


def _rounding(node: Node, before: FusedOp | None) -> FusedOp | None:
    """A rounding that does not change the node's output; None if there is none."""
    if node.epilogue:
        return node.epilogue[-1] if node.epilogue[-1].expression == "QUANTIZE" else None
    return before if node.operation.keeps_steps() else None


def sum_integers(graph: Graph) -> None:
    """Let each tensor that only convolutions and sums read hold numbers of steps, and convolutions have integers as
    weights.
    """
    scales = _in_steps(graph)
    for node in graph.forwards():
        operation = node.operation
        if _sums_integers(node, scales.get(node.inputs[0]) if node.inputs else None):
            assert isinstance(operation, _SUMS)
            _count(graph, node, operation, scales)
        elif scales.keys() & {*node.outputs, *node.operands}:
            graph.update(node, epilogue=_read_steps(node.epilogue, node.outputs[0], scales))


def _in_steps(graph: Graph) -> Scales:
    """The tensors that may hold numbers of steps, with their scales."""
    scales: Scales = {}
    for node in graph.nodes:
        last = node.epilogue[-1] if node.epilogue else None
        if node.integers or any(i in graph.outputs or not graph.has_own_memory(i) for i in node.outputs):
            continue
        if last is not None and last.expression == "QUANTIZE" and max(map(abs, last.values[1:])) <= LARGEST_WHOLE_HALF:
            scales[node.outputs[0]] = last.values[0]
        elif hands_on(node):
            given = [scales[tensor] for tensor in node.inputs if tensor in scales]
            if len(given) == len(node.inputs) and len(set(given)) == 1:
                scales.update(dict.fromkeys(node.outputs, given[0]))
    refused = [tensor for tensor in scales if not _may_hold_steps(graph, tensor, scales)]
    while refused:
        for tensor in refused:
            del scales[tensor]
        refused = [tensor for tensor in scales if not _may_hold_steps(graph, tensor, scales)]
    return scales


def _may_hold_steps(graph: Graph, tensor: int, scales: Scales) -> bool:
    """Whether all readers accept numbers of steps, and an operator that only passes values on has them as input."""
    producer = graph.producer(tensor)
    refused = producer is not None and not producer.epilogue and not scales.keys() >= set(producer.inputs)
    return not refused and all(_takes_steps(reader, tensor, scales) for reader in graph.readers(tensor))


def _takes_steps(reader: Node, tensor: int, scales: Scales) -> bool:
    """Whether a reader accepts numbers of steps: as the input of a convolution, as a summand, or to pass them on."""
    summands = [op for op in reader.epilogue if op.operand == tensor]
    if any(op.expression != "ADD" or op.max_pool_2x2 for op in summands) or reader.operands.count(tensor) > 2:
        return False
    if reader.inputs.count(tensor) == 0:
        return len(summands) == reader.operands.count(tensor)
    operation = reader.operation
    if isinstance(operation, _SUMS):
        return _sums_integers(reader, scales[tensor])
    return hands_on(reader) and scales.keys() >= set(reader.outputs)


def hands_on(node: Node) -> bool:
    """Whether every value of the output is one of an input, or zero, and nothing else is read or computed."""
    moves = (node.operation.keeps_steps() and len(node.operands) == 1) or isinstance(node.operation, Concatenation)
    return moves and not node.epilogue


def _sums_integers(node: Node, scale: float | None) -> bool:
    """Whether a node can sum integers, times numbers of steps of this scale or times values. Its factors must be normal
    floats, and its bias in steps a float, which a file does not guarantee.
    """
    operation = node.operation
    if not isinstance(operation, _SUMS) or not operation.scales or node.input_ops:
        return False
    scales = _scales(operation)
    ends = np.array([scales.min(), scales.max()]) * (scale or 1.0)
    bias = np.zeros(1) if operation.bias is None else np.abs(operation.bias.astype(np.float64))
    largest = bias[np.isfinite(bias)].max(initial=0.0)
    return bool(ends[0] >= np.finfo(np.float32).tiny and max(ends[1], largest / ends[0]) <= FLOAT_MAX)


def _count(graph: Graph, node: Node, operation: _SUMS, scales: Scales) -> None:
    """Give a convolution integers as weights, and as bias if its input holds numbers of steps."""
    assert operation.weights is not None
    weight_scales = _scales(operation).astype(np.float32)
    input_scale, output = scales.get(node.inputs[0]), node.outputs[0]
    products = weight_scales * np.float32(input_scale or 1.0)
    bias = None if operation.bias is None else operation.bias.astype(np.float64) / products
    bias = bias if bias is None or input_scale is None else np.rint(bias)
    counted = replace(
        operation, weights=_integers(operation), bias=None if bias is None else bias.astype(np.float32),
        scales=(), integer_weights=True,
    )  # fmt: skip
    clamps, rest = _leading_clamp(node.epilogue)
    scale, lowest, highest = clamps or (1.0, 0.0, 0.0)
    with np.errstate(over="ignore"):
        factors = products / np.float32(scale)
    if clamps is None or not np.isfinite(factors).all():
        first, rest = (FusedOp("MUL", _per_channel(graph, node, operation, products)),), node.epilogue
    else:
        steps = 1.0 if not rest and output in scales else scale
        multiplied = FusedOp("MUL", _per_channel(graph, node, operation, factors))
        first = (multiplied, FusedOp("STEPS", values=(lowest, highest, steps)))
    graph.update(node, operation=counted, epilogue=(*first, *_read_steps(rest, output, scales)))


def _scales(operation: _SUMS) -> np.ndarray:
    """The scales of the weights as float64."""
    weights = operation.weights
    return weights.quantization.scale_array if isinstance(weights, ScaledIntegers) else np.array(operation.scales)


def _integers(operation: _SUMS) -> np.ndarray:
    """The weights as whole multiples of their scales."""
    weights = operation.weights
    assert weights is not None
    if isinstance(weights, ScaledIntegers):
        return weights.integers()
    scales = np.array(operation.scales, np.float32)
    divided = weights / (scales if isinstance(operation, Depthwise) else scales.reshape(-1, *(1,) * (weights.ndim - 1)))
    return np.rint(divided, out=divided)


def _per_channel(graph: Graph, node: Node, operation: _SUMS, values: np.ndarray) -> int:
    """A constant tensor with one number for each output channel."""
    assert operation.weights is not None
    channels = operation.weights.shape[3 if isinstance(operation, Depthwise) else 0]
    tensor = graph.new_tensor(node.outputs[0], (channels,), np.broadcast_to(values, (channels,)).copy())
    graph.tensors[tensor] = replace(graph.tensors[tensor], quantization=None, stored_dtype="")
    return tensor


def _leading_clamp(epilogue: Sequence[FusedOp]) -> tuple[tuple[float, float, float] | None, tuple[FusedOp, ...]]:
    """The scale, and the lowest and highest number of steps, of a rounding with only clamps before it; and the
    operations after it. None and all operations if there is no such rounding.
    """
    low, high = -np.inf, np.inf
    for i, op in enumerate(epilogue):
        if op.expression == "QUANTIZE":
            scale, lowest, highest = op.values
            low, high = (float(np.clip(np.rint(end / scale), lowest, highest)) for end in (low, high))
            return (scale, low, high), tuple(epilogue[i + 1 :])
        if (op.expression,) not in CLAMPS:
            break
        ends = CLAMPS[op.expression,]
        low, high = (float(np.clip(end, *ends)) for end in (low, high))
    return None, tuple(epilogue)


def _read_steps(epilogue: Sequence[FusedOp], output: int, scales: Scales) -> tuple[FusedOp, ...]:
    """The operations for summands that hold numbers of steps, and for an output that does."""
    ops = [
        FusedOp("ADD_STEPS", op.operand, values=(scales[op.operand],)) if op.operand in scales else op
        for op in epilogue
    ]
    if ops and output in scales and ops[-1].expression == "QUANTIZE":
        ops[-1] = replace(ops[-1], expression="TO_STEPS")
    return tuple(ops)
