"""Hazards between steps: the steps that must not begin before earlier ones have finished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...kernels.codegen.source import Argument
from ...kernels.ranges import UNKNOWN_END, Range
from ...kernels.tensor import slices
from ...kernels.views import SLICE_BYTES, Sliced
from ..device import Resource, Slot, Step


class _Access(NamedTuple):
    """An access of a step to bytes of a memory."""

    resource: Resource | Slot
    writes: bool
    range: Range


def hazards(steps: Sequence[Step]) -> list[int]:
    """The numbers of the steps that need a barrier before them. Such a step accesses memory that an earlier step
    accessed, and at least one of the two writes it.

    A barrier orders everything before it, so only accesses since the last barrier count. Ranges of channels of one
    tensor, which parts of a concatenation are, have no byte in common.
    """
    barriers: list[int] = []
    open_accesses: list[_Access] = []
    for number, step in enumerate(steps):
        accesses = [_access(step, argument) for argument in step.kernel.source.arguments if argument.has_memory]
        if any(_conflict(old, new) for old in open_accesses for new in accesses):
            barriers.append(number)
            open_accesses = []
        open_accesses += accesses
    return barriers


def _access(step: Step, argument: Argument) -> _Access:
    operand, view = step.operands[argument.name], argument.view
    end = operand.offset + operand.nbytes if operand.nbytes else UNKNOWN_END
    stride = width = 0
    if isinstance(view, Sliced):
        unit = SLICE_BYTES[view.storage]
        stride, width = unit * view.stride, unit * slices(view.shape[3])
    return _Access(operand.resource, "w" in argument.access, Range(operand.offset, end, stride, width))


def _conflict(old: _Access, new: _Access) -> bool:
    same = old.resource is new.resource or (isinstance(old.resource, Slot) and old.resource == new.resource)
    return same and (old.writes or new.writes) and old.range.meets(new.range)
