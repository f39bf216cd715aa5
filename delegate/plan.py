"""Memory by lifetime: where in one arena each intermediate tensor lies while it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Lifetime:
    """A tensor's size in bytes, and the first and last step that touch it."""

    nbytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Plan:
    """An offset in bytes for each tensor, and the size of the arena that holds them all."""

    offsets: dict[int, int]
    nbytes: int


def plan_memory(lifetimes: Mapping[int, Lifetime], alignment: int) -> Plan:
    """Greedy by size: the largest tensor first, each at the lowest offset that no tensor alive at the same time
    covers.
    """
    placed: list[tuple[int, int, Lifetime]] = []
    offsets: dict[int, int] = {}
    for tensor, life in sorted(lifetimes.items(), key=lambda item: (-item[1].nbytes, item[0])):
        offset = 0
        for start, end, other in sorted(placed, key=lambda entry: entry[:2]):
            overlaps = other.first <= life.last and life.first <= other.last
            if overlaps and offset + life.nbytes > start and end > offset:
                offset = -(-end // alignment) * alignment
        offsets[tensor] = offset
        placed.append((offset, offset + life.nbytes, life))
    return Plan(offsets, max((end for _, end, _ in placed), default=0))
