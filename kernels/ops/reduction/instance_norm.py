"""Instance normalization. delegate/transform/instance_norm.py makes it from the operators of which a model composes it.

It takes two dispatches: partial sums by many work-groups; then every work-group adds those up for itself and scales its
share of the pixels. Sums are of differences to a pixel of the same channel, which keeps them small. If tensors are kept
in 16 bits, delegate/lower/partial_sums.py leaves out the first: the kernel that writes the pixels adds them up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...operation import Fusion, Launch, Lowering, Operation
from ...target import Target
from ...tensor import slices
from ..convolution.heuristics import TILE_INVOCATIONS

ROUNDS = (2, 8)
"""The fewest and the most rounds of a work-group that scales pixels. Not measured."""


@dataclass(frozen=True)
class InstanceNorm(Operation):
    """y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, over the pixels of each channel.

    Inputs: x, gamma, beta; the last two have one value per channel.
    """

    limits_errors: ClassVar[bool] = True

    epsilon: float

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [shapes[0]]

    def lower(self, lowering: Lowering) -> list[Launch]:
        source, gamma, beta = lowering.inputs
        batch, height, width, channels = lowering.shape(source)
        depth, group_size = slices(channels), lowering.group_size
        parts = int(np.clip(height * width // (group_size * 4), 1, 16))
        sums = lowering.scratch((batch, parts, 3, channels))
        arrays = (("float4", "sum_of", group_size), ("float4", "square_of", group_size))
        partial = Launch(
            "moments", {"src": source}, {"sums": sums}, batch * depth * parts, {"PARTS": parts}, {}, arrays,
            fusion=Fusion(is_moments=True),
        )  # fmt: skip
        items = height * width * depth
        per_group = _items_of_group(items, lowering.target)
        lanes = min(depth, group_size)
        constants: dict[str, int | float] = {
            "EPSILON": float(self.epsilon), "ITEMS": per_group, "TILES_PER_PICTURE": -(-items // per_group),
            "LANES": lanes, "SHARES": 1 << (group_size // lanes).bit_length() - 1,
        }  # fmt: skip
        reads = {"src": source, "gamma": gamma, "beta": beta, "sums": sums}
        apply = Launch(
            "instance_norm", reads, {"dst": lowering.outputs[0]}, batch * -(-items // per_group),
            constants, {}, (*arrays, ("float4", "factor", depth), ("float4", "addend", depth)),
            tolerates_f16=("src", "dst"), fusion=Fusion(is_normalization=True),
        )  # fmt: skip
        return [partial, apply]


def _items_of_group(items: int, target: Target) -> int:
    """The number of slices that a work-group scales: whole rounds of its invocations. There are at most two work-groups
    per compute unit, because each of them first adds up all partial sums.
    """
    groups = max(target.invocations // TILE_INVOCATIONS, 1)
    return int(np.clip(-(-items // (groups * target.group_size)), *ROUNDS)) * target.group_size
