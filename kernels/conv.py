"""CONV_2D with constant weights (OHWI, as in TFLite)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .blocks import choose_block
from .elementwise import activation_links, require_float
from .layout import slices
from .operator import Launch, Lowering, Operator, Parsed, TensorInfo, Unsupported
from .window import Window


@dataclass(frozen=True)
class Convolution:
    """``weights`` is (O, H, W, I) and ``bias`` (O,) or None, float32 or float16; arrays compare by identity.

    With ``groups``, I is a group's share of the input channels, and both I and O / groups are multiples of four.
    """

    window: Window
    weights: np.ndarray = field(compare=False)
    bias: np.ndarray | None = field(compare=False, default=None)
    groups: int = 1


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
    """One dispatch, with the largest blocks of which there are enough to fill the device."""
    batch, height, width, depth = lowering.shape(source)
    _, rows, columns, channels = lowering.shape(lowering.outputs[0])
    window = attributes.window
    constants = window.constants(height, width)
    flat = window.size == window.strides == (1, 1) and not constants["PADDED"]
    rows, columns = (1, batch * rows * columns) if flat else (rows, columns)
    pictures = 1 if flat else batch
    taps = window.size[0] * window.size[1]
    block = choose_block(pictures * rows, columns, slices(channels), taps, slices(depth), lowering.grid)
    step, row_blocks = -(-slices(channels) // block.slices), -(-columns // block.pixels)
    blocks = pictures * rows * row_blocks * step
    constants |= {
        "PIXELS": block.pixels, "SLICES": block.slices, "SPLIT": block.split, "SPLIT_SLICES": block.split_slices,
        "SLICE_STEP": step, "ROW_BLOCKS": row_blocks, "ROWS": rows, "COLUMNS": columns, "BLOCKS": blocks,
        "FLAT": int(flat),
    }  # fmt: skip
    arrays = {"weights": pack_weights(attributes.weights), "bias": pack_bias(attributes.bias, channels)}
    shared = (("float4", "partial", lowering.group * block.pixels * block.slices if block.split > 1 else 1),)
    tiles = -(-blocks // (lowering.group // block.split))
    return Launch("conv", {"src": source}, {"dst": lowering.outputs[0]}, tiles, constants, arrays, shared)


def _parse_convolution(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_float(*inputs, *outputs)
    source, weights = inputs[0], constant(inputs[1], "weights")
    if source is None or len(source.shape) != 4 or weights.ndim != 4:
        raise Unsupported("input and weights must have rank 4")
    groups, rest = divmod(source.shape[3], weights.shape[3])
    if rest or groups == 0 or weights.shape[0] % groups:
        raise Unsupported(f"weights of shape {weights.shape} do not divide {source.shape[3]} channels into groups")
    if weights.shape[3] % 4 or weights.shape[0] // groups % 4:
        weights, groups = ungrouped(weights, groups), 1
    window = Window(
        weights.shape[1:3],
        (options.StrideH(), options.StrideW()),
        (options.DilationHFactor(), options.DilationWFactor()),
        options.Padding(),
    )
    attributes = Convolution(window, weights, optional_bias(inputs, weights.shape[0]), groups)
    return Parsed(attributes, (0,), activation_links(options.FusedActivationFunction()))


def ungrouped(weights: np.ndarray, groups: int) -> np.ndarray:
    """The weights of a grouped convolution for all input channels: zeros outside a group's own."""
    out, height, width, share = weights.shape
    full = np.zeros((out, height, width, share * groups), weights.dtype)
    for group in range(groups):
        rows = slice(group * out // groups, (group + 1) * out // groups)
        full[rows, :, :, group * share : (group + 1) * share] = weights[rows]
    return full


def _convolution_shapes(attributes: Convolution, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    batch, height, width, _ = shapes[0]
    return [(batch, *attributes.window.output_size(height, width), attributes.weights.shape[0])]


def _lower_convolution(lowering: Lowering) -> list[Launch]:
    if lowering.attributes.groups > 1:
        return [_launch_grouped(lowering, lowering.attributes)]
    return [launch_convolution(lowering, lowering.inputs[0], lowering.attributes)]


def _launch_grouped(lowering: Lowering, attributes: Convolution) -> Launch:
    """One dispatch, one invocation for each slice of each output pixel."""
    _, height, width, _ = lowering.shape(lowering.inputs[0])
    batch, rows, columns, channels = lowering.shape(lowering.outputs[0])
    constants = attributes.window.constants(height, width) | {"GROUPS": attributes.groups}
    arrays = {"weights": pack_weights(attributes.weights), "bias": pack_bias(attributes.bias, channels)}
    tiles = lowering.tiles(batch * rows * columns * slices(channels))
    reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
    return Launch("grouped_conv", reads, writes, tiles, constants, arrays)


OPERATORS = (Operator("CONV_2D", _parse_convolution, _convolution_shapes, _lower_convolution, max_version=6),)
