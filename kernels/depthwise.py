"""DEPTHWISE_CONV_2D with constant weights (1, H, W, O): output channel o reads input channel o / multiplier."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .conv import constant, optional_bias, pack_bias
from .elementwise import activation_links, require_float
from .layout import slices
from .operator import Launch, Lowering, Operator, Parsed, TensorInfo, Unsupported
from .window import Window


@dataclass(frozen=True)
class Depthwise:
    """``weights`` is (1, H, W, O); ``multiplier`` output channels belong to each input channel."""

    window: Window
    multiplier: int
    weights: np.ndarray = field(compare=False)
    bias: np.ndarray | None = field(compare=False, default=None)


def _parse(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_float(*inputs, *outputs)
    source, weights = inputs[0], constant(inputs[1], "weights")
    if source is None or len(source.shape) != 4 or weights.ndim != 4 or weights.shape[0] != 1:
        raise Unsupported("input must have rank 4 and weights the shape [1, height, width, channels]")
    channels, out = source.shape[3], weights.shape[3]
    if channels == 0 or out % channels:
        raise Unsupported(f"{out} output channels are no multiple of {channels} input channels")
    window = Window(
        weights.shape[1:3],
        (options.StrideH(), options.StrideW()),
        (options.DilationHFactor(), options.DilationWFactor()),
        options.Padding(),
    )
    attributes = Depthwise(window, out // channels, weights, optional_bias(inputs, out))
    return Parsed(attributes, (0,), activation_links(options.FusedActivationFunction()))


def _output_shapes(attributes: Depthwise, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    batch, height, width, _ = shapes[0]
    return [(batch, *attributes.window.output_size(height, width), attributes.weights.shape[3])]


def _lower(lowering: Lowering) -> list[Launch]:
    attributes: Depthwise = lowering.attributes
    _, height, width, _ = lowering.shape(lowering.inputs[0])
    batch, rows, columns, channels = lowering.shape(lowering.outputs[0])
    kernel_height, kernel_width = attributes.window.size
    weights = np.zeros((kernel_height, kernel_width, slices(channels) * 4), np.float32)
    weights[:, :, :channels] = attributes.weights[0]
    constants = attributes.window.constants(height, width) | {"MULTIPLIER": attributes.multiplier}
    arrays = {"weights": weights.reshape(-1, 4), "bias": pack_bias(attributes.bias, channels)}
    tiles = lowering.tiles(batch * rows * columns * slices(channels))
    return [Launch("depthwise", {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}, tiles, constants, arrays)]


OPERATORS = (Operator("DEPTHWISE_CONV_2D", _parse, _output_shapes, _lower, max_version=6),)
