"""DEPTHWISE_CONV_2D with constant weights (1, H, W, O): output channel o reads input channel o / multiplier.

computed_conv.py is for computed weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ...operation import Fusion, Launch, Lowering, Operation, Parsed, SliceOwnership, TfliteNode, TfliteOp, Unsupported
from ...target import Target
from ...tensor import TensorId, slices
from ..arguments import require_float
from ..window import Window, dilated_window
from .computed_conv import ComputedDepthwise, parsed_convolution
from .heuristics import DEPTHWISE_BUSY_PART, LEAST_TAPS, MOST_EARLY_TAPS, MOST_TAPS
from .packing import pack_bias, pack_depthwise


@dataclass(frozen=True)
class Depthwise(Operation):
    """``weights`` is (1, H, W, O); ``multiplier`` output channels belong to each input channel.

    ``scales`` and ``integer_weights`` are those of Convolution.
    """

    window: Window
    multiplier: int
    weights: np.ndarray = field(compare=False)
    bias: np.ndarray | None = field(compare=False, default=None)
    scales: tuple[float, ...] = ()
    integer_weights: bool = False

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        batch, height, width, _ = shapes[0]
        return [(batch, *self.window.output_size(height, width), self.weights.shape[3])]

    def lower(self, lowering: Lowering) -> list[Launch]:
        return [launch_depthwise(lowering, lowering.outputs[0], self)]


def _parse(node: TfliteNode) -> Parsed:
    require_float(*node.inputs, *node.outputs)
    source, weights = node.inputs[0], node.inputs[1]
    if (
        source is None
        or weights is None
        or len(source.shape) != 4
        or [*weights.shape[:1], len(weights.shape)] != [1, 4]
    ):
        raise Unsupported("input must have rank 4 and weights the shape [1, height, width, channels]")
    channels, out = source.shape[3], weights.shape[3]
    if channels == 0 or out % channels:
        raise Unsupported(f"{out} output channels are no multiple of {channels} input channels")
    window, multiplier = dilated_window(node, (weights.shape[1], weights.shape[2])), out // channels
    constant = partial(Depthwise, window, multiplier, scales=weights.scales)
    return parsed_convolution(node, weights, out, ComputedDepthwise(window, multiplier), constant)


def launch_depthwise(lowering: Lowering, destination: TensorId, operation: Depthwise) -> Launch:
    """One dispatch that writes ``destination``. One or more invocations compute each slice of each pixel."""
    _, height, width, _ = lowering.shape(lowering.inputs[0])
    batch, rows, columns, channels = lowering.shape(destination)
    window, count = operation.window, batch * rows * columns * slices(channels)
    parts = lowering.target.decide("depthwise", choose_parts(count, math.prod(window.size), lowering.target))
    items, taps = lowering.group_size // parts, -(-math.prod(window.size) // parts)
    constants = window.constants(height, width) | {
        "MULTIPLIER": operation.multiplier, "PARTS": parts, "ITEMS": items,
        "TAPS": taps, "EARLY": taps if lowering.target.early_launches and taps <= MOST_EARLY_TAPS else 0,
    }  # fmt: skip
    arrays = {"weights": pack_depthwise(operation.weights), "bias": pack_bias(operation.bias, channels)}
    reads, writes = {"src": lowering.inputs[0]}, {"dst": destination}
    local = (("float4", "partial", lowering.group_size if parts > 1 else 1),)
    fusion = Fusion(slice_ownership=SliceOwnership(items, slices(channels)))
    return Launch("depthwise", reads, writes, -(-count // items), constants, arrays, local, fusion=fusion)


def choose_parts(count: int, taps: int, target: Target) -> int:
    """The number of invocations that share the ``taps`` of each of ``count`` results, so that few results fill a device
    too. Shares are short, or the window stays whole: see MOST_TAPS.
    """
    parts = 1
    while (
        2 * parts * count <= target.invocations // DEPTHWISE_BUSY_PART
        and 2 * parts * LEAST_TAPS <= taps
        and 2 * parts <= target.group_size
    ):
        parts *= 2
    return parts if parts * MOST_TAPS >= taps else 1


TFLITE = (
    TfliteOp(
        "DEPTHWISE_CONV_2D", _parse, max_version=7, inputs=3, optional=(2,), channel_axis=3, real_integers=(2,)
    ),
)  # fmt: skip
