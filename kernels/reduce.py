"""MEAN over height and width, and the instance normalization that converters spell out with it.

The normalization takes two dispatches: partial sums by many work-groups, then every work-group adds those up for itself
and scales its share of the pixels. Sums are of differences to a pixel of the same channel, which keeps them small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .conv import constant
from .elementwise import require_float
from .layout import bhwc_axis, slices
from .operator import Launch, Lowering, Operator, Parsed, TensorInfo, Unsupported


@dataclass(frozen=True)
class Mean:
    """``axes`` of a TFLite shape of ``rank`` dimensions, not negative; ``keep`` says that they stay with size 1."""

    axes: tuple[int, ...]
    rank: int
    keep: bool


@dataclass(frozen=True)
class InstanceNorm:
    """y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, over the pixels of each channel.

    Inputs: x, gamma, beta; the last two have one value a channel.
    """

    epsilon: float


def lower_mean(lowering: Lowering, axes: frozenset[int]) -> Launch:
    """One dispatch, one work-group for each slice of each output pixel. ``axes`` are BHWC's.

    Pixels keep their order whether the reduced axes are dropped or kept, so the kernel counts output pixels.
    """
    shape = lowering.shape(lowering.inputs[0])
    sizes = {f"REDUCED_{name}": shape[axis] if axis in axes else 1 for axis, name in enumerate("BHW")}
    kept = {f"KEPT_{name}": 1 if axis in axes else shape[axis] for axis, name in enumerate("BHW")}
    tiles = kept["KEPT_B"] * kept["KEPT_H"] * kept["KEPT_W"] * slices(shape[3])
    shared = (("float4", "partial", lowering.group),)
    return Launch(
        "mean", {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}, tiles, {**sizes, **kept}, {}, shared
    )


def _parse_mean(options: Any, inputs: list[TensorInfo | None], outputs: list[TensorInfo]) -> Parsed:
    require_float(inputs[0], *outputs)
    source = inputs[0]
    if source is None:
        raise Unsupported("it needs an input")
    rank = len(source.shape)
    axes = tuple(sorted({int(axis) % rank for axis in constant(inputs[1], "axes").reshape(-1)}))
    if bhwc_axis(rank - 1, rank) in {bhwc_axis(axis, rank) for axis in axes}:
        raise Unsupported("a mean over channels is not supported")
    return Parsed(Mean(axes, rank, bool(options.KeepDims())))


def _mean_shapes(attributes: Mean, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    kept = [1 if axis in attributes.axes else size for axis, size in enumerate(shapes[0])]
    return [tuple(size for axis, size in enumerate(kept) if attributes.keep or axis not in attributes.axes)]


def _lower_mean(lowering: Lowering) -> list[Launch]:
    attributes: Mean = lowering.attributes
    return [lower_mean(lowering, frozenset(bhwc_axis(axis, attributes.rank) for axis in attributes.axes))]


def _lower_instance_norm(lowering: Lowering) -> list[Launch]:
    source, gamma, beta = lowering.inputs
    batch, height, width, channels = lowering.shape(source)
    parts = int(np.clip(height * width // (lowering.group * 4), 1, 16))
    sums, squares = (lowering.scratch((batch, 1, parts, channels)) for _ in range(2))
    shared = (("float4", "sum_of", lowering.group), ("float4", "square_of", lowering.group))
    partial = Launch(
        "moments", {"src": source}, {"sums": sums, "squares": squares}, batch * slices(channels) * parts,
        {"PARTS": parts}, {}, shared,
    )  # fmt: skip
    per_group = lowering.group * 4
    constants = {"PARTS": parts, "EPSILON": float(lowering.attributes.epsilon), "ITEMS": per_group}
    items = height * width * slices(channels)
    tiles_per_picture = -(-items // per_group)
    reads = {"src": source, "gamma": gamma, "beta": beta, "sums": sums, "squares": squares}
    shared = (("float4", "factor", slices(channels)), ("float4", "addend", slices(channels)))
    apply = Launch(
        "instance_norm", reads, {"dst": lowering.outputs[0]}, batch * tiles_per_picture,
        constants | {"TILES_PER_PICTURE": tiles_per_picture}, {}, shared,
    )  # fmt: skip
    return [partial, apply]


INSTANCE_NORM = Operator(
    "INSTANCE_NORM", lambda *_: Parsed(InstanceNorm(0.0)), lambda _, shapes: [shapes[0]], _lower_instance_norm
)
"""Not a TFLite operator: passes.py makes it of the ten that spell it out."""

OPERATORS = (Operator("MEAN", _parse_mean, _mean_shapes, _lower_mean, max_version=3),)
