"""Indices of argmax pooling, which the GPU counts in another way than XNNPACK: both ends must be on one side."""

from __future__ import annotations

from collections.abc import Collection

from ..read.model import RawOperator, Subgraph

_PLACE_OF_INDICES = {"MaxPoolingWithArgmax2D": ("outputs", 1), "MaxUnpooling2D": ("inputs", 1)}


def divided(on_gpu: Collection[int], subgraph: Subgraph) -> dict[int, str]:
    """The reason for each pooling or unpooling ``on_gpu`` whose indices one on the CPU writes or reads."""
    users: dict[int, list[RawOperator]] = {}
    for raw in subgraph.operators:
        if raw.custom and raw.name in _PLACE_OF_INDICES:
            side, place = _PLACE_OF_INDICES[raw.name]
            if place < len(ends := getattr(raw, side)):  # a damaged one has none, and stays on the CPU
                users.setdefault(ends[place], []).append(raw)
    reasons: dict[int, str] = {}
    for operators in users.values():
        other = next((raw for raw in operators if raw.index not in on_gpu), None)
        if other is not None:
            reason = (
                f"operator {other.index} {other.name}, on the CPU, has its indices too, which XNNPACK counts otherwise"
            )
            reasons.update(dict.fromkeys({raw.index for raw in operators}.intersection(on_gpu), reason))
    return reasons
