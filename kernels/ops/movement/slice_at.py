"""The slice from a place that is known only while the model runs: SLICE and STRIDED_SLICE with computed starts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...operation import Launch, Lowering, Operation, Unsupported
from ...tensor import strides_of
from .strided_copy import Digit, launch_strided_copy

MOST_STARTS = 4
"""The most dimensions along which the kernel reads a start. A limit of its text, not of a device."""


@dataclass(frozen=True)
class Start:
    """Number ``place`` of the second input: the start along a dimension whose neighbours are ``stride`` values apart.

    A negative start counts from the end if ``wrap`` is the dimension's size. A start outside 0 to ``last`` is clamped.
    (LiteRT stops there, or reads memory outside the tensor; a kernel can do neither.)
    """

    place: int
    stride: int
    last: int
    wrap: int = 0


@dataclass(frozen=True)
class SliceAt(Operation):
    """Values of the input in the order of ``digits``, as a tensor of a ``destination`` shape.

    The first one is number ``base`` of the input, moved by ``starts``.
    """

    digits: tuple[Digit, ...]
    base: int
    starts: tuple[Start, ...]
    destination: tuple[int, ...]

    def output_shapes(self, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [self.destination]

    def lower(self, lowering: Lowering) -> list[Launch]:
        """One dispatch."""
        source, numbers = lowering.inputs
        alignment = tuple(start.stride for start in self.starts)
        copy = launch_strided_copy(lowering, source, lowering.outputs[0], self.digits, self.base, alignment)
        constants = dict(copy.constants)
        for number in range(MOST_STARTS):
            start = self.starts[number] if number < len(self.starts) else Start(0, 0, 0)
            constants |= {f"PLACE_{number}": start.place, f"START_{number}": start.stride}
            constants |= {f"LAST_{number}": start.last, f"WRAP_{number}": start.wrap}
        return [Launch("slice_at", {"src": source, "starts": numbers}, copy.writes, copy.group_count, constants)]


def slice_at(
    shape: Sequence[int],
    fixed: Sequence[tuple[int, int, int]],
    places: Mapping[int, int],
    destination: tuple[int, ...],
    *,
    from_end: bool,
) -> SliceAt:
    """The slice of an input of this ``shape``. ``fixed`` has (first, count, step) for each dimension.

    ``places`` are the numbers of computed starts, by dimension. ``from_end``: negative starts count from the end.
    """
    digits, base, starts = list[Digit](), 0, list[Start]()
    for axis, ((first, count, step), stride) in enumerate(zip(fixed, strides_of(shape), strict=True)):
        digits.append((count, step * stride))
        last = shape[axis] - 1 - (count - 1) * step
        if axis not in places:
            base += first * stride
        elif last > 0:  # all of the dimension starts at 0
            starts.append(Start(places[axis], stride, last, shape[axis] if from_end else 0))
    if len(starts) > MOST_STARTS:
        raise Unsupported(f"it starts at {len(starts)} computed places; {MOST_STARTS} at most are supported")
    assert math.prod(destination) == math.prod(count for _, count, _ in fixed)
    return SliceAt(tuple(digits), base, tuple(starts), destination)
