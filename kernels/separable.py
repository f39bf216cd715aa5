"""A depthwise convolution and the 1x1 convolution that reads it, as one dispatch; made by delegate/separable.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .conv import Convolution, pack_bias, pack_weights
from .depthwise import Depthwise, pack_depthwise
from .layout import slices
from .operator import Choice, Grid, Launch, Lowering, Operator, Parsed
from .reduce import LARGEST

LOCAL_SLICES = 512
"""Slices of depthwise values in a work-group's local memory: 8 KiB of the 16 KiB that every device has."""
PRODUCTS = 1024
"""Input by output slices of the pointwise convolution: each tile reads all weights, and waits for many of them."""
CLAMPS: dict[tuple[str, ...], tuple[float, float]] = {
    (): (-LARGEST, LARGEST), ("RELU",): (0.0, LARGEST), ("RELU6",): (0.0, 6.0),
    ("RELU_0_TO_1",): (0.0, 1.0), ("RELU_N1_TO_1",): (-1.0, 1.0),
}  # fmt: skip
"""The activations that may stand between the two: between which values they clamp."""


@dataclass(frozen=True)
class Separable:
    """``activation`` is a key of CLAMPS, applied between the two; ``depthwise.multiplier`` is 1."""

    depthwise: Depthwise
    activation: tuple[str, ...]
    pointwise: Convolution


class SeparableTile(NamedTuple):
    """The output pixels of a work-group, and how many of them an invocation computes."""

    pixels: int
    block: int


def choose_tile(pixels: int, depth: int, grid: Grid) -> SeparableTile:
    """For ``pixels`` outputs of ``depth`` input slices: as many a tile as leave two tiles for 2048 invocations."""
    size = 1
    while 2 * size * depth <= LOCAL_SLICES and size < 64 and pixels * 1024 >= 2 * size * grid.invocations:
        size *= 2
    return SeparableTile(size, min(size, 4))


def tile_candidates(pixels: int, depth: int, grid: Grid) -> tuple[SeparableTile, ...]:
    """The tile of ``choose_tile``, and those of a quarter to four times its pixels."""
    rule = choose_tile(pixels, depth, grid)
    sizes = [size for size in (1, 2, 4, 8, 16, 32, 64) if rule.pixels <= 4 * size <= 16 * rule.pixels]
    fitting = [SeparableTile(size, min(size, 4)) for size in sizes if size * depth <= LOCAL_SLICES]
    return tuple(dict.fromkeys((rule, *fitting)))


def _lower(lowering: Lowering) -> list[Launch]:
    attributes: Separable = lowering.attributes
    _, height, width, depth = lowering.shape(lowering.inputs[0])
    batch, rows, columns, channels = lowering.shape(lowering.outputs[0])
    pixels = batch * rows * columns
    candidates = tile_candidates(pixels, slices(depth), lowering.grid)
    window = attributes.depthwise.window
    question = f"separable {(pixels, slices(depth), slices(channels), *window.size, *window.strides)}"
    choice = Choice[SeparableTile](question, candidates)
    tile = lowering.grid.take(choice)
    blocks = tile.pixels // tile.block * slices(channels)
    lanes = min(blocks, lowering.group)
    split = min(lowering.group // lanes, slices(depth))
    low, high = CLAMPS[attributes.activation]
    constants = window.constants(height, width) | {
        "PER_TILE": tile.pixels, "PIXELS": pixels, "BLOCK": tile.block, "BLOCKS": blocks, "LANES": lanes,
        "SPLIT": split, "LOW": low, "HIGH": high,
    }  # fmt: skip
    arrays = {
        "depth_weights": pack_depthwise(attributes.depthwise.weights),
        "depth_bias": pack_bias(attributes.depthwise.bias, depth),
        "weights": pack_weights(attributes.pointwise.weights),
        "bias": pack_bias(attributes.pointwise.bias, channels),
    }
    partial = lowering.group * tile.block if split > 1 else 1
    shared = (("float4", "middle", tile.pixels * slices(depth)), ("float4", "partial", partial))
    reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
    tiles = -(-pixels // tile.pixels)
    return [Launch("separable", reads, writes, tiles, constants, arrays, shared, choice=choice)]


def _output_shapes(attributes: Separable, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    batch, height, width, _ = shapes[0]
    return [(batch, *attributes.depthwise.window.output_size(height, width), attributes.pointwise.weights.shape[0])]


SEPARABLE = Operator("SEPARABLE_CONV_2D", lambda *_: Parsed(None), _output_shapes, _lower)
"""Not a TFLite operator."""
