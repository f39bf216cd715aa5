"""CONV_2D with constant weights (OHWI, as in TFLite), and FULLY_CONNECTED, which is one with a 1x1 window."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .elementwise import activation_links, require_float
from .layout import slices
from .operator import Launch, Lowering, Operator, Parsed, TensorInfo, Unsupported
from .window import VALID, Window


BLOCK, BLOCK_FROM = 4, 1 << 18
"""How many pixels an invocation computes, and from how many output slices on: below, a GPU is short of invocations."""


@dataclass(frozen=True)
class Convolution:
    """``weights`` is (O, H, W, I) and ``bias`` (O,) or None, float32 or float16; arrays compare by identity."""

    window: Window
    weights: np.ndarray = field(compare=False)
    bias: np.ndarray | None = field(compare=False, default=None)


@dataclass(frozen=True)
class FullyConnected:
    """``weights`` is (units, inputs). The input is flattened to rows of ``inputs`` values."""

    weights: np.ndarray = field(compare=False)
    bias: np.ndarray | None = field(compare=False, default=None)
    keep_dimensions: bool = False


def constant(tensor: TensorInfo | None, what: str) -> np.ndarray:
    """The values of a constant input; Unsupported where it is computed at run time."""
    if tensor is None or tensor.constant is None:
        raise Unsupported(f"{what} must be constant")
    return tensor.constant


def optional_bias(inputs: list[TensorInfo | None], channels: int) -> np.ndarray | None:
    """The bias, input 2, checked to have one value per output channel; None where there is none."""
    if len(inputs) < 3 or inputs[2] is None:
        return None
    bias = constant(inputs[2], "bias").reshape(-1)
    if bias.size != channels:
        raise Unsupported(f"bias has {bias.size} values for {channels} output channels")
    return bias


def pack_bias(bias: np.ndarray | None, channels: int) -> np.ndarray:
    """(slices, 4) float32, zeros where there is no bias or no channel."""
    packed = np.zeros(slices(channels) * 4, np.float32)
    packed[:channels] = 0 if bias is None else bias
    return packed.reshape(-1, 4)


def pack_weights(weights: np.ndarray) -> np.ndarray:
    """OHWI weights as (n, 4) float32 in the order [ky][kx][input slice][input lane][output slice][output lane].

    Neighbouring invocations compute neighbouring output slices and so read neighbouring float4 values.
    """
    out, height, width, in_ = weights.shape
    padded = np.zeros((slices(out) * 4, height, width, slices(in_) * 4), np.float32)
    padded[:out, :, :, :in_] = weights
    return np.ascontiguousarray(padded.transpose(1, 2, 3, 0)).reshape(-1, 4)


def launch_convolution(lowering: Lowering, source: int, attributes: Convolution) -> Launch:
    """One dispatch: each invocation computes BLOCK neighbouring pixels of one output slice."""
    _, height, width, _ = lowering.shape(source)
    batch, rows, columns, channels = lowering.shape(lowering.outputs[0])
    pixels = batch * rows * columns
    block = min(columns, BLOCK) if pixels * slices(channels) >= BLOCK_FROM else 1
    blocks = -(-columns // block)
    items = batch * rows * blocks * slices(channels)
    constants = attributes.window.constants(height, width) | {"BLOCK": block, "BLOCKS": blocks, "ITEMS": items}
    arrays = {"weights": pack_weights(attributes.weights), "bias": pack_bias(attributes.bias, channels)}
    reads, writes = {"src": source}, {"dst": lowering.outputs[0]}
    return Launch("conv", reads, writes, lowering.tiles(items), constants, arrays)


def _parse_convolution(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_float(*inputs, *outputs)
    source, weights = inputs[0], constant(inputs[1], "weights")
    if source is None or len(source.shape) != 4 or weights.ndim != 4:
        raise Unsupported("input and weights must have rank 4")
    if weights.shape[3] != source.shape[3]:
        raise Unsupported(
            f"grouped convolution ({source.shape[3]} channels, weights for {weights.shape[3]}) is not supported"
        )
    window = Window(
        weights.shape[1:3],
        (options.StrideH(), options.StrideW()),
        (options.DilationHFactor(), options.DilationWFactor()),
        options.Padding(),
    )
    attributes = Convolution(window, weights, optional_bias(inputs, weights.shape[0]))
    return Parsed(attributes, (0,), activation_links(options.FusedActivationFunction()))


def _convolution_shapes(attributes: Convolution, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    batch, height, width, _ = shapes[0]
    return [(batch, *attributes.window.output_size(height, width), attributes.weights.shape[0])]


def _lower_convolution(lowering: Lowering) -> list[Launch]:
    return [launch_convolution(lowering, lowering.inputs[0], lowering.attributes)]


def _parse_fully_connected(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_float(*inputs, *outputs)
    source, weights = inputs[0], constant(inputs[1], "weights")
    if source is None or weights.ndim != 2:
        raise Unsupported("weights must have rank 2")
    if options.WeightsFormat():
        raise Unsupported("only the default weights format is supported")
    attributes = FullyConnected(weights, optional_bias(inputs, weights.shape[0]), bool(options.KeepNumDims()))
    if np.prod(source.shape, dtype=np.int64) % weights.shape[1]:
        raise Unsupported(f"input {source.shape} is no number of rows of {weights.shape[1]} values")
    return Parsed(attributes, (0,), activation_links(options.FusedActivationFunction()))


def _fully_connected_shapes(attributes: FullyConnected, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    units, inputs = attributes.weights.shape
    if attributes.keep_dimensions:
        return [(*shapes[0][:-1], units)]
    return [(int(np.prod(shapes[0], dtype=np.int64)) // inputs, units)]


def _lower_fully_connected(lowering: Lowering) -> list[Launch]:
    """A 1x1 convolution, after a reshape where the rows to multiply are not the pixels' channels already."""
    attributes: FullyConnected = lowering.attributes
    units, inputs = attributes.weights.shape
    source, launches = lowering.inputs[0], []
    batch, rows, columns, _ = lowering.shape(lowering.outputs[0])
    if lowering.shape(source) != (batch, rows, columns, inputs):
        flat = lowering.scratch((batch, rows, columns, inputs))
        items = batch * rows * columns * slices(inputs)
        launches.append(Launch("reshape", {"src": source}, {"dst": flat}, lowering.tiles(items)))
        source = flat
    weights = attributes.weights.reshape(units, 1, 1, inputs)
    convolution = Convolution(Window((1, 1), (1, 1), padding=VALID), weights, attributes.bias)
    return [*launches, launch_convolution(lowering, source, convolution)]


OPERATORS = (
    Operator("CONV_2D", _parse_convolution, _convolution_shapes, _lower_convolution, max_version=6),
    Operator("FULLY_CONNECTED", _parse_fully_connected, _fully_connected_shapes, _lower_fully_connected, max_version=9),
)
