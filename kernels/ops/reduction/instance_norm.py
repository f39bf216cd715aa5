"""Instance normalization, which delegate/transform/instance_norm.py makes of the operators that spell it out.

It takes two dispatches: partial sums by many work-groups; then every work-group adds those up for itself and scales its
share of the pixels. Sums are of differences to a pixel of the same channel, which keeps them small."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...operation import Launch, Lowering, Operation
from ...tensor import slices


@dataclass(frozen=True)
class InstanceNorm(Operation):
    """y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, over the pixels of each channel.

    Inputs: x, gamma, beta; the last two have one value per channel.
    """

    epsilon: float

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [shapes[0]]

    def lower(self, lowering: Lowering) -> list[Launch]:
        source, gamma, beta = lowering.inputs
        batch, height, width, channels = lowering.shape(source)
        parts = int(np.clip(height * width // (lowering.group_size * 4), 1, 16))
        sums, squares = (lowering.scratch((batch, 1, parts, channels)) for _ in range(2))
        local = (("float4", "sum_of", lowering.group_size), ("float4", "square_of", lowering.group_size))
        partial = Launch(
            "moments", {"src": source}, {"sums": sums, "squares": squares}, batch * slices(channels) * parts,
            {"PARTS": parts}, {}, local,
        )  # fmt: skip
        per_group = lowering.group_size * 4
        constants = {"PARTS": parts, "EPSILON": float(self.epsilon), "ITEMS": per_group}
        items = height * width * slices(channels)
        tiles_per_picture = -(-items // per_group)
        reads = {"src": source, "gamma": gamma, "beta": beta, "sums": sums, "squares": squares}
        local = (("float4", "factor", slices(channels)), ("float4", "addend", slices(channels)))
        apply = Launch(
            "instance_norm", reads, {"dst": lowering.outputs[0]}, batch * tiles_per_picture,
            constants | {"TILES_PER_PICTURE": tiles_per_picture}, {}, local, tolerates_f16=True,
        )  # fmt: skip
        return [partial, apply]
