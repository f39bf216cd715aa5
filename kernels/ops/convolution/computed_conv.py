"""CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV with weights that are computed while the model runs.

The weights are the second input, in TensorFlow Lite's layout. A bias is added by the epilogue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...operation import Launch, Lowering, Operation, Parsed, TfliteNode
from ...tensor import TensorInfo
from ..arguments import activation_epilogue, bias_epilogue, computed_bias, optional_bias
from ..window import Window

_INPUTS = ("src", "weights")


def parsed_convolution(
    node: TfliteNode,
    weights: TensorInfo,
    channels: int,
    computed: Operation,
    constant: Callable[[np.ndarray, np.ndarray | None], Operation],
) -> Parsed:
    """A convolution of input 0 with its bias, input 2, and its activation: ``computed`` if its weights, input 1, are;
    else what ``constant`` makes of the weights and a constant bias.
    """
    activation = activation_epilogue(node.options.FusedActivationFunction())
    if weights.constant is None:
        return Parsed(computed, (0, 1), (*bias_epilogue(node.inputs, channels), *activation))
    operation = constant(weights.constant, optional_bias(node.inputs, channels))
    return Parsed(operation, (0,), (*computed_bias(node.inputs, channels), *activation))


@dataclass(frozen=True)
class ComputedConvolution(Operation):
    """A convolution with weights of shape (O, H, W, I); I is one group's share of the input channels."""

    window: Window
    groups: int
    channels: int

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        batch, height, width, channels = shapes[0]
        _check_weights((self.channels, *self.window.size, channels // self.groups), shapes[1])
        return [(batch, *self.window.output_size(height, width), self.channels)]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """One dispatch."""
        _, height, width, _ = lowering.shape(lowering.inputs[0])
        constants = self.window.constants(height, width)
        return [lowering.launch("computed_conv", _INPUTS, constants | {"GROUPS": self.groups, "TRANSPOSED": 0})]


@dataclass(frozen=True)
class ComputedDepthwise(Operation):
    """A depthwise convolution with weights of shape (1, H, W, O), ``multiplier`` output channels per input channel."""

    window: Window
    multiplier: int

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        batch, height, width, channels = shapes[0]
        _check_weights((1, *self.window.size, channels * self.multiplier), shapes[1])
        return [(batch, *self.window.output_size(height, width), channels * self.multiplier)]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """One dispatch."""
        _, height, width, _ = lowering.shape(lowering.inputs[0])
        constants = self.window.constants(height, width) | {"MULTIPLIER": self.multiplier}
        return [lowering.launch("computed_depthwise", _INPUTS, constants)]


@dataclass(frozen=True)
class ComputedTranspose(Operation):
    """A transposed convolution with weights of shape (O, H, W, I). ``size`` is the output's (height, width)."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    size: tuple[int, int]
    channels: int

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        _check_weights((self.channels, *self.kernel, shapes[0][3]), shapes[1])
        return [(shapes[0][0], *self.size, self.channels)]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """One dispatch."""
        _, height, width, _ = lowering.shape(lowering.inputs[0])
        padding = cut_before((height, width), self.size, self.strides, self.kernel)
        constants: dict[str, int | float] = {
            "STRIDE_Y": self.strides[0], "STRIDE_X": self.strides[1], "DILATION_Y": 1, "DILATION_X": 1,
            "PAD_TOP": padding[0], "PAD_LEFT": padding[1], "GROUPS": 1, "TRANSPOSED": 1,
        }  # fmt: skip
        return [lowering.launch("computed_conv", _INPUTS, constants)]


def _check_weights(expected: tuple[int, ...], shape: tuple[int, ...]) -> None:
    if shape != expected:
        raise ValueError(f"weights of shape {shape} do not fit: {expected} is needed")


def cut_before(
    size: tuple[int, int], output: tuple[int, int], strides: tuple[int, int], kernel: tuple[int, int]
) -> tuple[int, int]:
    """The rows and columns that a transposed convolution cuts off at the top and left. They are the padding of the
    forward convolution.

    ``size`` is the input's (height, width).
    """
    reach = [(size[i] - 1) * strides[i] + kernel[i] - output[i] for i in (0, 1)]
    return max(0, reach[0]) // 2, max(0, reach[1]) // 2
