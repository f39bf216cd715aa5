"""The mean of all pixels and the small layers behind it, as one dispatch; delegate/squeeze_excite.py makes it."""

from __future__ import annotations

from dataclasses import dataclass

from .conv import Convolution, pack_bias, pack_weights
from .layout import slices
from .operator import Launch, Lowering, Operator, Parsed
from .reduce import lower_reduction
from .separable import CLAMPS

READS = 64
"""Slices that an invocation of the one work-group reads at most; rows of larger pictures are reduced by many before."""
PRODUCTS = 512
"""Input by output slices of a layer: more are too slow for one work-group."""


@dataclass(frozen=True)
class SqueezeExcite:
    """``layers`` are one or two 1x1 convolutions; ``activation``, a key of CLAMPS, stands between two."""

    layers: tuple[Convolution, ...]
    activation: tuple[str, ...]


def _lower(lowering: Lowering) -> list[Launch]:
    """One dispatch, or, for large pictures, one that reduces rows and one for all else."""
    attributes: SqueezeExcite = lowering.attributes
    source, launches = lowering.inputs[0], []
    batch, height, width, depth = lowering.shape(source)
    if height * width * slices(depth) > READS * lowering.group and min(height, width) > 1:
        rows = lowering.scratch((batch, height, 1, depth))
        launches = lower_reduction(lowering, frozenset({2}), target=rows)
        source = rows
    channels = lowering.shape(lowering.outputs[0])[3]
    last = attributes.layers[-1]
    constants: dict[str, int | float] = {"LAYERS": len(attributes.layers), "LAST_S": slices(last.weights.shape[3])}
    constants |= _shares("MEAN_", slices(depth), lowering.group) | _shares("", slices(channels), lowering.group)
    arrays = {"weights": pack_weights(last.weights), "bias": pack_bias(last.bias, channels)}
    hidden, nothing = 1, pack_bias(None, 4)
    arrays |= {"hidden_weights": nothing, "hidden_bias": nothing}
    if len(attributes.layers) == 2:
        first = attributes.layers[0]
        hidden = slices(first.weights.shape[0])
        hidden_bias = pack_bias(first.bias, first.weights.shape[0])
        arrays |= {"hidden_weights": pack_weights(first.weights), "hidden_bias": hidden_bias}
    low, high = CLAMPS[attributes.activation]
    constants |= {"HIDDEN_S": hidden, "LOW": low, "HIGH": high, **_shares("HIDDEN_", hidden, lowering.group)}
    sizes = {"partial": lowering.group, "mean": slices(depth), "hidden": hidden}
    shared = tuple(("float4", name, size) for name, size in sizes.items())
    reads, writes = {"src": source}, {"dst": lowering.outputs[0]}
    return [*launches, Launch("squeeze_excite", reads, writes, batch, constants, arrays, shared)]


def _shares(name: str, count: int, group: int) -> dict[str, int | float]:
    """How a work-group divides sums of ``count`` slices."""
    lanes = min(count, group)
    return {f"{name}LANES": lanes, f"{name}SHARES": group // lanes}


def _output_shapes(attributes: SqueezeExcite, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [(shapes[0][0], 1, 1, attributes.layers[-1].weights.shape[0])]


SQUEEZE_EXCITE = Operator("SQUEEZE_EXCITE", lambda *_: Parsed(None), _output_shapes, _lower)
"""Not a TFLite operator."""
