"""DEPTHWISE_CONV_2D with constant weights (1, H, W, O): output channel o reads input channel o / multiplier.

Computed weights: computed_conv.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...operation import Launch, Lowering, Operator, Parsed, SliceOwnership, Unsupported
from ...target import Target
from ...tensor import TensorId, TensorInfo, slices
from ..arguments import activation_epilogue, require_float
from ..window import Window
from .computed_conv import ComputedDepthwise, bias_epilogue, depthwise_shapes, lower_depthwise
from .conv import computed_bias, optional_bias
from .packing import pack_bias, pack_depthwise

BUSY = 4
"""A device is busy with this part of the invocations that it holds: two work-groups of 256 a unit of an H200."""
LEAST_TAPS, MOST_TAPS = 4, 7
"""Of a divided window, an invocation's share, about. Where its taps lie is computed as it runs: for more of them, that
takes as long as was gained.
"""


@dataclass(frozen=True)
class Depthwise:
    """``weights`` is (1, H, W, O); ``multiplier`` output channels belong to each input channel."""

    window: Window
    multiplier: int
    weights: np.ndarray = field(compare=False)
    bias: np.ndarray | None = field(compare=False, default=None)


def _parse(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_float(*inputs, *outputs)
    source, weights = inputs[0], inputs[1]
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
    window = Window(
        (weights.shape[1], weights.shape[2]),
        (options.StrideH(), options.StrideW()),
        (options.DilationHFactor(), options.DilationWFactor()),
        options.Padding(),
    )
    activation = activation_epilogue(options.FusedActivationFunction())
    if weights.constant is None:
        return Parsed(ComputedDepthwise(window, out // channels), (0, 1), (*bias_epilogue(inputs, out), *activation))
    attributes = Depthwise(window, out // channels, weights.constant, optional_bias(inputs, out))
    return Parsed(attributes, (0,), (*computed_bias(inputs, out), *activation))


def _output_shapes(attributes: Depthwise | ComputedDepthwise, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    if isinstance(attributes, ComputedDepthwise):
        return depthwise_shapes(attributes, shapes)
    batch, height, width, _ = shapes[0]
    return [(batch, *attributes.window.output_size(height, width), attributes.weights.shape[3])]


def _lower(lowering: Lowering) -> list[Launch]:
    if isinstance(lowering.attributes, ComputedDepthwise):
        return lower_depthwise(lowering)
    return [launch_depthwise(lowering, lowering.outputs[0], lowering.attributes)]


def launch_depthwise(lowering: Lowering, destination: TensorId, attributes: Depthwise) -> Launch:
    """One dispatch that writes ``destination``, a number of invocations for each slice of each pixel."""
    _, height, width, _ = lowering.shape(lowering.inputs[0])
    batch, rows, columns, channels = lowering.shape(destination)
    window, count = attributes.window, batch * rows * columns * slices(channels)
    parts = choose_parts(count, math.prod(window.size), lowering.target)
    items = lowering.group_size // parts
    constants = window.constants(height, width) | {
        "MULTIPLIER": attributes.multiplier, "PARTS": parts, "ITEMS": items,
        "TAPS": -(-math.prod(window.size) // parts),
    }  # fmt: skip
    arrays = {"weights": pack_depthwise(attributes.weights), "bias": pack_bias(attributes.bias, channels)}
    reads, writes = {"src": lowering.inputs[0]}, {"dst": destination}
    shared = (("float4", "partial", lowering.group_size if parts > 1 else 1),)
    own = SliceOwnership(items, slices(channels))
    return Launch("depthwise", reads, writes, -(-count // items), constants, arrays, shared, slice_ownership=own)


def choose_parts(count: int, taps: int, target: Target) -> int:
    """Among how many invocations to divide the taps of each of ``count`` results, so that few results fill a device
    too: into short shares or not at all.
    """
    parts = 1
    while (
        2 * parts * count <= target.invocations // BUSY
        and 2 * parts * LEAST_TAPS <= taps
        and 2 * parts <= target.group_size
    ):
        parts *= 2
    return parts if parts * MOST_TAPS >= taps else 1


OPERATORS = (Operator("DEPTHWISE_CONV_2D", _parse, _output_shapes, _lower, max_version=7),)
