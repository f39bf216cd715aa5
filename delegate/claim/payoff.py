"""An estimate whether a subgraph runs faster on a GPU than on LiteRT's CPU kernels. Nothing is timed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...kernels.tensor import TensorInfo
from ..read.model import RawOperator, Subgraph

LEAST_SHARE = 0.9
"""The part of the arithmetic that has to run on the GPU, because the rest takes time on the CPU. Not measured."""
MOST_PARTITIONS = 2
"""The largest number of partitions: between two, tensors are copied twice and the CPU waits. Not measured."""
LEAST_MULTIPLY_ADDS = 10e6
"""Multiply-adds per run that the GPU has to do. The smallest model measured there, face_detection_front, takes 0.16 ms
(OpenCL) to 0.38 ms (OpenGL) per frame with its copies on an H200 (docs/performance.md), nearly all of which any model
takes. In 0.38 ms one thread of LiteRT's CPU kernels does 9 million: 23 per ns in the same
model, on a Xeon of the Skylake family (2026-11-22, the fastest quarter of 12 runs of LiteRT's interpreter).
"""

_WITH_WEIGHTS = {
    "CONV_2D", "CONV_3D", "CONV_3D_TRANSPOSE", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV",
    "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN",
}  # fmt: skip
"""Operators that multiply each position (all dimensions but the last) with all of their weights."""
_TRANSPOSED = {"CONV_3D_TRANSPOSE", "TRANSPOSE_CONV"}
"""Operators with weights whose positions are those of the input, their third operand."""


def reason_not_to_delegate(
    subgraph: Subgraph,
    tensors: Mapping[int, TensorInfo],
    on_gpu: Sequence[int],
    partitions: int,
    least_multiply_adds: float = LEAST_MULTIPLY_ADDS,
) -> str:
    """The reason why the CPU is likely as fast as the GPU with the operators ``on_gpu``; "" if it is not.

    ``tensors`` have the current shapes. ``least_multiply_adds`` is 0 if runs will have other shapes.
    """
    counts = [multiply_adds(operator, tensors) for operator in subgraph.operators]
    total, done = sum(counts), sum(counts[index] for index in on_gpu)
    if partitions > MOST_PARTITIONS:
        return f"the GPU could take it in {partitions} partitions only, with copies between them; {MOST_PARTITIONS} pay"
    if done < LEAST_SHARE * total:
        return f"a GPU could do {done / total:.0%} of its multiply-adds, and pays from {LEAST_SHARE:.0%}"
    if done < least_multiply_adds or not done:
        least = f"{least_multiply_adds / 1e6:.0f} million"
        return f"it takes {total / 1e6:.2g} million multiply-adds, and a GPU pays from {least}"
    return ""


def multiply_adds(operator: RawOperator, tensors: Mapping[int, TensorInfo]) -> int:
    """Multiply-adds of one run, roughly: an operator without weights counts one for each value that it computes."""
    outputs = [tensors[tensor].shape for tensor in operator.outputs]
    operands = [tensors[tensor].shape for tensor in operator.inputs if tensor >= 0]
    values = sum(map(math.prod, outputs))
    if operator.name == "BATCH_MATMUL":
        return values * operands[0][-1]
    if operator.name not in _WITH_WEIGHTS:
        return values
    positions = math.prod((operands[2] if operator.name in _TRANSPOSED else outputs[0])[:-1])
    weights = [math.prod(shape) for shape in operands[1:] if len(shape) > 1]
    return positions * sum(weights[:1] if "CONV" in operator.name else weights)
