"""Memory by lifetime: the place of each intermediate tensor in one arena while it is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

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
    """Place the largest tensor first, or the longest-lived one if the arena is smaller so.

    Among equal tensors, the earlier in ``lifetimes`` is placed first.
    """
    plan = _placed(lifetimes, sorted(lifetimes, key=lambda tensor: -lifetimes[tensor].nbytes), alignment)
    if plan.nbytes == most_alive(lifetimes.values()):
        return plan
    by_life = sorted(lifetimes, key=lambda t: (lifetimes[t].first - lifetimes[t].last, -lifetimes[t].nbytes))
    return min(plan, _placed(lifetimes, by_life, alignment), key=lambda each: each.nbytes)


def most_alive(lifetimes: Iterable[Lifetime]) -> int:
    """The most bytes of tensors that are needed at the same time: no arena can be smaller."""
    changes = Counter[int]()
    for life in lifetimes:
        changes[life.first] += life.nbytes
        changes[life.last + 1] -= life.nbytes
    return max(accumulate(changes[step] for step in sorted(changes)), default=0)


def _placed(lifetimes: Mapping[TensorId, Lifetime], order: Sequence[TensorId], alignment: int) -> Plan:
    """Place the tensors in this order, each at the lowest offset that no tensor alive at the same time covers."""
    offsets: dict[TensorId, int] = {}
    alive: dict[int, list[TensorId]] = {}
    for tensor in order:
        life = lifetimes[tensor]
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
