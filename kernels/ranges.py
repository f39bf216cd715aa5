"""Ranges of memory that steps access, and whether two of them have a place in common."""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN_END = 1 << 62
"""The end of a range whose size is not known: behind every place of a memory."""


class Range(NamedTuple):
    """The places from ``start`` to ``end``; if ``stride`` is not 0, only ``width`` of them at each stride from the
    start on, such as the channels of each pixel that are a part of a concatenation. All in bytes, or all in slices.
    """

    start: int = 0
    end: int = UNKNOWN_END
    stride: int = 0
    width: int = 0

    def meets(self, other: Range) -> bool:
        """Whether both have a place in common, or may have."""
        if self.end <= other.start or other.end <= self.start:
            return False
        if not self.stride or self.stride != other.stride:
            return True
        distance = (other.start - self.start) % self.stride
        return distance < self.width or distance + other.width > self.stride
