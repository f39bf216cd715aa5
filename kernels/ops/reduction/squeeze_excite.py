"""Squeeze-and-excite: the mean of all pixels and the small layers behind it, one factor (gate) per channel.

delegate/transform/squeeze_excite.py makes the operation. It has two launches: sums of parts of the pixels, and the
gate. delegate/lower drops the first if the kernel that writes the pixels can add them up, and the second if the kernel
that reads the gate can compute it in a prologue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ...operation import Fusion, Launch, Lowering, Operation
from ...tensor import slices
from ..convolution.conv import Convolution
from ..convolution.packing import pack_bias, pack_weights
from ..convolution.separable import CLAMPS
from .reduce import lower_reduction

PRODUCTS = 512
"""The most products (input slices times output slices) of a layer: more are too slow for one work-group. H200,
2026-11-21, docs/internals/squeeze-excite.md.
"""
SHARES, MOST_TERMS = 8, 2
"""The number of invocations that share a sum. More of them would only wait for one another, unless each had more than
MOST_TERMS terms: an invocation keeps the weights of its terms in registers. Same measurement.
"""


@dataclass(frozen=True)
class SqueezeExcite(Operation):
    """``layers`` are one or two 1x1 convolutions; ``activation``, a key of CLAMPS, stands between two."""

    limits_errors: ClassVar[bool] = True

    layers: tuple[Convolution, ...]
    activation: tuple[str, ...]

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [(shapes[0][0], 1, 1, self.layers[-1].weights.shape[0])]

    def lower(self, lowering: Lowering) -> list[Launch]:
        batch, height, width, depth = lowering.shape(lowering.inputs[0])
        sums = lowering.scratch((batch, height, 1, depth))
        (rows,) = lower_reduction(lowering, frozenset({2}), "SUM", sums)
        channels = lowering.shape(lowering.outputs[0])[3]
        last = self.layers[-1]
        arrays = {"gate_weights": pack_weights(last.weights), "gate_bias": pack_bias(last.bias, channels)}
        hidden, nothing = 1, pack_bias(None, 4)
        arrays |= {"hidden_weights": nothing, "hidden_bias": nothing}
        if len(self.layers) == 2:
            first = self.layers[0]
            hidden = slices(first.weights.shape[0])
            hidden_bias = pack_bias(first.bias, first.weights.shape[0])
            arrays |= {"hidden_weights": pack_weights(first.weights), "hidden_bias": hidden_bias}
        low, high = CLAMPS[self.activation]
        depth_s, last_s, group_size = slices(depth), slices(last.weights.shape[3]), lowering.group_size
        constants: dict[str, int | float] = {
            "PICTURES": 1, "LAYERS": len(self.layers), "AREA": float(height * width), "HIDDEN_S": hidden,
            "LAST_S": last_s, "HIDDEN_LOW": low, "HIDDEN_HIGH": high, "MEAN_LANES": min(depth_s, group_size),
            "MEAN_SHARES": min(group_size // min(depth_s, group_size), 2 * SHARES),
            **_division("HIDDEN", hidden, depth_s, group_size),
            **_division("GATE", slices(channels), last_s, group_size),
        }  # fmt: skip
        sizes = {"partial": group_size, "mean": depth_s, "hidden": hidden}
        local = tuple(("float4", name, size) for name, size in sizes.items())
        reads, writes = {"sums": sums}, {"gate": lowering.outputs[0]}
        fusion = Fusion(fits_in_prologue=True)
        gate = Launch("squeeze_excite", reads, writes, batch, constants, arrays, local, fusion=fusion)
        return [replace(rows, fusion=Fusion(is_row_sum=True)), gate]


def _division(name: str, outputs: int, terms: int, group_size: int) -> dict[str, int | float]:
    """The division of sums of ``terms`` terms, one per output slice, in a work-group: LANES outputs at once in ROUNDS
    rounds, each output by SHARES invocations with TERMS terms each.
    """
    lanes = min(outputs, group_size)
    shares = min(group_size // lanes, terms, max(SHARES, -(-terms // MOST_TERMS)))
    values = {"LANES": lanes, "SHARES": shares, "ROUNDS": -(-outputs // lanes), "TERMS": -(-terms // shares)}
    return {f"{name}_{key}": value for key, value in values.items()}
