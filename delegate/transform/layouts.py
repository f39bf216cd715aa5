"""Orders of values in memory, and how chains of operators that only move values change them.

A layout is a list of dimensions. Each is a list of digits (size, stride), the outermost first, as a strided copy has
them: index i of the dimension, written as a number with these digits, lies at the sum of digit * stride.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...kernels.ops.movement.reshape import ExpandDimensions, Reshape, Squeeze
from ...kernels.ops.movement.strided_copy import Digit, Rearrangement, StridedCopy, merged_digits
from ...kernels.tensor import bhwc, ranked, strides_of
from .graph import Graph, Node

Dimension = tuple[Digit, ...]


@dataclass(frozen=True)
class Layout:
    """The place of each value of a tensor in another one's memory, counted in values from ``base`` on."""

    dimensions: tuple[Dimension, ...]
    base: int = 0

    def before(self, digits: Sequence[Digit], base: int) -> Layout | None:
        """The layout in the input of a copy, if this one is that in its result. None if a digit of this layout is no
        whole number of the copy's digits, or the reverse.
        """
        places = strides_of([size for size, _ in digits])
        rest, start = self.base, base
        used: list[int] = []
        for (_, stride), place in zip(digits, places, strict=True):
            start += rest // place * stride
            used.append(rest // place)
            rest %= place
        found: list[Dimension] = []
        for dimension in self.dimensions:
            parts: list[Digit] = []
            for digit in dimension:
                split = _split(digit, digits, places, used)
                if split is None:
                    return None
                parts += split
            found.append(tuple(merged_digits(parts)))
        inside = all(most < size for most, (size, _) in zip(used, digits, strict=True))
        return Layout(tuple(found), start) if inside else None


def _split(digit: Digit, digits: Sequence[Digit], places: Sequence[int], used: list[int]) -> list[Digit] | None:
    """A digit in the result of a copy as digits in its input. ``used`` has the largest value of each of the copy's
    digits so far; the digit's own are added to it.
    """
    size, stride = digit
    found: list[Digit] = []
    for number in reversed(range(len(digits))):  # the innermost first
        place, (most, step) = places[number], digits[number]
        if size == 1 or stride == 0:
            break
        if stride >= place * most or (most == 1):
            continue
        if stride % place or stride < 0 or most == 0:
            return None
        count = min(size, -(-most * place // stride))
        if count < size and (size % count or stride * count != most * place):
            return None
        used[number] += (count - 1) * (stride // place)
        found.insert(0, (count, stride // place * step))
        size, stride = size // count, stride * count
    if size > 1:
        if stride:
            return None
        found.insert(0, (size, 0))
    return found


def dense(shape: Sequence[int]) -> Layout:
    """The layout of a tensor in its own memory."""
    return Layout(tuple(((size, stride),) for size, stride in zip(shape, strides_of(shape), strict=True)))


def movement(graph: Graph, node: Node | None) -> tuple[tuple[Digit, ...], int] | None:
    """The digits and the base of a node that only moves the values of its one input; else None."""
    if node is None or node.epilogue or node.input_ops or len(node.inputs) != 1 or len(node.outputs) != 1:
        return None
    operation, shape = node.operation, graph.tensors[node.inputs[0]].shape
    if isinstance(operation, Reshape | Squeeze | ExpandDimensions):
        return ((math.prod(shape), 1),), 0
    if isinstance(operation, Rearrangement):
        fits = len(shape) == operation.input_rank  # or a reshape was taken out before it
        digits, base = operation.order(shape if fits else ranked(bhwc(shape), operation.input_rank))
        return tuple(digits), base
    return (operation.digits, operation.base) if isinstance(operation, StridedCopy) else None


def inverse(digits: Sequence[Digit], base: int) -> tuple[Digit, ...] | None:
    """The digits of the copy that undoes one; None if that leaves values out or repeats them."""
    places = strides_of([size for size, _ in digits])
    ordered = sorted(
        ((stride, size, place) for (size, stride), place in zip(digits, places, strict=True) if size > 1), reverse=True
    )
    sizes = [size for _, size, _ in ordered]
    if base or [stride for stride, _, _ in ordered] != list(strides_of(sizes)):
        return None
    return tuple((size, place) for _, size, place in ordered)
