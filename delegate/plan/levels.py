"""The order of launches: in levels, whose launches need nothing of one another and so run side by side.

A barrier, or the end of a launch, separates two levels. So the heads of a detector are a few levels, not dozens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ...kernels.ranges import Range
from ...kernels.tensor import TensorId, slices
from ..lower.launches import LabelledLaunch, Lowered

Levels = list[list[LabelledLaunch]]


@dataclass
class _Accesses:
    """The accesses of a parent's memory so far: each range in slices, with the level of the launch."""

    read: list[tuple[Range, int]] = field(default_factory=list)
    written: list[tuple[Range, int]] = field(default_factory=list)


def orders_in_levels(launches: Sequence[LabelledLaunch], lowered: Lowered) -> Iterator[Levels]:
    """The launches in as few levels as possible, each in the first level that it can be in; then each in the last one,
    unless that is the same. One of the two orders needs less memory: it depends on the model.
    """
    first = _in_levels(launches, lowered)
    yield first
    last = [level[::-1] for level in reversed(_in_levels(launches[::-1], lowered))]
    if last != first:
        yield last


def _in_levels(launches: Sequence[LabelledLaunch], lowered: Lowered) -> Levels:
    """Each launch in the first level behind those of all launches before it that write what it reads or writes, or read
    what it writes. Reversed launches give the last levels: what must not be exchanged is the same.
    """
    levels, accesses = Levels(), dict[TensorId, _Accesses]()
    for entry in launches:
        read, written = list(_parts(entry.reads, lowered)), list(_parts(entry.launch.writes.values(), lowered))
        level = 0
        for touched, writes in ((read, False), (written, True)):
            for parent, part in touched:
                known = accesses.setdefault(parent, _Accesses())
                before = (*known.written, *known.read) if writes else known.written
                level = max([level, *(other + 1 for there, other in before if there.meets(part))])
        for parent, part in read:
            accesses[parent].read.append((part, level))
        for parent, part in written:
            accesses[parent].written.append((part, level))
        if level == len(levels):
            levels.append([])
        levels[level].append(entry)
    return levels


def _parts(tensors: Iterable[TensorId], lowered: Lowered) -> Iterator[tuple[TensorId, Range]]:
    """The memory of each tensor: its parent, and its range of that in slices."""
    for tensor in tensors:
        parent, alias = lowered.parent(tensor), lowered.alias(tensor)
        if alias is None or alias.parent != parent:  # all of it, or a frame of a part
            yield parent, Range()
        else:
            batch, height, width, channels = lowered.shape(tensor)
            pixels, count = batch * height * width, slices(channels)
            end = alias.start + (pixels - 1) * alias.pixel_stride + count
            yield parent, Range(alias.start, end, alias.pixel_stride, count)
