"""Layer normalization and RMS normalization of the channels of each pixel, which delegate/transform/layer_norm.py makes
from the operators that spell them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...operation import Collapsed, Launch, Lowering, Operation
from ...tensor import slices

SLICES_PER_INVOCATION = 2
"""The number of slices that an invocation normalizes, if its work-group is large enough. More would leave fewer
invocations to wait for memory side by side.
"""


@dataclass(frozen=True)
class LayerNorm(Operation):
    """y = (x - mean) / sqrt(mean of (x - mean)^2 + epsilon), over the last dimension.

    Without ``centred`` the mean of x counts as 0.
    """

    limits_errors: ClassVar[bool] = True

    epsilon: float
    centred: bool = True

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [shapes[0]]

    def lower(self, lowering: Lowering) -> list[Launch]:
        batch, height, width, channels = lowering.shape(lowering.inputs[0])
        lanes = 1
        while lanes * SLICES_PER_INVOCATION < slices(channels) and lanes * 2 <= lowering.group_size:
            lanes *= 2
        pixels = batch * height * width
        constants: dict[str, int | float] = {
            "LANES": lanes, "TERMS": -(-slices(channels) // lanes), "PIXELS": pixels, "CENTRED": int(self.centred),
            "EPSILON": self.epsilon,
        }  # fmt: skip
        reads, writes = {"src": lowering.inputs[0]}, {"dst": lowering.outputs[0]}
        local = (("float", "partial", lowering.group_size),)
        return [Launch("layer_norm", reads, writes, lowering.group_count(pixels * lanes), constants, {}, local)]

    def collapsed(self, shapes: list[tuple[int, ...]]) -> Sequence[Collapsed]:
        return ()
