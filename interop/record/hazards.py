"""Hazards between steps: the steps that must not begin before earlier ones have finished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...kernels.codegen.source import Argument
from ...kernels.tensor import slices
from ...kernels.views import SLICE_BYTES, Sliced
from ..device import Resource, Slot, Step


class _Touch(NamedTuple):
    """An access to the bytes from ``start`` to ``end``, or to ``width`` bytes at each ``stride`` from ``start`` on, if
    that is not 0.
    """

    resource: Resource | Slot
    writes: bool
    start: int
    end: int
    stride: int
    width: int


def hazards(steps: Sequence[Step]) -> list[int]:
    """The numbers of the steps that need a barrier before them. Such a step accesses memory that an earlier step
    accessed, and at least one of the two writes it.

    A barrier orders everything before it, so only accesses since the last barrier count. Ranges of channels of one
    tensor, which parts of a concatenation are, have no byte in common.
    """
    barriers: list[int] = []
    touched: list[_Touch] = []
    for number, step in enumerate(steps):
        touches = [_touch(step, argument) for argument in step.kernel.source.arguments if argument.has_memory]
        if any(_conflict(old, new) for old in touched for new in touches):
            barriers.append(number)
            touched = []
        touched += touches
    return barriers


def _touch(step: Step, argument: Argument) -> _Touch:
    operand, view = step.operands[argument.name], argument.view
    end = operand.offset + operand.nbytes if operand.nbytes else 1 << 62
    stride = width = 0
    if isinstance(view, Sliced):
        unit = SLICE_BYTES[view.storage]
        stride, width = unit * view.stride, unit * slices(view.shape[3])
    return _Touch(operand.resource, "w" in argument.access, operand.offset, end, stride, width)


def _conflict(old: _Touch, new: _Touch) -> bool:
    same = old.resource is new.resource or (isinstance(old.resource, Slot) and old.resource == new.resource)
    if not same or not (old.writes or new.writes) or old.end <= new.start or new.end <= old.start:
        return False
    if not old.stride or old.stride != new.stride:
        return True
    distance = (new.start - old.start) % old.stride
    return distance < old.width or distance + new.width > old.stride
