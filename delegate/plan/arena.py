"""Memory by lifetime: the place of each intermediate tensor in one arena while it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...kernels.tensor import TensorId


@dataclass(frozen=True)
class Lifetime:
    """A tensor's size in bytes, and the first and last step that touch it."""

    nbytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Plan:
    """An offset in bytes for each tensor, and the size of the arena that holds them all."""

    offsets: dict[TensorId, int]
    nbytes: int


def plan_memory(lifetimes: Mapping[TensorId, Lifetime], alignment: int) -> Plan:
    """Place the largest tensor first, each at the lowest offset that no tensor alive at the same time covers.

    Among tensors of one size, the earlier in ``lifetimes`` is placed first.
    """
    offsets: dict[TensorId, int] = {}
    alive: dict[int, list[TensorId]] = {}
    for tensor, life in sorted(lifetimes.items(), key=lambda item: -item[1].nbytes):
        steps = range(life.first, life.last + 1)
        beside = {other for step in steps for other in alive.get(step, ())}
        offset = 0
        for start, end in sorted((offsets[other], offsets[other] + lifetimes[other].nbytes) for other in beside):
            if offset + life.nbytes > start and end > offset:
                offset = -(-end // alignment) * alignment
        offsets[tensor] = offset
        for step in steps:
            alive.setdefault(step, []).append(tensor)
    return Plan(offsets, max((offsets[tensor] + life.nbytes for tensor, life in lifetimes.items()), default=0))
