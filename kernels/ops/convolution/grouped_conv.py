"""Grouped convolutions: CONV_2D whose output channels each read one group of the input's channels."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...operation import Launch, Lowering, Operation, PackedArray
from ...tensor import slices
from ..window import Window
from .packing import pack_bias


@dataclass(frozen=True)
class GroupedConvolution(Operation):
    """``weights`` is (O, H, W, I) and ``bias`` (O,) or None, float32 or float16; arrays compare by identity.

    I is a group's share of the input channels. Output channels o, in groups of O / ``groups``, read one share each.
    """

    window: Window
    weights: np.ndarray = field(compare=False)
    bias: np.ndarray | None = field(compare=False, default=None)
    groups: int = field(kw_only=True)

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        batch, height, width, _ = shapes[0]
        return [(batch, *self.window.output_size(height, width), self.weights.shape[0])]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """One dispatch, one invocation for each slice of each output pixel."""
        source, destination = lowering.inputs[0], lowering.outputs[0]
        _, height, width, _ = lowering.shape(source)
        out, share = self.weights.shape[0], self.weights.shape[3]
        constants = self.window.constants(height, width) | {
            "SHARE": share, "GROUP_OUTPUTS": out // self.groups,
            "ALIGNED": int(share % 4 == 0 and out // self.groups % 4 == 0),
        }  # fmt: skip
        arrays = {"weights": pack_grouped(self.weights), "bias": pack_bias(self.bias, out)}
        return [
            Launch(
                "grouped_conv", {"src": source}, {"dst": destination}, lowering.groups_for(destination), constants,
                arrays,
            )
        ]  # fmt: skip


def pack_grouped(weights: np.ndarray) -> PackedArray:
    """OHWI weights as (n, 4) float32 in the order [ky][kx][channel of the group][output slice][output lane].

    Only output channels are padded: the weights take no more room than in the file.
    """
    out, height, width, share = weights.shape

    def pack() -> np.ndarray:
        padded = np.zeros((slices(out) * 4, height, width, share), np.float32)
        padded[:out] = weights
        return np.ascontiguousarray(padded.transpose(1, 2, 3, 0)).reshape(-1, 4)

    return PackedArray(height * width * share * slices(out), pack)
