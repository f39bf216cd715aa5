"""Hazards between steps: the steps that must not begin before earlier ones have finished."""

from __future__ import annotations

from collections.abc import Sequence

from ..device import Resource, Slot, Step


def hazards(steps: Sequence[Step]) -> list[int]:
    """The numbers of the steps that need a barrier before them. Such a step accesses memory that an earlier step
    accessed, and at least one of the two writes it.

    A barrier orders everything before it, so only accesses since the last barrier count.
    """
    barriers: list[int] = []
    touched: list[tuple[Resource | Slot, int, int, bool]] = []
    for number, step in enumerate(steps):
        touches = []
        for argument in step.kernel.source.arguments:
            if not argument.has_memory:
                continue
            operand = step.operands[argument.name]
            end = operand.offset + operand.nbytes if operand.nbytes else 1 << 62
            touches.append((operand.resource, operand.offset, end, "w" in argument.access))
        if any(_conflict(old, new) for old in touched for new in touches):
            barriers.append(number)
            touched = []
        touched += touches
    return barriers


def _conflict(old: tuple[Resource | Slot, int, int, bool], new: tuple[Resource | Slot, int, int, bool]) -> bool:
    same = old[0] is new[0] or (isinstance(old[0], Slot) and old[0] == new[0])
    return same and (old[3] or new[3]) and old[1] < new[2] and new[1] < old[2]
