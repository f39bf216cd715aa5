"""The order of launches: in levels, whose launches need nothing of one another and so run side by side.

A barrier, or the end of a launch, separates two levels. So the heads of a detector are a few levels, not dozens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...kernels.tensor import TensorId, slices
from ..lower.launches import LabelledLaunch, Lowered

Levels = list[list[LabelledLaunch]]


class _Part(NamedTuple):
    """The slices of a tensor in the memory of its parent: ``width`` of them at each of ``pixels`` steps of ``stride``
    from ``start`` on. A stride of 0 means all of the memory.
    """

    start: int = 0
    stride: int = 0
    width: int = 0
    pixels: int = 0

    @property
    def end(self) -> int:
        return self.start + (self.pixels - 1) * self.stride + self.width

    def meets(self, other: _Part) -> bool:
        """Whether both have a slice in common, or may have."""
        if not self.stride or not other.stride:
            return True
        if self.end <= other.start or other.end <= self.start:
            return False
        distance = (other.start - self.start) % self.stride
        return self.stride != other.stride or distance < self.width or distance + other.width > self.stride


@dataclass
class _Accesses:
    """The accesses of a parent's memory so far: each part, with the level of the launch."""

    read: list[tuple[_Part, int]] = field(default_factory=list)
    written: list[tuple[_Part, int]] = field(default_factory=list)


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


def _parts(tensors: Iterable[TensorId], lowered: Lowered) -> Iterator[tuple[TensorId, _Part]]:
    """The memory of each tensor: its parent, and its part of that."""
    for tensor in tensors:
        parent, alias = lowered.parent(tensor), lowered.alias(tensor)
        if alias is None or alias.parent != parent:  # all of it, or a frame of a part
            yield parent, _Part()
        else:
            batch, height, width, channels = lowered.shape(tensor)
            yield parent, _Part(alias.start, alias.pixel_stride, slices(channels), batch * height * width)
